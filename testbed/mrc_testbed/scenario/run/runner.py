"""Carries a plan out: one thread, one clock, deadlines; writes down what really happened.

Order of a run: prepare workloads, start programs and await their first steps, start the others, end of
warm-up (time 0), the timeline, stop workloads, clear what is still in force, compare memory, last reading.
Whatever goes wrong, faults are reverted, QPs are destroyed, and what was measured up to then is returned.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mrc_testbed.errors import CleanupError, TestbedError
from mrc_testbed.scenario.measure.abort_watch import AbortWatch
from mrc_testbed.scenario.measure.event import FaultChange, Note
from mrc_testbed.scenario.measure.recording import FlowReading, Journal, Recording
from mrc_testbed.scenario.measure.trust import lateness_of_warmup
from mrc_testbed.scenario.measure.verdict import Ending, Status
from mrc_testbed.scenario.run.protocols import Clock, CounterSource, FaultInjector
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.timeline import (
    Action,
    ChangeFault,
    EndWarmup,
    StartWorkload,
    StopWorkload,
    build_timeline,
)
from mrc_testbed.shown import format_time
from mrc_testbed.signals import exit_status
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.units import format_duration_ns
from mrc_testbed.workloads.engine import Engine

COLLECT_TIMEOUT_NS: Final = 10 * 10**9
"""Time for messages in flight to complete once their workload was stopped."""

EDGE_READINGS_MAX: Final = 4
"""Readings at edges of a flap from one usual reading to the next: a fast flap must not flood."""

_INTERVALS_SO_FAR: Final = 100
"""Readings of a program in virtual time, which may be over at any time, and which they make no later: one a
step, as long as the first was, until there are so many; then so many in the time so far."""

_READINGS_OF_JOB: Final = 1000
"""Readings of a program in a lab, without faults: so many at the usual distance, then fewer and fewer."""

FLOW_READING_COST_SHARE: Final = 20
"""Flows are read so that it takes at most one part in so many of the time; fault edges are read anyway."""


class _Stopped(Exception):  # noqa: N818 - not an error: it ends the timeline early
    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


@dataclass(frozen=True, slots=True)
class World:
    """The live things a run works on."""

    clock: Clock
    injector: FaultInjector
    workloads: Engine
    sampler: CounterSource
    is_simulated: bool = False  # whether its time is a simulation's, which no machine can make late
    # how many frames have crossed a link sooner than its port's rate allows
    early_frames: Callable[[], int] = lambda: 0


class Runner:
    """One run of a plan.

    Args:
        journal: called with everything as it happens.
        progress: called with each step, in words, for people.
    """

    def __init__(self, plan: Plan, world: World, journal: Journal, progress: Callable[[str], None]) -> None:
        self._plan = plan
        self._world = world
        self._clock = world.clock
        self._journal = journal
        self._progress = progress
        self._abort = AbortWatch(plan.abort)
        self._pending: list[Action] = []
        self._running: list[str] = []
        self._started: list[str] = []
        self._next_reading_ns = 0
        self._flow_reading_ns = 0
        self._ring_drops_before = 0
        self.recording = Recording(plan, start_ns=self._clock.now_ns(), is_simulated=world.is_simulated)
        self.error: TestbedError | None = None

    def run(self) -> Ending | None:
        """Why the run did not end as planned; None when it did.

        `recording` holds what was measured, `error` what ended the run if that was an error.
        """
        ending: Ending | None = None
        try:
            self._prepare()
            self._start_programs()
            self._perform_timeline()
            self._end()
        except _Stopped as stopped:
            ending = stopped.ending
        except KeyboardInterrupt:
            ending = Ending(Status.INTERRUPTED, "interrupted", exit_status())
        except TestbedError as error:
            status = Status.INTERRUPTED if error.exit_code == Status.INTERRUPTED.exit_code else Status.ERROR
            ending = Ending(status, error.message, error.exit_code)
            self.error = error
        finally:
            failure = self._clean_up()
        return failure or ending

    def _prepare(self) -> None:
        self._progress("preparing workloads: memory, QPs")
        loads = [workload.load for workload in self._plan.workloads]
        self._world.workloads.prepare(loads, self._plan.seed, self._journal.note_output)
        self._ring_drops_before = self._world.sampler.ring_drops()
        self._stop_if_asked()
        self._world.injector.make_ready(self._plan.faults)
        self._pending = list(build_timeline(self._plan))
        self.recording.start_ns = self._clock.now_ns()
        self._next_reading_ns = self.recording.start_ns
        self._read()

    def _start_programs(self) -> None:
        """Start programs and wait for their first steps; the timeline begins with the last one's."""
        programs = {
            each.name: each.timeout_ns or 0
            for each in self._plan.workloads
            if each.program is not None and each.program.reports_steps is not False
        }
        if not programs:
            return
        begun_ns = self._clock.now_ns()
        for action in [*self._pending]:
            if isinstance(action, StartWorkload) and action.name in programs:
                self._pending.remove(action)
                self._perform(action)
        for name, timeout_ns in programs.items():
            self._progress(f"waiting for the first step of {name}")
            while not self._has_stepped(name) and not self._world.workloads.is_finished(name):
                if self._clock.now_ns() - begun_ns >= timeout_ns:
                    after = format_duration_ns(timeout_ns)
                    reason = f"workload {name}: rank 0 had not reported a step after {after}"
                    raise _Stopped(Ending(Status.ERROR, reason))
                self._world.workloads.await_step(name, min(begun_ns + timeout_ns, self._next_reading_ns))
                self._stop_if_asked()
                if self._clock.now_ns() >= self._next_reading_ns:
                    self._read(is_needed=False)
        if all(map(self._has_stepped, programs)):
            self.recording.start_ns = self._clock.now_ns()
            # a machine that loads programs is busy, and nothing was measured yet
            self.recording.latest_ns = 0
        else:  # it is over, and had no step to report: time 0 is its start
            self.recording.zero_ns = self.recording.start_ns
            self._pending.clear()

    def _has_stepped(self, name: str) -> bool:
        """Return True if a program has made a step; ends the run if the program has failed."""
        state = self._world.workloads.program(name)
        if state is not None and state.error is not None:
            raise _Stopped(Ending(Status.ERROR, f"workload {name}: {state.error}"))
        return state is not None and state.has_stepped

    def _perform_timeline(self) -> None:
        while self._pending or self._running:
            due_ns = self._due_ns(self._pending[0]) if self._pending else self._next_reading_ns
            self._wait_until(min(due_ns, self._next_reading_ns))
            while self._pending and self._due_ns(self._pending[0]) <= self._clock.now_ns():
                self._perform(self._pending.pop(0))
                self._stop_if_asked()
            if self._clock.now_ns() >= self._next_reading_ns:
                self._read(is_needed=False)
                self._note_finished()

    def _due_ns(self, action: Action) -> int:
        recording = self.recording
        zero_ns = recording.start_ns - self._plan.start_ns if recording.zero_ns is None else recording.zero_ns
        return zero_ns + action.at_ns

    def _wait_until(self, deadline_ns: int) -> None:
        self._clock.wait_until_ns(deadline_ns)
        self._stop_if_asked()
        self.recording.latest_ns = max(self.recording.latest_ns, self._clock.now_ns() - deadline_ns)

    def _stop_if_asked(self) -> None:
        why = self._clock.interruption()
        if why is not None:
            raise _Stopped(Ending(Status.INTERRUPTED, f"interrupted by {why}", exit_status()))

    def _perform(self, action: Action) -> None:
        match action:
            case StartWorkload(name=name):
                self._world.workloads.start(name)
                self._running.append(name)
                self._started.append(name)
                self._note(
                    f"workload {name} started", self._clock.now_ns(), "workload-started", workload=name
                )
            case EndWarmup():
                self._read()
                self.recording.zero_ns = self.recording.readings[-1].time_ns
                self._note("warm-up is over", self.recording.zero_ns, "warmup-ended")
                if late := lateness_of_warmup(self.recording):
                    raise _Stopped(Ending(Status.UNTRUSTED, late))
            case StopWorkload(name=name):
                self._read()
                self._workload_ended(name)
                self._world.workloads.stop(name)
            case ChangeFault(action="apply"):
                self._apply(action)
            case ChangeFault():
                self._clear(action)

    def _apply(self, action: ChangeFault) -> None:
        if not self._running:
            last_ns = max(self.recording.workload_ends.values(), default=self.recording.start_ns)
            reason = (
                f"fault {action.fault.fault_id} was due at {format_duration_ns(action.at_ns)}, but all "
                f"workloads had finished by {format_time(self.recording.relative_ns(last_ns))}; "
                "let one of them last longer"
            )
            raise _Stopped(Ending(Status.ERROR, reason))
        self._changed(self._world.injector.apply(action.fault, action.index))
        self._read_at_edge(is_needed=action.index == 0)

    def _clear(self, action: ChangeFault) -> None:
        self._changed(self._world.injector.clear(action.fault))
        is_last = not any(
            isinstance(later, ChangeFault) and later.fault.fault_id == action.fault.fault_id
            for later in self._pending
        )
        self._read_at_edge(is_needed=is_last)

    def _read_at_edge(self, *, is_needed: bool) -> None:
        """A reading at a fault's edge: where a window begins or ends, else unless one was just taken.

        It comes after the change, because on a saturated machine a reading takes tens of milliseconds and
        would make the fault late.
        """
        since_ns = self._clock.now_ns() - self.recording.readings[-1].time_ns
        if is_needed or since_ns >= self._plan.reading_interval_ns // EDGE_READINGS_MAX:
            self._read()

    def _changed(self, change: FaultChange) -> None:
        self.recording.fault_changes.append(change)
        self._journal.note_change(self.recording, change)
        if not any(fault.is_hidden for fault in self._plan.faults if fault.fault_id == change.fault_id):
            self._progress(f"{change.fault_id} {change.action}")

    def _workload_ended(self, name: str) -> None:
        self._running.remove(name)
        end_ns = self._end_ns(name)
        self.recording.workload_ends[name] = end_ns
        if len(self.recording.workload_ends) == len(self._plan.workloads):
            self.recording.end_ns = max(self.recording.workload_ends.values())
        self._note(f"workload {name} ended", end_ns, "workload-ended", workload=name)

    def _end_ns(self, name: str) -> int:
        """When a workload had ended: a program or trace with its last step, its processes take longer."""
        has_steps = any(each.name == name and (each.program or each.trace) for each in self._plan.workloads)
        steps = self._world.workloads.operations(name) if has_steps else ()
        return steps[-1].end_ns if steps else self.recording.readings[-1].time_ns

    def _is_program(self, name: str) -> bool:
        return any(each.name == name and each.program for each in self._plan.workloads)

    def _note_finished(self) -> None:
        """Looks for workloads by iterations, and programs, that are through, failed or overdue."""
        for workload in self._plan.workloads:
            if workload.timeout_ns is None or workload.name not in self._running:
                continue
            is_finished = self._world.workloads.is_finished(workload.name)
            if workload.program is not None:
                self._has_stepped(workload.name)
            if is_finished:
                self._workload_ended(workload.name)
            elif self.recording.relative_ns(self._clock.now_ns()) > workload.timeout_ns:
                end = f"finished its {workload.iterations} iterations" if workload.iterations else "ended"
                reason = (
                    f"workload {workload.name} had not {end} after {format_duration_ns(workload.timeout_ns)}"
                )
                raise _Stopped(Ending(Status.ERROR, reason))

    def _read_flows(self, *, is_needed: bool) -> None:
        """Read the acknowledged bytes of each flow; with thousands of flows not at every reading."""
        readings = self.recording.flow_readings
        begun_ns = self._clock.now_ns()
        since_ns = begun_ns - readings[-1].time_ns if readings else 0
        if is_needed or since_ns >= FLOW_READING_COST_SHARE * self._flow_reading_ns:
            readings.append(FlowReading(begun_ns, self._world.workloads.acknowledged_bytes()))
            self._flow_reading_ns = self._clock.now_ns() - begun_ns

    def _read(self, *, is_needed: bool = True) -> None:
        has_read = is_needed or self._is_reading_due()
        if has_read:
            self.recording.readings.append(self._world.sampler.read())
            self._read_flows(is_needed=is_needed)
        for event in self._world.sampler.drain_events():
            self.recording.nic_events.append(event)
            self._journal.note_nic_event(self.recording, event)
        if has_read:
            self._journal.note_reading(self.recording)
        now_ns = self._clock.now_ns()
        while self._next_reading_ns <= now_ns:
            self._next_reading_ns += self._plan.reading_interval_ns
        self._next_reading_ns = min(self._next_reading_ns, now_ns + self._interval_ns(now_ns))
        self._note_deadlock()
        reason = self._abort.check(self.recording)
        if reason is not None:
            raise _Stopped(Ending(Status.ABORTED, reason))

    def _is_reading_due(self) -> bool:
        """Return False if a job that may last for days has readings enough for the time so far."""
        if self._world.is_simulated or self._plan.faults or not any(map(self._is_program, self._running)):
            return True
        readings, now_ns = self.recording.readings, self._clock.now_ns()
        return now_ns - readings[-1].time_ns >= (now_ns - readings[0].time_ns) // _READINGS_OF_JOB

    def _interval_ns(self, now_ns: int) -> int:
        """Longest time from a reading now to the next one."""
        usual_ns, begun_ns = self._plan.reading_interval_ns, self.recording.readings[0].time_ns
        first_step_ns = self.recording.start_ns - begun_ns
        if not self._world.is_simulated or first_step_ns <= 0:  # no program, or its first step is under way
            return usual_ns
        return min(usual_ns, max(first_step_ns, (now_ns - begun_ns) // _INTERVALS_SO_FAR))

    def _note_deadlock(self) -> None:
        """Writes it down when ports have come to hold each other for ever, once for each set of them."""
        *earlier, latest = self.recording.readings[-2:]
        now = latest.deadlock
        if now is None or any(reading.deadlock == now for reading in earlier):
            return
        clos = resolve_topology(self._plan.topology)
        ports = " -> ".join(clos.port(port_id).name for port_id in (*now.cycle, now.cycle[0]))
        self._note(f"deadlock: {ports}", now.since_ns, "deadlock", ports=ports)

    def _end(self) -> None:
        """End a whole run: revert faults without an end, compare memory, read once more."""
        for change in self._world.injector.clear_all():
            self._changed(change)
        self._progress("comparing received memory")
        deadline_ns = self._clock.now_ns() + COLLECT_TIMEOUT_NS
        self.recording.outcomes.extend(self._world.workloads.collect(deadline_ns))
        self._read()
        self.recording.early_frames = self._world.early_frames()
        self.recording.ring_drops = self._world.sampler.ring_drops() - self._ring_drops_before
        self._note("run is over", self._clock.now_ns(), "run-ended")

    def _clean_up(self) -> Ending | None:
        """Why the lab is not as it was before; None when it is. Every step is tried."""
        failures: list[TestbedError] = []
        for name in self._started:
            self.recording.operations[name] = self._world.workloads.operations(name)
            self.recording.batches[name] = self._world.workloads.batches(name)
            state = self._world.workloads.program(name)
            if state is not None:
                self.recording.programs[name] = state
        try:
            for change in self._world.injector.clear_all():
                self._changed(change)
        except TestbedError as error:
            failures.append(error)
        try:
            self._world.workloads.close()
        except TestbedError as error:
            failures.append(error)
        if not failures:
            return None
        reason = "; ".join(error.message for error in failures)
        return Ending(Status.ERROR, f"clean-up is incomplete: {reason}", CleanupError.exit_code)

    def _note(self, words: str, time_ns: int, what: str, **details: str) -> None:
        note = Note(time_ns, what, details)
        self.recording.notes.append(note)
        self._journal.note(self.recording, note)
        self._progress(words)
