"""Runs in virtual time, which is the real C, in place of a live lab: something happens to them, or fails.

Virtual time has no signals, no late machine and no date that somebody sets, and its calls do not fail by
themselves: a test asks for them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from histograms import histogram_of
from host_tables import host_table
from stopped_clock import StoppedClock

from mrc_testbed.metrics.cpu_use import CpuReading, CpuTimes
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.series import Reading
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.run.runner import World
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import VirtualLab
from mrc_testbed.virtual.world import planned_lab, world_in
from mrc_testbed.workloads.engine import Engine

_BEGUN_NS: Final = 1
"""When a lab in virtual time begins."""


class TrialClock:
    """The lab's time and date, with what happens at times since the lab was made: None, it does not."""

    def __init__(self) -> None:
        self.lab: Clock = StoppedClock()
        self.interrupt_at_ns: int | None = None  # when a signal comes
        self.pause_at_ns: int | None = None  # when this process stands still, for pause_ns
        self.pause_ns = 0
        self.set_at_ns: int | None = None  # when somebody sets the date, by set_by
        self.set_by = timedelta()

    def now_ns(self) -> int:
        return self.lab.now_ns()

    def utc_now(self) -> datetime:
        return self.lab.utc_now() + (self.set_by if self._is_past(self.set_at_ns) else timedelta())

    def wait_until_ns(self, deadline_ns: int) -> None:
        self.lab.wait_until_ns(min(deadline_ns, self.interrupt_at_ns or deadline_ns))
        if self._is_past(self.pause_at_ns):
            self.pause_at_ns = None
            self.lab.wait_until_ns(self.now_ns() + self.pause_ns)

    def fileno(self) -> int:
        return -1

    def interruption(self) -> str | None:
        return "SIGINT" if self._is_past(self.interrupt_at_ns) else None

    def _is_past(self, time_ns: int | None) -> bool:
        return time_ns is not None and self.now_ns() >= time_ns


class Part:
    """A part of a world whose calls are noted, and come to what the test wants."""

    def __init__(self, part: object, trial: "Trial") -> None:
        self._part = part
        self._trial = trial

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._part, name)

        def call(*arguments: Any) -> Any:
            of = arguments[0] if arguments else None
            named = getattr(of, "fault_id", of)
            what = f"{name} {named}" if isinstance(named, str) else name
            self._trial.calls.append(what)
            result = method(*arguments)
            if what in self._trial.fail:
                raise self._trial.fail.pop(what)
            for change in self._trial.change[what]:
                result = change(result)
            return result

        return call


class Trial:
    """A run of a plan, and the lab as its results describe it.

    Args:
        plan: of the run; or the text of its scenario file.
        source: text of its scenario file, if there is one.
    """

    name = "trial"
    runtime = "netns"

    def __init__(self, plan: Plan | str, source: str | None = None) -> None:
        self.source = plan if isinstance(plan, str) else source
        self.plan = resolve(load_scenario(plan)) if isinstance(plan, str) else plan
        self.clock = TrialClock()
        # by call, such as `apply flap1` or `collect`, what it raises once it was carried out, once
        self.fail: dict[str, BaseException] = {}
        # by call, what makes another result of its result, one after the other
        self.change: defaultdict[str, list[Callable[[Any], Any]]] = defaultdict(list)
        self.change["read"].append(_busy)
        self.calls: list[str] = []  # of the run, in order
        self.left: list[object] = []  # faults and QPs that the run has left in the lab

    @contextmanager
    def world(self) -> Iterator[World]:
        """A lab and what the runner works on in it, as it were live; afterwards `left` is known."""
        machine = StoppedClock()
        with planned_lab(self.plan, machine) as lab, world_in(lab, self.plan, machine) as world:
            self.clock.lab = world.clock
            parts = (world.injector, self.replaced(world.workloads), world.sampler)
            try:
                yield World(self.clock, *(cast("Any", Part(part, self)) for part in parts))
            finally:
                self.left = [*world.injector.clear_all(), *_qps(lab)]

    def replaced(self, workloads: Engine) -> Engine:
        """Others in place of the lab's workloads; for subclasses."""
        return workloads

    def execute(self, runs: Path, progress: Callable[[str], None] = lambda _: None) -> FinishedRun:
        """The finished run, its results in the folder *runs*."""
        with self.world() as world:
            return execute(self.plan, self.source, world, self, runs, progress)

    def damage(self, count: int) -> None:
        """So many bytes of the first flow arrive wrong."""
        self.change["collect"].append(lambda flows: [replace(flows[0], wrong_bytes=count), *flows[1:]])

    def lose_events(self, count: int) -> None:
        """The ring of h0 overflows after the first reading."""

        def lose(reading: Reading) -> Reading:
            losing = replace(reading.hosts["h0"], events_lost=count * (reading.time_ns > _BEGUN_NS))
            return replace(reading, hosts=host_table({**reading.hosts, "h0": losing}))

        self.change["read"].append(lose)

    def be_late(self, late_ns: Sequence[int]) -> None:
        """From one reading to the next frames leave their queues so late."""
        lateness = Histogram()

        def late(reading: Reading) -> Reading:
            nonlocal lateness
            lateness += histogram_of(late_ns)
            return replace(reading, queue_lateness=lateness)

        self.change["read"].append(late)

    # -- the lab as results describe it

    @contextmanager
    def announced(self, plan: Plan, folder: Path) -> Iterator[None]:
        self.calls.append(f"announce {plan.scenario}/{folder.name} {plan.seed}")
        yield
        self.calls.append("announcement over")

    def show_recovery(self, recoveries: Sequence[Recovery]) -> None:
        self.calls += [f"recovery {recovery.fault_id}" for recovery in recoveries]


def _busy(reading: Reading) -> Reading:
    """A reading on a machine with two CPUs that are half idle; nobody knows how late frames are."""
    ticks = reading.time_ns // 10_000_000
    cpus = tuple(CpuTimes(str(cpu), ticks, ticks // 2, 0, 0) for cpu in range(2))
    return replace(reading, cpus=CpuReading(reading.time_ns, cpus), queue_lateness=None)


def _qps(lab: VirtualLab) -> list[object]:
    """QPs that agents have."""
    agents = [VirtualConnection(lab, agent.host) for agent in lab.agents if agent.is_alive]
    return [qp for agent in agents for qp in agent.list_qps()]
