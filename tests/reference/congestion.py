"""Congestion control whatever the algorithm: the reference of mrc/cc_events.h and mrc/cc_window.h.

Fields have the same names here and there. All numbers are integers, quotients are rounded down.

Source: docs/reference/protocol.md, "Congestion control"; Ultra Ethernet 1.0 section 3.6.13.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from mrc_agents.protocol.cc_profile import RATIO_SHIFT, CcParameters
from reference.received_bytes import newly_received_bytes
from reference.reliability_header import CcState

DELAY_SHIFT: Final = 8

_RTT_MAX_NS: Final = (1 << 32) - 1


class CcReason(IntEnum):
    """The reason of the last window change; of several steps of one event that did, the highest counts."""

    NONE = 0
    PERIODIC_INCREASE = 1
    PROPORTIONAL_INCREASE = 2
    FAIR_INCREASE = 3
    FAST_INCREASE = 4
    MULTIPLICATIVE_DECREASE = 5
    QUICK_ADAPT = 6
    TRIM = 7
    LOSS = 8
    PENALTY = 9
    RESTORE = 10
    BASE_RTT = 11


@dataclass(frozen=True, slots=True)
class SackFeedback:
    """The input of a SACK to congestion control."""

    now_ns: int  # when it came
    state: CcState  # only the algorithm reads more of it than received_units
    rtt_ns: int | None = None  # of the packet that caused it; None: no valid sample
    is_marked: bool = False  # SETH.m is SKIP_ONCE


@dataclass(slots=True)
class Congestion:
    """struct mrc_cc: congestion control of one QP; an algorithm's class derives from it.

    The methods `on_...` are its events; those that may change the window return why they did, NONE when they
    did not. Those that begin with an underscore are the algorithm's.
    """

    parameters: CcParameters  # constant while the QP sends
    inflight_bytes: int = 0  # nominal bytes under way; negative by up to 255, because SACKs round up
    avg_delay_q8: int = 0  # average queueing delay in 2**-DELAY_SHIFT ns
    cwnd_bytes: int = 0  # nominal bytes that may be under way
    max_wnd_bytes: int = 0  # its limit: max_cwnd, less in the ratio in which base_rtt_ns has fallen
    base_rtt_ns: int = 0  # shortest RTT measured, or the configured one
    received_units: int = 0  # newest CC_STATE.rcvd_bytes
    reason: int = CcReason.NONE  # of the window's last change

    @classmethod
    def start(cls, parameters: CcParameters) -> Self:
        """The state of a QP that has sent nothing."""
        return cls(
            parameters,
            cwnd_bytes=parameters.max_cwnd_bytes,
            max_wnd_bytes=parameters.max_cwnd_bytes,
            base_rtt_ns=parameters.base_rtt_ns,
        )

    def may_send(self) -> bool:
        """Return True if a packet may leave now."""
        return self.inflight_bytes < self.cwnd_bytes

    def packets_allowed(self, nominal_bytes: int) -> int:
        """Number of packets of *nominal_bytes* that may leave before the next feedback."""
        return max(0, -(-(self.cwnd_bytes - self.inflight_bytes) // nominal_bytes))

    def requests_sack(self) -> bool:
        """Return True if the packet just counted by `on_send` is to carry BTH.a."""
        room_bytes = self.cwnd_bytes - self.inflight_bytes
        parameters = self.parameters
        return room_bytes < parameters.mtu_bytes or self.cwnd_bytes < parameters.sack_threshold_bytes

    def on_send(self, nominal_bytes: int) -> None:
        """A packet leaves, for the first time or again."""
        self.inflight_bytes += nominal_bytes

    def on_false_loss(self, nominal_bytes: int) -> None:
        """A packet declared lost arrives after all, before it was sent again.

        The SACK takes it out of `inflight_bytes`, as the loss already had.
        """
        self.inflight_bytes += nominal_bytes

    def on_drained(self) -> None:
        """No packet is under way.

        What rounding, or bytes that were never reported, left in `inflight_bytes` goes; `may_send` could else
        wait for feedback that cannot come.
        """
        self.inflight_bytes = 0

    def on_idle(self) -> None:
        """No packet is in flight, nor waits for retransmission."""

    def on_sack(self, sack: SackFeedback) -> CcReason:
        """A SACK of this QP, whether it acknowledges anything new or not."""
        received = self._newly_received(sack.state.received_units)
        self.inflight_bytes -= received
        delay_ns = self._sample(sack.rtt_ns)
        if self.parameters.is_fixed:
            return CcReason.NONE
        return self._conclude(self._on_ack(sack, received, delay_ns))

    def on_nack(self, now_ns: int, nominal_bytes: int, *, is_trimmed: bool) -> CcReason:
        """A NACK for a packet that was under way; a trimmed one met a full queue."""
        self.inflight_bytes -= nominal_bytes
        if not is_trimmed or self.parameters.is_fixed:
            return CcReason.NONE
        return self._conclude(self._on_trim(now_ns, nominal_bytes))

    def on_inferred_loss(self, nominal_bytes: int) -> CcReason:
        """A packet that was under way is declared lost: by a gap, or by its time-out."""
        self.inflight_bytes -= nominal_bytes
        if self.parameters.is_fixed:
            return CcReason.NONE
        return self._conclude(self._on_loss(nominal_bytes))

    def _on_ack(self, sack: SackFeedback, received: int, delay_ns: int) -> list[CcReason]:
        raise NotImplementedError

    def _on_trim(self, now_ns: int, packet_bytes: int) -> list[CcReason]:
        raise NotImplementedError

    def _on_loss(self, packet_bytes: int) -> list[CcReason]:
        raise NotImplementedError

    def _set_cwnd(self, cwnd_bytes: int, reason: CcReason) -> CcReason:
        is_change = cwnd_bytes != self.cwnd_bytes
        self.cwnd_bytes = cwnd_bytes
        return reason if is_change else CcReason.NONE

    def _set_window(self, cwnd_bytes: int, reason: CcReason) -> CcReason:
        """No larger than max_wnd and no smaller than a packet."""
        limited = max(min(cwnd_bytes, self.max_wnd_bytes), self.parameters.mtu_bytes)
        return self._set_cwnd(limited, reason)

    def _conclude(self, steps: list[CcReason]) -> CcReason:
        reason = max(steps)
        if reason:
            self.reason = reason
        return reason

    def _newly_received(self, received_units: int) -> int:
        """Bytes received that no earlier SACK reported; 0 from one that a newer SACK has overtaken."""
        received = newly_received_bytes(received_units, self.received_units)
        if received is None:
            return 0
        self.received_units = received_units
        return received

    def _average(self, delay_ns: int) -> None:
        difference = (delay_ns << DELAY_SHIFT) - self.avg_delay_q8
        self.avg_delay_q8 += difference * self.parameters.delay_gain_q16 >> RATIO_SHIFT

    def _sample(self, rtt_ns: int | None) -> int:
        """Queueing delay of a sample in ns; the average where there is none."""
        if rtt_ns is None or rtt_ns <= 0:
            return self.avg_delay_q8 >> DELAY_SHIFT
        parameters = self.parameters
        rtt_ns = min(rtt_ns, _RTT_MAX_NS)
        if rtt_ns < self.base_rtt_ns:
            max_wnd_bytes = parameters.max_cwnd_bytes * rtt_ns // parameters.base_rtt_ns
            self.base_rtt_ns = rtt_ns
            self.max_wnd_bytes = max(max_wnd_bytes, parameters.mtu_bytes)
        self._average(rtt_ns - self.base_rtt_ns)
        return rtt_ns - self.base_rtt_ns
