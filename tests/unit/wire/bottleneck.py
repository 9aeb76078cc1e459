"""Flows under NSCC through one queue: a discrete-event model, small enough to be believed.

    flow --(its NIC, serialised)--> queue, one server --> receiver --(SACK per packet)--> flow

A packet leaves its NIC no earlier than one serialisation time after the one before it, waits for the queue,
and its SACK is back one base RTT after it left if it waited for nobody. The queue marks at random between
two thresholds and trims above a third; a trim's NACK does not wait. Flows always have data.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from reference.congestion import CcReason, SackFeedback
from reference.nscc import Nscc

from mrc_testbed.agents.protocol.cc_profile import CcParameters

UNIT_BYTES = 256


@dataclass(frozen=True)
class Bottleneck:
    """The queue and the way round it; thresholds in bytes waiting."""

    serialisation_ns: int
    base_rtt_ns: int
    nominal_bytes: int
    mark_from_bytes: int
    mark_all_bytes: int
    trim_bytes: int


@dataclass
class Flow:
    """One sender and its receiver's count."""

    nscc: Nscc
    nic_free_ns: int = 0
    is_waking: bool = False
    received_bytes: int = 0
    trims: int = 0
    reasons: list[CcReason] = field(default_factory=list)


class Simulation:
    """Runs flows; `samples` holds (time, waiting time in the queue) of every packet served.

    Args:
        bottleneck: what they share.
        parameters: of every flow.
        flow_count: how many there are.
        seed: of the marks.
    """

    def __init__(
        self, bottleneck: Bottleneck, parameters: CcParameters, flow_count: int, seed: int = 1
    ) -> None:
        self.bottleneck = bottleneck
        self.flows = [Flow(Nscc.start(parameters)) for _ in range(flow_count)]
        self.samples: list[tuple[int, int]] = []
        self.now_ns = 0
        self._random = Random(seed)
        self._free_ns = 0
        self._order = count()
        self._events: list[tuple[int, int, Callable[[], None]]] = []

    def start(self, flow: Flow, start_ns: int) -> None:
        self._at(start_ns, lambda: self._send(flow))

    def run(self, until_ns: int) -> None:
        while self._events and self._events[0][0] < until_ns:
            self.now_ns, _, action = heapq.heappop(self._events)
            action()
        self.now_ns = until_ns

    def mean_wait_ns(self, since_ns: int) -> float:
        """Mean time that packets served after *since_ns* waited."""
        waits = [wait for time_ns, wait in self.samples if time_ns >= since_ns]
        return sum(waits) / len(waits)

    def _at(self, time_ns: int, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (time_ns, next(self._order), action))

    def _wake(self, flow: Flow) -> None:
        if not flow.is_waking and flow.nscc.may_send():
            flow.is_waking = True
            self._at(max(self.now_ns, flow.nic_free_ns), lambda: self._send(flow))

    def _send(self, flow: Flow) -> None:
        way = self.bottleneck
        flow.is_waking = False
        flow.nic_free_ns = self.now_ns + way.serialisation_ns
        flow.nscc.on_send(way.nominal_bytes)
        self._arrive(flow)
        self._wake(flow)

    def _arrive(self, flow: Flow) -> None:
        """The packet reaches the queue; what comes of it comes back later."""
        way = self.bottleneck
        sent_ns = self.now_ns
        wait_ns = max(0, self._free_ns - sent_ns)
        waiting_bytes = wait_ns * way.nominal_bytes // way.serialisation_ns
        if waiting_bytes > way.trim_bytes:
            self._at(sent_ns + way.base_rtt_ns, lambda: self._nack(flow))
            return
        ramp = way.mark_all_bytes - way.mark_from_bytes
        is_marked = waiting_bytes - way.mark_from_bytes > self._random.randrange(ramp)
        self._free_ns = sent_ns + wait_ns + way.serialisation_ns
        self.samples.append((sent_ns + wait_ns, wait_ns))
        self._at(sent_ns + wait_ns + way.base_rtt_ns, lambda: self._sack(flow, sent_ns, is_marked))

    def _sack(self, flow: Flow, sent_ns: int, is_marked: bool) -> None:
        flow.received_bytes += self.bottleneck.nominal_bytes
        units = -(-flow.received_bytes // UNIT_BYTES) % (1 << 24)
        feedback = SackFeedback(self.now_ns, units, self.now_ns - sent_ns, is_marked)
        flow.reasons.append(flow.nscc.on_sack(feedback))
        self._wake(flow)

    def _nack(self, flow: Flow) -> None:
        flow.trims += 1
        flow.reasons.append(flow.nscc.on_nack(self.now_ns, self.bottleneck.nominal_bytes, is_trimmed=True))
        self._wake(flow)
