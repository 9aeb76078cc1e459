"""NSCC in fixed point: the executable reference of agents/include/mrc/nscc.h, bit for bit.

                    delay below target             delay at target or above
    no mark         proportional, fast increase    fair increase
    mark            nothing: that path is full     multiplicative decrease: most paths are

The header has the worked example; fields have the same names here and there. All numbers are integers,
quotients are rounded down. A test drives both with the same events.

Source: docs/reference/protocol.md, "Congestion control"; Ultra Ethernet 1.0 section 3.6.13.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from agents.protocol.cc_profile import RATIO_SHIFT, NsccParameters
from reference.received_bytes import newly_received_bytes

DELAY_SHIFT: Final = 8
PENALTY_SHIFT: Final = 7

_ONE: Final = 1 << RATIO_SHIFT
_RTT_MAX_NS: Final = (1 << 32) - 1


class NsccReason(IntEnum):
    """What changed the window last; of several steps of one event that did, the highest counts."""

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
    """What a SACK says to congestion control.

    Attributes:
        now_ns: when it came.
        received_units: CC_STATE.rcvd_bytes.
        rtt_ns: of the packet that caused it; None: no valid sample.
        is_marked: SETH.m is SKIP_ONCE.
        penalty: CC_STATE.rcv_cwnd_pen, 0 to 127.
        is_penalty_over: CC_STATE.r_c.
    """

    now_ns: int
    received_units: int
    rtt_ns: int | None = None
    is_marked: bool = False
    penalty: int = 0
    is_penalty_over: bool = False


@dataclass(slots=True)
class Nscc:
    """struct mrc_nscc: congestion control of one QP.

    The methods `on_...` are its events; those that may change the window return why they did, NONE when they
    did not.

    Attributes:
        parameters: constant while the QP sends.
        cwnd_bytes: nominal bytes that may be under way.
        max_wnd_bytes: its limit: max_cwnd, less in the ratio in which base_rtt_ns has fallen.
        base_rtt_ns: shortest RTT measured, or the configured one.
        inflight_bytes: nominal bytes under way; negative by up to 255, because SACKs round up.
        increase_square_bytes: increase per window x bytes received, since the last fulfil.
        increase_reason: what it came from last.
        received_bytes: since the last fulfil.
        avg_delay_q8: average queueing delay in 2**-DELAY_SHIFT ns.
        fi_count_bytes: received without delay, in a row.
        is_increasing: in fast increase.
        achieved_bytes: received in this window of quick adapt, which ends at qa_end_ns (0: none has begun).
        is_qa_triggered: a trim has asked for quick adapt at its end.
        bytes_to_ignore: under way at the last quick adapt; of which bytes_ignored have been fed back.
        last_adjust_ns, last_decrease_ns: of eta, and of a multiplicative decrease.
        saved_cwnd_bytes: window before a receiver penalty; 0: none.
        received_units: newest CC_STATE.rcvd_bytes.
        reason: of the window's last change.
    """

    parameters: NsccParameters
    inflight_bytes: int = 0
    increase_square_bytes: int = 0
    avg_delay_q8: int = 0
    fi_count_bytes: int = 0
    received_bytes: int = 0
    achieved_bytes: int = 0
    bytes_to_ignore: int = 0
    bytes_ignored: int = 0
    qa_end_ns: int = 0
    last_adjust_ns: int = 0
    last_decrease_ns: int = 0
    cwnd_bytes: int = 0
    max_wnd_bytes: int = 0
    saved_cwnd_bytes: int = 0
    base_rtt_ns: int = 0
    received_units: int = 0
    is_increasing: int = 0
    is_qa_triggered: int = 0
    increase_reason: int = NsccReason.NONE
    reason: int = NsccReason.NONE

    @classmethod
    def start(cls, parameters: NsccParameters) -> Self:
        """The state of a QP that has sent nothing."""
        return cls(
            parameters,
            cwnd_bytes=parameters.max_cwnd_bytes,
            max_wnd_bytes=parameters.max_cwnd_bytes,
            base_rtt_ns=parameters.base_rtt_ns,
        )

    def may_send(self) -> bool:
        """Whether a packet may leave now."""
        return self.inflight_bytes < self.cwnd_bytes

    def packets_allowed(self, nominal_bytes: int) -> int:
        """How many packets of *nominal_bytes* may leave before the next feedback."""
        return max(0, -(-(self.cwnd_bytes - self.inflight_bytes) // nominal_bytes))

    def requests_sack(self) -> bool:
        """Whether the packet just counted by `on_send` is to carry BTH.a."""
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
        """Nothing is under way, nor waits to be sent again.

        A window of quick adapt that began before the pause would measure the pause.
        """
        self.achieved_bytes = 0
        self.qa_end_ns = 0
        self.is_qa_triggered = 0

    def on_sack(self, sack: SackFeedback) -> NsccReason:
        """A SACK of this QP, whether it acknowledges anything new or not."""
        parameters = self.parameters
        received = self._newly_received(sack.received_units)
        is_penalised = sack.penalty > 0 and not sack.is_penalty_over
        self.inflight_bytes -= received
        self.bytes_ignored += received
        self.received_bytes += received
        self.achieved_bytes += received
        delay_ns = self._sample(sack.rtt_ns)
        if parameters.is_fixed:
            return NsccReason.NONE
        steps = [
            self._set_cwnd(min(self.cwnd_bytes, self.max_wnd_bytes), NsccReason.BASE_RTT),
            self._penalise(sack, received),
        ]
        adapted = self._quick_adapt(sack.now_ns, is_loss=False, is_marked=sack.is_marked, delay_ns=delay_ns)
        if adapted is not None:
            return self._conclude([*steps, adapted])
        if sack.is_marked and delay_ns >= parameters.target_delay_ns:
            steps.append(self._decrease(sack.now_ns))
        elif not sack.is_marked and not is_penalised:
            steps.append(self._increase(received, delay_ns))
        if not is_penalised:
            steps.append(self._fulfil(sack.now_ns))
        return self._conclude(steps)

    def on_nack(self, now_ns: int, nominal_bytes: int, *, is_trimmed: bool) -> NsccReason:
        """A NACK for a packet that was under way.

        A trimmed one met a full queue: that is a mark, a loss and a delay of a whole base RTT.
        """
        self.inflight_bytes -= nominal_bytes
        if not is_trimmed or self.parameters.is_fixed:
            return NsccReason.NONE
        self.bytes_ignored += nominal_bytes
        self._average(self.base_rtt_ns)
        self.is_qa_triggered = 1
        adapted = self._quick_adapt(now_ns, is_loss=True, is_marked=True, delay_ns=0)
        return self._conclude([self._shrink(nominal_bytes, NsccReason.TRIM) if adapted is None else adapted])

    def on_inferred_loss(self, nominal_bytes: int) -> NsccReason:
        """A packet that was under way is declared lost: by a gap, or by its time-out."""
        self.inflight_bytes -= nominal_bytes
        if self.parameters.is_fixed:
            return NsccReason.NONE
        self.bytes_ignored += nominal_bytes
        return self._conclude([self._shrink(nominal_bytes, NsccReason.LOSS)])

    def _set_cwnd(self, cwnd_bytes: int, reason: NsccReason) -> NsccReason:
        is_change = cwnd_bytes != self.cwnd_bytes
        self.cwnd_bytes = cwnd_bytes
        return reason if is_change else NsccReason.NONE

    def _conclude(self, steps: list[NsccReason]) -> NsccReason:
        reason = max(steps)
        if reason:
            self.reason = reason
        return reason

    def _newly_received(self, received_units: int) -> int:
        """Bytes received that no SACK had told of before; 0 from one that a newer SACK has overtaken."""
        received = newly_received_bytes(received_units, self.received_units)
        if received is None:
            return 0
        self.received_units = received_units
        return received

    def _average(self, delay_ns: int) -> None:
        difference = (delay_ns << DELAY_SHIFT) - self.avg_delay_q8
        self.avg_delay_q8 += difference * self.parameters.delay_gain_q16 >> RATIO_SHIFT

    def _sample(self, rtt_ns: int | None) -> int:
        """The queueing delay that a sample tells, ns; the average where there is none."""
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

    def _penalise(self, sack: SackFeedback, received: int) -> NsccReason:
        saved_bytes = self.saved_cwnd_bytes or self.cwnd_bytes
        if sack.is_penalty_over:
            self.saved_cwnd_bytes = 0
            return self._set_cwnd(min(saved_bytes, self.max_wnd_bytes), NsccReason.RESTORE)
        if not sack.penalty:
            return NsccReason.NONE
        self.saved_cwnd_bytes = saved_bytes
        cwnd_bytes = min(self.cwnd_bytes, self.inflight_bytes) - (sack.penalty * received >> PENALTY_SHIFT)
        return self._set_cwnd(max(cwnd_bytes, self.parameters.mtu_bytes), NsccReason.PENALTY)

    def _quick_adapt(
        self, now_ns: int, *, is_loss: bool, is_marked: bool, delay_ns: int
    ) -> NsccReason | None:
        """After a big loss, straight to what arrived in the last round trip.

        Returns:
            The change, NONE included, when this feedback is dealt with; None when it is not.
        """
        parameters = self.parameters
        if parameters.disable_qa:
            return None
        change = None
        if is_marked and self.bytes_ignored < self.bytes_to_ignore:
            change = NsccReason.NONE
        elif now_ns >= self.qa_end_ns:
            is_asked = is_loss or self.is_qa_triggered or delay_ns > parameters.qa_threshold_ns
            is_little = self.achieved_bytes < self.max_wnd_bytes >> parameters.qa_gate
            if self.qa_end_ns and is_asked and is_little:
                cwnd_bytes = max(self.achieved_bytes, parameters.mtu_bytes)
                change = self._set_cwnd(cwnd_bytes, NsccReason.QUICK_ADAPT)
                self.bytes_to_ignore = max(self.inflight_bytes, 0)
                self.bytes_ignored = 0
                self.is_qa_triggered = 0
            self.achieved_bytes = 0
            self.qa_end_ns = now_ns + self.base_rtt_ns + parameters.target_delay_ns
        if change is not None:
            self.increase_square_bytes = 0
            self.received_bytes = 0
        return change

    def _decrease(self, now_ns: int) -> NsccReason:
        parameters = self.parameters
        target_q8 = parameters.target_delay_ns << DELAY_SHIFT
        self.is_increasing = 0
        self.fi_count_bytes = 0
        if self.avg_delay_q8 <= target_q8 or now_ns - self.last_decrease_ns < self.base_rtt_ns:
            return NsccReason.NONE
        self.last_decrease_ns = now_ns
        cut_q16 = parameters.gamma_q16 * (self.avg_delay_q8 - target_q8) // self.avg_delay_q8
        left_q16 = max(_ONE - cut_q16, parameters.max_md_jump_q16)
        cwnd_bytes = self.cwnd_bytes * left_q16 >> RATIO_SHIFT
        return self._set_cwnd(max(cwnd_bytes, parameters.mtu_bytes), NsccReason.MULTIPLICATIVE_DECREASE)

    def _increase(self, received: int, delay_ns: int) -> NsccReason:
        parameters = self.parameters
        if delay_ns > parameters.no_delay_ns:
            self.is_increasing = 0
            self.fi_count_bytes = 0
        else:
            self.fi_count_bytes += received
            if self.fi_count_bytes > self.cwnd_bytes:
                self.is_increasing = 1
        if self.is_increasing:
            cwnd_bytes = self.cwnd_bytes + (received * parameters.fi_scale_q16 >> RATIO_SHIFT)
            return self._set_cwnd(min(cwnd_bytes, self.max_wnd_bytes), NsccReason.FAST_INCREASE)
        target_ns = parameters.target_delay_ns
        if delay_ns < target_ns:
            gain_bytes = parameters.pi_bytes * (target_ns - delay_ns) // target_ns
            self.increase_reason = NsccReason.PROPORTIONAL_INCREASE
        else:
            gain_bytes = parameters.fi_bytes
            self.increase_reason = NsccReason.FAIR_INCREASE
        self.increase_square_bytes += gain_bytes * received
        return NsccReason.NONE

    def _fulfil(self, now_ns: int) -> NsccReason:
        """Gives the window what increases have summed up, when it is time."""
        parameters = self.parameters
        is_period_over = now_ns - self.last_adjust_ns >= parameters.adjust_period_threshold_ns
        if not is_period_over and self.received_bytes <= parameters.adjust_bytes_threshold:
            return NsccReason.NONE
        gain_bytes = self.increase_square_bytes // self.cwnd_bytes
        reason = NsccReason(self.increase_reason) if gain_bytes else NsccReason.PERIODIC_INCREASE
        self.increase_square_bytes = 0
        self.received_bytes = 0
        if is_period_over:
            self.last_adjust_ns = now_ns
            gain_bytes += parameters.eta_bytes
        return self._set_cwnd(min(self.cwnd_bytes + gain_bytes, self.max_wnd_bytes), reason)

    def _shrink(self, nominal_bytes: int, reason: NsccReason) -> NsccReason:
        """The window without one packet."""
        return self._set_cwnd(max(self.cwnd_bytes - nominal_bytes, self.parameters.mtu_bytes), reason)
