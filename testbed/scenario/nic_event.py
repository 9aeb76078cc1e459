"""What a NIC reports when it happens, with the time at which the kernel saw it. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

EvStateName = Literal["GOOD", "SKIP", "ASSUMED_BAD", "DENIED"]
EV_STATES: Final[tuple[EvStateName, ...]] = ("GOOD", "SKIP", "ASSUMED_BAD", "DENIED")
LEFT_STATES: Final = frozenset({"ASSUMED_BAD", "DENIED"})
"""States in which an EV carries no data."""


@dataclass(frozen=True, slots=True)
class EvTransition:
    """An EV of a QP changed its state.

    Attributes:
        time_ns: CLOCK_MONOTONIC.
        host, peer: names of the requestor and the responder of the QP.
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
    before: EvStateName
    after: EvStateName
    reason: str


@dataclass(frozen=True, slots=True)
class QpTransition:
    """A QP changed its state.

    Attributes:
        time_ns: CLOCK_MONOTONIC.
        host: whose QP it is.
        qpn: QP number at *host*.
        before, after: RESET, INIT, RTR, RTS or ERROR.
        reason: status that made it so, in words; empty when it was asked for.
    """

    time_ns: int
    host: str
    qpn: int
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class PortTransition:
    """A NIC saw the carrier of one of its ports change.

    Attributes:
        time_ns: CLOCK_MONOTONIC.
        host: whose NIC.
        plane: which port.
        is_up: the carrier now.
    """

    time_ns: int
    host: str
    plane: int
    is_up: bool


NicEvent = EvTransition | QpTransition | PortTransition
