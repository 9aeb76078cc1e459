"""An event at one instant of a run, as kernel or injector saw it; times are CLOCK_MONOTONIC. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from mrc_agents.abi import EvState, QpState

LEFT_STATES: Final = frozenset({EvState.ASSUMED_BAD, EvState.DENIED})
"""States in which an EV carries no data."""


@dataclass(frozen=True, slots=True)
class EvTransition:
    """An EV of a QP changed its state."""

    time_ns: int  # when the kernel saw it
    # host, peer: names of the requester and the responder of the QP
    host: str
    peer: str
    qpn: int  # QP number at *host*
    entropy: int  # the EV, 32 bits
    # before, after: states
    before: EvState
    after: EvState
    reason: str  # loss, timeout, probe, ecn, trim or admin


@dataclass(frozen=True, slots=True)
class QpTransition:
    """A QP changed its state."""

    time_ns: int  # when the kernel saw it
    host: str  # whose QP it is
    qpn: int  # QP number at *host*
    # before, after: states
    before: QpState
    after: QpState
    reason: str  # status that made it so, in words; empty when it was asked for


@dataclass(frozen=True, slots=True)
class PortTransition:
    """A NIC saw the carrier of one of its ports change."""

    time_ns: int  # when the kernel saw it
    host: str  # whose NIC
    plane: int  # which port
    is_up: bool  # the carrier now


@dataclass(frozen=True, slots=True)
class FaultChange:
    """A fault began or ceased to act."""

    action: Literal["applied", "cleared"]  # which of the two
    fault_id: str  # its id
    occurrence: int  # index of the occurrence
    before_ns: int  # just before the first port changed
    after_ns: int  # just after the last port changed
    lost_packets: int = 0  # with `cleared`, data packets that were lost because of it
    # with `cleared`, when the last of them was lost; None when there was none
    last_lost_ns: int | None = None
    hit_packets: int = 0  # with `cleared`, packets of all kinds that it did something to


@dataclass(frozen=True, slots=True)
class Note:
    """The runner did something other than change a fault."""

    time_ns: int  # when
    what: str  # `workload-started`, `warmup-ended`, `workload-ended` or `run-ended`
    details: Mapping[str, str] = field(default_factory=dict)  # more about it, by key of events.jsonl


NicEvent = EvTransition | QpTransition | PortTransition
