"""The interface of the live world for the runner, and no more.

`scenario.run.live` fulfils these with a real lab; `virtual.world` with one in virtual time. All times are
CLOCK_MONOTONIC in ns unless they say otherwise.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.metrics.series import Reading
from mrc_testbed.scenario.measure.event import FaultChange, NicEvent
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.spec.plan import Plan


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
        """While the context lasts, the lab's metrics name the run as the one that uses it."""

    def show_recovery(self, recoveries: Sequence[Recovery]) -> None:
        """Lets the lab's metrics show how the run recovered from its faults."""
