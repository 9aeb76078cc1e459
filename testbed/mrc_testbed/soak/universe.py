"""One universe: a Scenario document, run in virtual time with ties in an order of their own, and judged.

It goes through the runner of every other run: what `mrc-testbed run FILE --virtual` does, but for the order
of ties, fewer readings and the result folder.
"""

import hashlib
import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from mrc_agents.abi import PortCounters
from mrc_agents.bpf.maps import PerCpuArray
from mrc_agents.nic.device import NicDevice
from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.scenario.measure.event import Note
from mrc_testbed.scenario.measure.recording import Journal, Recording
from mrc_testbed.scenario.run.runner import Runner
from mrc_testbed.scenario.run.signal_clock import NO_DESCRIPTOR, SignalClock
from mrc_testbed.scenario.spec.plan import READING_INTERVAL_NS
from mrc_testbed.soak.document import Values, plan_of
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.invariants import (
    Failure,
    Reach,
    Witness,
    control_plane,
    is_at_rest,
    judge_fabric,
    judge_run,
)
from mrc_testbed.soak.shrink import RefusedDocumentError
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import VirtualLab
from mrc_testbed.virtual.world import planned_lab, world_in

EVENTS_MAX: Final = 3_000_000
"""Events of the simulation; of 2500 good ones of MRC none had a third of it. One with so many has no end."""
NO_LIMIT: Final = 1 << 62
"""More events than any scenario takes: for those that nobody drew."""
SETTLE_NS: Final = 3_000_000_000
"""After the run, at most: what is still on its way arrives, and what has a time-out runs out."""
SETTLES_MAX: Final = 4
"""Such times, while the fabric is not as before: a port drains for as long as more came than it carries."""
_LOOK_NS: Final = 500_000_000
"""From one look to the next; the last is when no QP has anything under way."""


IsStopped = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Universe:
    failures: tuple[Failure, ...]  # invariants that do not hold; none in a good one
    digest: str  # of everything counted: equal universes have equal ones
    time_ns: int  # how long it lasted
    events: int  # of the simulation


def run_document(document: Values, is_stopped: IsStopped = lambda: False, events_max: int = 0) -> Universe:
    plan = replace(plan_of(document), reading_interval_ns=READING_INTERVAL_NS)
    machine = UniverseLimit(is_stopped, events_max)
    with planned_lab(plan, machine, shuffles_ties=True) as lab:
        machine.lab = lab
        before = control_plane(lab)
        with closing(Witness(lab)) as witness, world_in(lab, plan, machine) as world:
            runner = Runner(plan, world, _Journal(lab, witness, Reach(plan)), lambda _: None)
            ending = runner.run()
        failures = judge_run(plan, runner.recording, ending, witness)
        for host in [agent.host for agent in lab.agents if agent.is_alive]:
            with closing(VirtualConnection(lab, host)) as connection:
                connection.stop_link_probes()
        for _ in range(SETTLES_MAX):
            lab.run_until(lab.runtime.now_ns() + SETTLE_NS)
            if not (left := judge_fabric(lab, before)):
                break
        failures += left
        digest = _digest(lab, runner.recording)
        time_ns, events = lab.runtime.now_ns(), lab.runtime.totals().events
        if events >= machine.events_max:  # what else does not hold follows from that
            late = Failure("events", f"no end after {events}, at {time_ns} ns")
            failures = [late] if plan.transport.kind == "mrc" else []  # go-back-N may send that much
        return Universe(tuple(failures), digest, time_ns, events)


class UniverseLimit(SignalClock):
    """Interrupts a run: by request, or one without end.

    Args:
        events_max: events after which to stop; 0: EVENTS_MAX.
    """

    def __init__(self, is_stopped: IsStopped, events_max: int = 0) -> None:
        super().__init__(NO_DESCRIPTOR)
        self._is_stopped = is_stopped
        self.events_max = events_max or EVENTS_MAX  # events after which it stops
        self.lab: VirtualLab | None = None  # whose events count, once there is one

    def interruption(self) -> str | None:
        if self._is_stopped():
            return "request"
        if self.lab is None or self.lab.runtime.totals().events < self.events_max:
            return None
        return f"the limit of {self.events_max} events"


class _Journal(Journal):
    """Has the witness look while QPs are there; a collective ends before its last acknowledgement."""

    def __init__(self, lab: VirtualLab, witness: Witness, reach: Reach) -> None:
        self._lab = lab
        self._witness = witness
        self._reach = reach

    def note(self, recording: Recording, note: Note) -> None:
        del recording
        if note.what == "run-ended":
            for _ in range(0, SETTLE_NS, _LOOK_NS):
                self._lab.run_until(self._lab.runtime.now_ns() + _LOOK_NS)
                self._witness.look()
                if is_at_rest(self._witness, self._reach):
                    break


def _digest(lab: VirtualLab, recording: Recording) -> str:
    counters = PerCpuArray(lab.fabric_pins.map_fd("port_counters"), PortCounters)
    seen = hashlib.sha256(repr(lab.runtime.now_ns()).encode())
    for port_id in range(len(counters)):
        seen.update(repr(counters.sum(port_id)).encode())
    for host in lab.clos.hosts():
        seen.update(repr(NicDevice(lab.node_pins(host.name)).counters()).encode())
    for part in (recording.outcomes, recording.nic_events, recording.fault_changes, recording.operations):
        seen.update(repr(part).encode())
    return seen.hexdigest()


REPEATED: Final = 10
"""One in so many universes runs twice."""

_log = logging.getLogger(__name__)
_candidate_log = _log.getChild("candidate")
_candidate_log.setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Judged:
    seed: int  # its number
    failures: tuple[Failure, ...]  # invariants that do not hold; none in a good one
    time_ns: int  # how long it lasted
    events: int  # of the simulation


def judge(
    document: Values,
    *,
    is_repeated: bool = False,
    is_candidate: bool = False,
    is_stopped: IsStopped = lambda: False,
    events_max: int = 0,
) -> Universe:
    """Judge a universe; an exception is a failure of its own kind.

    Args:
        is_repeated: whether it runs twice, and both have to come to the same.
        is_candidate: whether it is one of many that lead to a smaller failure: its exceptions go unlogged.
        events_max: events after which it stops too, and has failed; 0: EVENTS_MAX.
    """
    log = _candidate_log if is_candidate else _log
    try:
        outcome = run_document(document, is_stopped, events_max)
        again = run_document(document, is_stopped, events_max) if is_repeated else outcome
    except PreflightError:
        raise
    except Exception as error:
        log.exception("%s", document["metadata"]["name"])
        return Universe((Failure(type(error).__name__, str(error)),), "", 0, 0)
    if again == outcome:
        return outcome
    digests = Failure("digest", f"{outcome.digest} and {again.digest} of one universe")
    return Universe((*outcome.failures, digests), outcome.digest, outcome.time_ns, outcome.events)


def judge_candidate(invariant: str, document: Values, is_stopped: IsStopped, events_max: int) -> Universe:
    """Judge a document that may fail by an invariant."""
    require_plan(document)
    is_repeated = invariant == "digest"
    return judge(
        document, is_repeated=is_repeated, is_candidate=True, is_stopped=is_stopped, events_max=events_max
    )


def require_plan(document: Values) -> None:
    """Raise RefusedDocumentError if the scenario language refuses a document."""
    try:
        plan_of(document)
    except UsageError as error:
        raise RefusedDocumentError(error.message) from error


def judge_seed(seed: int) -> Judged:
    outcome = judge(draw_universe(seed), is_repeated=seed % REPEATED == 0)
    return Judged(seed, outcome.failures, outcome.time_ns, outcome.events)
