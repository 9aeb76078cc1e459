"""AIMD in fixed point: the executable reference of mrc_agents/nic/bpf/cc/aimd.h, bit for bit."""

from dataclasses import dataclass

from reference.congestion import CcReason, Congestion, SackFeedback


@dataclass(slots=True)
class Aimd(Congestion):
    """struct aimd: a packet more per window received, half the window at a mark or a loss."""

    increase_square_bytes: int = 0  # increase per window x bytes received, not yet granted
    hold_bytes: int = 0  # to be received before the window is cut again

    def _on_ack(self, sack: SackFeedback, received: int, _delay_ns: int) -> list[CcReason]:
        self.hold_bytes = max(0, self.hold_bytes - received)
        if sack.is_marked:
            return [self._cut(CcReason.MULTIPLICATIVE_DECREASE)]
        self.increase_square_bytes += self.parameters.mtu_bytes * received
        gain_bytes, self.increase_square_bytes = divmod(self.increase_square_bytes, self.cwnd_bytes)
        return [self._set_window(self.cwnd_bytes + gain_bytes, CcReason.FAIR_INCREASE)]

    def _on_trim(self, _now_ns: int, _packet_bytes: int) -> list[CcReason]:
        return [self._cut(CcReason.TRIM)]

    def _on_loss(self, _packet_bytes: int) -> list[CcReason]:
        return [self._cut(CcReason.LOSS)]

    def _cut(self, reason: CcReason) -> CcReason:
        if self.hold_bytes:
            return CcReason.NONE
        self.hold_bytes = max(0, self.inflight_bytes)
        self.increase_square_bytes = 0
        return self._set_window(self.cwnd_bytes // 2, reason)
