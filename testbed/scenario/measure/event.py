"""An event at one instant of a run, as kernel or injector saw it; times are CLOCK_MONOTONIC. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mrc_testbed.agents.abi import EvState, QpState

LEFT_STATES: Final = frozenset({EvState.ASSUMED_BAD, EvState.DENIED})
"""States in which an EV carries no data."""


@dataclass(frozen=True, slots=True)
class EvTransition:
    """An EV of a QP changed its state.

    Attributes:
        time_ns: when the kernel saw it.
        host, peer: names of the requester and the responder of the QP.
        qpn: QP number at *host*.
        entropy: the EV, 32 bits.
        before, after: states.
        reason: loss, timeout, probe, ecn, trim or admin.
    """

    time_ns: int
    host: str
    peer: str
    qpn: int
    entropy: int
    before: EvState
    after: EvState
    reason: str


@dataclass(frozen=True, slots=True)
class QpTransition:
    """A QP changed its state.

    Attributes:
        time_ns: when the kernel saw it.
        host: whose QP it is.
        qpn: QP number at *host*.
        before, after: states.
        reason: status that made it so, in words; empty when it was asked for.
    """

    time_ns: int
    host: str
    qpn: int
    before: QpState
    after: QpState
    reason: str


@dataclass(frozen=True, slots=True)
class PortTransition:
    """A NIC saw the carrier of one of its ports change.

    Attributes:
        time_ns: when the kernel saw it.
        host: whose NIC.
        plane: which port.
        is_up: the carrier now.
    """

    time_ns: int
    host: str
    plane: int
    is_up: bool


@dataclass(frozen=True, slots=True)
class FaultChange:
    """A fault began or ceased to act.

    Attributes:
        action: which of the two.
        fault_id: its id.
        occurrence: index of the occurrence.
        before_ns: just before the first port changed.
        after_ns: just after the last port changed.
        lost_packets: with `cleared`, data packets that were lost because of it.
        last_lost_ns: with `cleared`, when the last of them was lost; None when there was none.
        hit_packets: with `cleared`, packets of all kinds that it did something to.
    """

    action: Literal["applied", "cleared"]
    fault_id: str
    occurrence: int
    before_ns: int
    after_ns: int
    lost_packets: int = 0
    last_lost_ns: int | None = None
    hit_packets: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """The runner did something other than change a fault.

    Attributes:
        time_ns: when.
        what: `workload-started`, `warmup-ended`, `workload-ended` or `run-ended`.
        details: more about it, by key of events.jsonl.
    """

    time_ns: int
    what: str
    details: Mapping[str, str] = field(default_factory=dict)


NicEvent = EvTransition | QpTransition | PortTransition
