"""The agent's state of a QP of any transport: its state, posted work, completions, arrivals."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from mrc_agents.abi import Limit, QpState

QPN_MIN: Final = 1 << Limit.QP_INDEX_BITS
"""Number of the first QP at index 0; none is lower."""
QPN_MAX: Final = (1 << 24) - 1


def qp_index(qpn: int) -> int:
    """Index in the NIC's maps of the QP that has, or had, that number (docs/reference/protocol.md, "QP
    numbers").
    """
    return qpn & QPN_MIN - 1


class SenderAttributes(Protocol):
    """Attributes that posting work depends on."""

    @property
    def peer_host(self) -> int:
        """Index of the host at the far end."""

    @property
    def window_packets(self) -> int:
        """Packets under way at most."""

    @property
    def pmtu_bytes(self) -> int:
        """Payload of a packet."""

    @property
    def max_wimm(self) -> int:
        """WRITEs with immediate that may be outstanding."""


class FinishedWork(NamedTuple):
    """A finished work request: its id, iterations done, and a status name (`success`)."""

    work_id: int
    iterations: int
    status: str
    time_ns: int


class DeliveredWrite(NamedTuple):
    """A WRITE with immediate that has arrived whole: its number, from 1, the immediate and its bytes."""

    number: int
    immediate: int
    length: int
    time_ns: int


@dataclass(slots=True)
class WorkQueue:
    """A QP of any transport."""

    qpn: int
    attributes: SenderAttributes
    state: QpState = QpState.INIT
    status: str = "success"
    posted: deque[int] = field(default_factory=deque)
    completions: deque[FinishedWork] = field(default_factory=deque)
    arrivals: dict[int, DeliveredWrite] = field(default_factory=dict)
    next_arrival: int = 1

    def take_arrivals(self) -> Iterator[DeliveredWrite]:
        """Those that are next in order; CPUs may report them in another."""
        while (arrival := self.arrivals.pop(self.next_arrival, None)) is not None:
            self.next_arrival += 1
            yield arrival

    def forget_work(self) -> None:
        """Makes it as new: nothing posted, nothing completed, nothing arrived."""
        self.status = "success"
        self.posted.clear()
        self.completions.clear()
        self.arrivals.clear()
        self.next_arrival = 1

    @property
    def index(self) -> int:
        """In the NIC's maps."""
        return qp_index(self.qpn)
