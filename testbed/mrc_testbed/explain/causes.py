"""The causes of time that an operation takes, and the faults behind them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from mrc_testbed.faults.effects import (
    AgentDead,
    CarrierDown,
    Effect,
    Frozen,
    Hold,
    Loaded,
    RateShare,
    RoutesGone,
    Rule,
)
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.topology.clos import Clos

CauseKind = Literal[
    "computing",  # of a training step
    "lost packets",  # from when a packet was sent until it was found lost, and was not any more
    "late packets",  # the same of a packet that was given up and was not lost
    "queueing",  # in the queue of a port
    "held by flow control",
    "delayed on a link",  # by a fault
    "on the wire",  # serialisation and propagation
    "agent did not run",  # that of a host
    "could do nothing",  # the QP had no credit, and nothing on its way that would bring it
    "not explained",
]


_OnAgent = AgentDead | Frozen


class Cause(NamedTuple):
    """One reason for time to pass, at one place."""

    kind: CauseKind
    place: str = ""  # port or host; empty: nowhere in particular
    flow: str = ""  # queueing: the flow with most bytes ahead; lost: the packet's
    fault: str = ""  # id of the fault that is to blame; empty: none is
    rule: str = ""  # lost: what found it
    lost_ns: int | None = None  # lost: when, on the run's axis; None: nobody knows
    found_ns: int = 0  # lost: from then until it was found


@dataclass(frozen=True, slots=True)
class Segment:
    """Time of an operation that has one cause, in ns of the lab's clock."""

    begin_ns: int
    end_ns: int
    cause: Cause

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.begin_ns


class FaultTimes:
    """The faults of a run, by when they acted and what they can cause."""

    def __init__(self, clos: Clos, recording: Recording) -> None:
        self._clos = clos
        self._acting = [
            (fault, each.applied.before_ns, each.cleared.after_ns if each.cleared else None)
            for fault in recording.plan.faults
            for each in recording.occurrences(fault.fault_id)
        ]

    def behind(self, kind: CauseKind, port_id: int, begin_ns: int, end_ns: int) -> str:
        """Id of a fault that can cause such time at a port and acted then; empty: there is none."""
        for fault, applied_ns, cleared_ns in self._acting:
            causes = (self._causes(effect, kind, port_id) for effect in fault.effects)
            if _overlap(begin_ns, end_ns, applied_ns, cleared_ns) and any(causes):
                return fault.fault_id
        return ""

    def of_hosts(self, hosts: Iterable[str], begin_ns: int, end_ns: int) -> tuple[str, str]:
        """Host whose agent did not run then, and the fault that is to blame; empty: all ran."""
        for host, (fault, applied_ns, cleared_ns) in product(hosts, self._acting):
            effects = [each for each in fault.effects if isinstance(each, _OnAgent) and each.host == host]
            # QPs do not come back with an agent
            is_final = any(isinstance(each, AgentDead) for each in effects)
            if effects and _overlap(begin_ns, end_ns, applied_ns, None if is_final else cleared_ns):
                return host, fault.fault_id
        return "", ""

    def acting(self, begin_ns: int, end_ns: int) -> tuple[str, ...]:
        """Faults in force then, each with its kind and place."""
        found = dict.fromkeys(
            f for f, since_ns, until_ns in self._acting if _overlap(begin_ns, end_ns, since_ns, until_ns)
        )
        return tuple(f"{fault.fault_id} ({fault.kind} at {_first(fault)})" for fault in found)

    def _causes(self, effect: Effect, kind: CauseKind, port_id: int) -> bool:
        match effect:
            case Rule(port_id=at):
                causes = at == port_id and kind == (
                    "lost packets" if effect.is_losing else "delayed on a link"
                )
            case CarrierDown(port_id=at):
                causes = kind == "lost packets" and at in (port_id, port_id ^ 1)
            case RoutesGone(switch=name):
                causes = kind == "lost packets" and self._clos.port(port_id ^ 1).node.name == name
            case RateShare(port_id=at):
                causes = kind in ("queueing", "on the wire") and at == port_id
            case Loaded(load=load):
                causes = kind == "queueing" and load.port_id == port_id
            case _:
                causes = kind == "held by flow control" and isinstance(effect, Hold)
        return causes


def _overlap(begin_ns: int, end_ns: int, applied_ns: int, cleared_ns: int | None) -> bool:
    return applied_ns <= end_ns and (cleared_ns is None or begin_ns <= cleared_ns)


def _first(fault: ScheduledFault) -> str:
    first, *others = fault.nodes or fault.links
    return f"{first} and {len(others)} more" if others else first
