"""The interface of the live world for the runner, and no more.

`scenario.run.live` fulfils these with a real lab; `virtual.world` with one in virtual time. All times are
CLOCK_MONOTONIC in ns unless they say otherwise.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.metrics.series import Reading
from mrc_testbed.scenario.measure.event import FaultChange, NicEvent
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.spec.plan import Plan, PlannedTransport, PlannedWorkload
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.outcome import FlowOutcome
from mrc_testbed.workloads.program import Output, ProgramState


class Clock(Protocol):
    """Clock with cancellable waits."""

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC."""

    def utc_now(self) -> datetime:
        """The date, aware of its zone (UTC)."""

    def wait_until_ns(self, deadline_ns: int) -> None:
        """Returns at *deadline_ns*, or earlier when `interruption` came; at once if it is past."""

    def fileno(self) -> int:
        """Readable once `interruption` came; -1: none can come."""

    def interruption(self) -> str | None:
        """Reason for an early end, such as `SIGINT`; None while there is none."""


class FaultInjector(Protocol):
    """Applies and reverts faults; what it applied, it reverts even if this process dies."""

    def make_ready(self, faults: Sequence[ScheduledFault]) -> None:
        """Makes ready what takes a while, so that each fault acts at once when it is applied."""

    def apply(self, fault: ScheduledFault, index: int) -> FaultChange:
        """Puts an occurrence of *fault* in force, counted from 0."""

    def clear(self, fault: ScheduledFault) -> FaultChange:
        """Ends the occurrence that `apply` put in force."""

    def clear_all(self) -> Sequence[FaultChange]:
        """Ends whatever this injector has in force; none is a success."""


class WorkloadRunner(Protocol):
    """Sends what the plan says; the data path is in the kernel, so every call returns quickly."""

    def prepare(
        self,
        workloads: Sequence[PlannedWorkload],
        transport: PlannedTransport,
        seed: int,
        output: Output,
    ) -> None:
        """Registers and fills memory, creates and connects QPs. Nothing is sent yet.

        Args:
            workloads: of the plan.
            transport: of their messages.
            seed: of all that is random.
            output: receives each line that ranks of programs write, in any thread.
        """

    def start(self, name: str) -> None:
        """Begins to send. A workload by iterations sends its warm-up first, as prepared."""

    def stop(self, name: str) -> None:
        """Posts nothing more; messages under way complete."""

    def is_finished(self, name: str) -> bool:
        """Return True if every message of the workload has completed, its QPs have failed, or a program is
        over.
        """

    def acknowledged_bytes(self) -> Mapping[Flow, int]:
        """Payload of each flow acknowledged for the first time since it was connected."""

    def operations(self, name: str) -> Sequence[OperationRecord]:
        """Completed operations of a collective workload, steps of a program, oldest first; else none."""

    def program(self, name: str) -> ProgramState | None:
        """The state of a program that was started; None: the workload is none."""

    def await_step(self, name: str, deadline_ns: int) -> None:
        """Wait until a program has made its first step, or is over, but not beyond that time."""

    def collect(self, deadline_ns: int) -> Sequence[FlowOutcome]:
        """Waits for messages under way until *deadline_ns*, compares received memory, returns every flow.

        A flow whose messages did not complete has an `error` that says so.
        """

    def close(self) -> None:
        """Destroys QPs and deregisters memory; also after a failure, and more than once."""


class CounterSource(Protocol):
    def read(self) -> Reading:
        """The cumulative readings of now."""

    def ring_drops(self) -> int:
        """Frames that receive rings of links have lost since the lab was made."""

    def drain_events(self) -> Sequence[NicEvent]:
        """NIC events since the last call, in the order of their times."""


class LabView(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def runtime(self) -> str:
        """`docker` or `netns`."""

    def announced(self, plan: Plan, folder: Path) -> AbstractContextManager[None]:
        """While the context lasts, the lab's metrics name the run as the one that uses it.

        Args:
            plan: of the run.
            folder: of its results, named by the run's id.
        """

    def show_recovery(self, recoveries: Sequence[Recovery]) -> None:
        """Lets the lab's metrics show how the run recovered from its faults."""
