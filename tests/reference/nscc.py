"""NSCC in fixed point: the executable reference of mrc_agents/nic/bpf/cc/nscc.h, bit for bit.

                    delay below target             delay at target or above
    no mark         proportional, fast increase    fair increase
    mark            nothing: that path is full     multiplicative decrease: most paths are

The header has the worked example; fields have the same names here and there. All numbers are integers,
quotients are rounded down. A test drives both with the same events.

Source: docs/reference/protocol.md, "Congestion control"; Ultra Ethernet 1.0 section 3.6.13.
"""

from dataclasses import dataclass
from typing import Final

from mrc_agents.protocol.cc_profile import RATIO_SHIFT
from reference.congestion import DELAY_SHIFT, CcReason, Congestion, SackFeedback
from reference.reliability_header import CcState

PENALTY_SHIFT: Final = 7

_ONE: Final = 1 << RATIO_SHIFT


@dataclass(slots=True)
class Nscc(Congestion):
    """struct mrc_nscc: what NSCC keeps beside what every algorithm has."""

    increase_square_bytes: int = 0  # increase per window x bytes received, since the last fulfil
    fi_count_bytes: int = 0  # received without delay, in a row
    received_bytes: int = 0  # since the last fulfil
    # received in this window of quick adapt, which ends at qa_end_ns (0: none has begun)
    achieved_bytes: int = 0
    bytes_to_ignore: int = 0  # under way at the last quick adapt; of which bytes_ignored have been fed back
    bytes_ignored: int = 0
    qa_end_ns: int = 0
    # last_adjust_ns, last_decrease_ns: of eta, and of a multiplicative decrease
    last_adjust_ns: int = 0
    last_decrease_ns: int = 0
    saved_cwnd_bytes: int = 0  # window before a receiver penalty; 0: none
    is_increasing: int = 0  # in fast increase
    is_qa_triggered: int = 0  # a trim has asked for quick adapt at its end
    increase_reason: int = CcReason.NONE  # what it came from last

    def on_idle(self) -> None:
        """No packet is in flight, nor waits for retransmission.

        A window of quick adapt that began before the pause would measure the pause.
        """
        self.achieved_bytes = 0
        self.qa_end_ns = 0
        self.is_qa_triggered = 0

    def _on_ack(self, sack: SackFeedback, received: int, delay_ns: int) -> list[CcReason]:
        parameters = self.parameters
        is_penalised = sack.state.cwnd_penalty > 0 and not sack.state.restores_cwnd
        self.bytes_ignored += received
        self.received_bytes += received
        self.achieved_bytes += received
        steps = [
            self._set_cwnd(min(self.cwnd_bytes, self.max_wnd_bytes), CcReason.BASE_RTT),
            self._penalise(sack.state, received),
        ]
        adapted = self._quick_adapt(sack.now_ns, is_loss=False, is_marked=sack.is_marked, delay_ns=delay_ns)
        if adapted is not None:
            return [*steps, adapted]
        if sack.is_marked and delay_ns >= parameters.target_delay_ns:
            steps.append(self._decrease(sack.now_ns))
        elif not sack.is_marked and not is_penalised:
            steps.append(self._increase(received, delay_ns))
        if not is_penalised:
            steps.append(self._fulfil(sack.now_ns))
        return steps

    def _on_trim(self, now_ns: int, packet_bytes: int) -> list[CcReason]:
        """A trimmed packet met a full queue: that is a mark, a loss and a delay of a whole base RTT."""
        self.bytes_ignored += packet_bytes
        self._average(self.base_rtt_ns)
        self.is_qa_triggered = 1
        adapted = self._quick_adapt(now_ns, is_loss=True, is_marked=True, delay_ns=0)
        return [self._shrink(packet_bytes, CcReason.TRIM) if adapted is None else adapted]

    def _on_loss(self, packet_bytes: int) -> list[CcReason]:
        self.bytes_ignored += packet_bytes
        return [self._shrink(packet_bytes, CcReason.LOSS)]

    def _penalise(self, state: CcState, received: int) -> CcReason:
        saved_bytes = self.saved_cwnd_bytes or self.cwnd_bytes
        if state.restores_cwnd:
            self.saved_cwnd_bytes = 0
            return self._set_cwnd(min(saved_bytes, self.max_wnd_bytes), CcReason.RESTORE)
        if not state.cwnd_penalty:
            return CcReason.NONE
        self.saved_cwnd_bytes = saved_bytes
        cut_bytes = state.cwnd_penalty * received >> PENALTY_SHIFT
        cwnd_bytes = min(self.cwnd_bytes, self.inflight_bytes) - cut_bytes
        return self._set_cwnd(max(cwnd_bytes, self.parameters.mtu_bytes), CcReason.PENALTY)

    def _quick_adapt(self, now_ns: int, *, is_loss: bool, is_marked: bool, delay_ns: int) -> CcReason | None:
        """After a big loss, straight to what arrived in the last round trip.

        Returns:
            The change, NONE included, when this feedback is dealt with; None when it is not.
        """
        parameters = self.parameters
        if parameters.disable_qa:
            return None
        change = None
        if is_marked and self.bytes_ignored < self.bytes_to_ignore:
            change = CcReason.NONE
        elif now_ns >= self.qa_end_ns:
            is_asked = is_loss or self.is_qa_triggered or delay_ns > parameters.qa_threshold_ns
            is_little = self.achieved_bytes < self.max_wnd_bytes >> parameters.qa_gate
            if self.qa_end_ns and is_asked and is_little:
                cwnd_bytes = max(self.achieved_bytes, parameters.mtu_bytes)
                change = self._set_cwnd(cwnd_bytes, CcReason.QUICK_ADAPT)
                self.bytes_to_ignore = max(self.inflight_bytes, 0)
                self.bytes_ignored = 0
                self.is_qa_triggered = 0
            self.achieved_bytes = 0
            self.qa_end_ns = now_ns + self.base_rtt_ns + parameters.target_delay_ns
        if change is not None:
            self.increase_square_bytes = 0
            self.received_bytes = 0
        return change

    def _decrease(self, now_ns: int) -> CcReason:
        parameters = self.parameters
        target_q8 = parameters.target_delay_ns << DELAY_SHIFT
        self.is_increasing = 0
        self.fi_count_bytes = 0
        if self.avg_delay_q8 <= target_q8 or now_ns - self.last_decrease_ns < self.base_rtt_ns:
            return CcReason.NONE
        self.last_decrease_ns = now_ns
        cut_q16 = parameters.gamma_q16 * (self.avg_delay_q8 - target_q8) // self.avg_delay_q8
        left_q16 = max(_ONE - cut_q16, parameters.max_md_jump_q16)
        cwnd_bytes = self.cwnd_bytes * left_q16 >> RATIO_SHIFT
        return self._set_cwnd(max(cwnd_bytes, parameters.mtu_bytes), CcReason.MULTIPLICATIVE_DECREASE)

    def _increase(self, received: int, delay_ns: int) -> CcReason:
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
            return self._set_cwnd(min(cwnd_bytes, self.max_wnd_bytes), CcReason.FAST_INCREASE)
        target_ns = parameters.target_delay_ns
        if delay_ns < target_ns:
            gain_bytes = parameters.pi_bytes * (target_ns - delay_ns) // target_ns
            self.increase_reason = CcReason.PROPORTIONAL_INCREASE
        else:
            gain_bytes = parameters.fi_bytes
            self.increase_reason = CcReason.FAIR_INCREASE
        self.increase_square_bytes += gain_bytes * received
        return CcReason.NONE

    def _fulfil(self, now_ns: int) -> CcReason:
        """Apply the summed increases to the window, when it is time."""
        parameters = self.parameters
        is_period_over = now_ns - self.last_adjust_ns >= parameters.adjust_period_threshold_ns
        if not is_period_over and self.received_bytes <= parameters.adjust_bytes_threshold:
            return CcReason.NONE
        gain_bytes = self.increase_square_bytes // self.cwnd_bytes
        reason = CcReason(self.increase_reason) if gain_bytes else CcReason.PERIODIC_INCREASE
        self.increase_square_bytes = 0
        self.received_bytes = 0
        if is_period_over:
            self.last_adjust_ns = now_ns
            gain_bytes += parameters.eta_bytes
        return self._set_cwnd(min(self.cwnd_bytes + gain_bytes, self.max_wnd_bytes), reason)

    def _shrink(self, nominal_bytes: int, reason: CcReason) -> CcReason:
        """The window without one packet."""
        return self._set_cwnd(max(self.cwnd_bytes - nominal_bytes, self.parameters.mtu_bytes), reason)
