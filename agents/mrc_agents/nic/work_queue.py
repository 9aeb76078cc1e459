"""The agent's state of a QP of any transport: its state, posted work, completions, arrivals."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple, Self, cast

from mrc_agents.abi import Limit, NicConfig, QpState, Work
from mrc_agents.protocol.retry_times import NO_END_US

QPN_MIN: Final = 1 << Limit.QP_INDEX_BITS
"""Number of the first QP at index 0; none is lower."""
QPN_MAX: Final = (1 << 24) - 1
_NO_END_NS: Final = 1 << 62


def qp_index(qpn: int) -> int:
    """Index in the NIC's maps of the QP that has, or had, that number (docs/reference/protocol.md, "QP
    numbers").
    """
    return qpn & QPN_MIN - 1


def is_under_way(work: Work) -> bool:
    """Return True if a place of a work ring holds a request that has not completed."""
    return bool(work.iterations and not work.is_completed)


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderAttributes(ABC):
    """The attributes that QPs of all transports have."""

    peer_host: int  # index of the host at the far end
    # of an MRC QP plane by plane, equally many in each; packets of the others take them in turn
    evs: tuple[int, ...]
    window_packets: int  # packets under way at most, whatever congestion control allows
    pmtu_bytes: int  # payload of a packet
    rto_ns: int  # retransmission time-out
    retry_limit: int  # time-outs in a row without progress before the QP fails
    first_psn: int  # PSN of the first packet sent; drawn at random where it is left out
    peer_first_psn: int | None = None  # PSN of the first packet expected; needed to connect at the latest

    def changed(self, values: Mapping[str, int | None]) -> Self:
        """The same but for *values*, by name."""
        return replace(self, **cast("dict[str, Any]", values))

    @abstractmethod
    def check(self, config: NicConfig) -> None:
        """Raises UsageError, naming the attribute and its range, when one does not fit the NIC."""


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


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a QP's state: the states it may follow, and the attributes that may come with it."""

    before: frozenset[QpState]
    attributes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QpLimits:
    """Limits that a program may change at any time."""

    give_up_us: int = 0  # without an acknowledgement, before its work fails, in place of retry_limit; 0: that
    rnr_timer_us: int = 1280  # before a message that found no receive is sent again
    rnr_limit: int = int(Limit.RNR_FOREVER)  # times that it is so in a row; Limit.RNR_FOREVER: no limit
    is_writable: bool = True  # whether the peer may write

    @property
    def give_up_ns(self) -> int:
        """The same as the kernel has it."""
        return _NO_END_NS if self.give_up_us == NO_END_US else self.give_up_us * 1000


@dataclass(slots=True)
class WorkQueue:
    """A QP of any transport."""

    transitions: ClassVar[Mapping[str, Transition]]  # by the state that a QP of this kind may go to

    qpn: int
    attributes: SenderAttributes
    state: QpState = QpState.INIT
    status: str = "success"
    posted: deque[int] = field(default_factory=deque)
    completions: deque[FinishedWork] = field(default_factory=deque)
    arrivals: dict[int, DeliveredWrite] = field(default_factory=dict)
    next_arrival: int = 1
    pd: int = 0  # protection domain of an application; 0: that of the agent's own clients
    limits: QpLimits = QpLimits()

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

    def change(self, values: Mapping[str, int | None], config: NicConfig) -> None:
        """Set attributes, by name; raises UsageError where they do not fit the NIC."""
        changed = self.attributes.changed(values)
        changed.check(config)
        self.attributes = changed

    @property
    def index(self) -> int:
        """In the NIC's maps."""
        return qp_index(self.qpn)
