"""DCQCN, the reaction point, in fixed point: the executable reference of mrc_agents/include/mrc/dcqcn.h.

    CNP         target = rate, rate -= rate * alpha / 2, alpha += (1 - alpha) * g, stages = 0
    no CNP      alpha -= alpha * g, every alpha_ns
    increase    by a timer and by a byte counter: fast recovery, additive, hyper

Fields have the same names here and there; a test drives both with the same events.

Source: docs/explanation/transports.md, "DCQCN"; Zhu et al., "Congestion Control for Large-Scale RDMA
Deployments", SIGCOMM 2015, section 5.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Self

from mrc_agents.protocol.dcqcn import ONE_Q16, RATIO_SHIFT, DcqcnParameters

_STEPS_MAX: Final = 8
_SRTT_SHIFT: Final = 3
_RTT_MAX_NS: Final = (1 << 29) - 1


class DcqcnReason(IntEnum):
    NONE = 0
    CNP = 1
    FAST_RECOVERY = 2
    ADDITIVE_INCREASE = 3
    HYPER_INCREASE = 4


@dataclass(slots=True)
class Dcqcn:
    """struct mrc_dcqcn: rate control of one QP. Its methods `on_...` are events; they say what changed."""

    parameters: DcqcnParameters  # constant while the QP sends
    # alpha_updated_ns, rate_updated_ns: last period of each timer
    alpha_updated_ns: int
    rate_updated_ns: int
    rate_kbps: int  # what it may send
    target_kbps: int  # what it recovers to
    alpha_q16: int = ONE_Q16  # estimate of how congested the path is, 2**-16
    srtt_q3_ns: int = 0  # smoothed RTT, 1/8 ns; 0: none measured
    counted_bytes: int = 0  # since the last period of the byte counter
    # timer_stage, byte_stage: periods since the last CNP
    timer_stage: int = 0
    byte_stage: int = 0
    reason: int = DcqcnReason.NONE  # of the rate's last change

    @classmethod
    def start(cls, parameters: DcqcnParameters, now_ns: int) -> Self:
        """The state of a QP that has sent nothing."""
        return cls(parameters, now_ns, now_ns, parameters.line_kbps, parameters.line_kbps)

    @property
    def window_bytes(self) -> int:
        """Bytes that may be under way; always a packet's worth."""
        rtt_q3_ns = self.srtt_q3_ns or self.parameters.base_rtt_ns << _SRTT_SHIFT
        return max(self.rate_kbps * rtt_q3_ns // 64_000_000, self.parameters.mtu_bytes)

    def on_cnp(self, now_ns: int) -> DcqcnReason:
        """A congestion notification packet came."""
        if self.parameters.is_fixed:
            return DcqcnReason.NONE
        cut = self.rate_kbps * self.alpha_q16 >> RATIO_SHIFT + 1
        self.target_kbps = self.rate_kbps
        self.rate_kbps = max(self.rate_kbps - cut, self.parameters.min_kbps)
        self.alpha_q16 += (ONE_Q16 - self.alpha_q16) * self.parameters.g_q16 >> RATIO_SHIFT
        self.alpha_updated_ns = self.rate_updated_ns = now_ns
        self.counted_bytes = self.timer_stage = self.byte_stage = 0
        self.reason = DcqcnReason.CNP
        return DcqcnReason.CNP

    def on_ack(self, now_ns: int, acked_bytes: int, rtt_ns: int = 0) -> DcqcnReason:
        """*acked_bytes* were acknowledged, by a packet with that RTT; 0: it has no valid one."""
        parameters = self.parameters
        rtt_ns = min(rtt_ns, _RTT_MAX_NS)
        if rtt_ns and not self.srtt_q3_ns:
            self.srtt_q3_ns = rtt_ns << _SRTT_SHIFT
        elif rtt_ns:
            self.srtt_q3_ns += rtt_ns - (self.srtt_q3_ns >> _SRTT_SHIFT)
        if parameters.is_fixed:
            return DcqcnReason.NONE
        for _ in range(_STEPS_MAX):
            if now_ns - self.alpha_updated_ns < parameters.alpha_ns:
                break
            self.alpha_updated_ns += parameters.alpha_ns
            self.alpha_q16 -= self.alpha_q16 * parameters.g_q16 >> RATIO_SHIFT
        reason = DcqcnReason.NONE
        self.counted_bytes += acked_bytes
        if self.counted_bytes >= parameters.counter_bytes:
            self.counted_bytes = 0
            self.byte_stage += 1
            reason = self._increase()
        for _ in range(_STEPS_MAX):
            if now_ns - self.rate_updated_ns < parameters.rate_ns:
                break
            self.rate_updated_ns += parameters.rate_ns
            self.timer_stage += 1
            reason = self._increase() or reason
        return reason

    def _increase(self) -> DcqcnReason:
        parameters, last = self.parameters, self.parameters.recovery_stages
        if self.rate_kbps >= parameters.line_kbps:
            return DcqcnReason.NONE
        target, reason = self.target_kbps, DcqcnReason.FAST_RECOVERY
        lower = min(self.timer_stage, self.byte_stage)
        if lower > last:
            target += parameters.hai_kbps * (lower - last)
            reason = DcqcnReason.HYPER_INCREASE
        elif max(self.timer_stage, self.byte_stage) > last:
            target += parameters.ai_kbps
            reason = DcqcnReason.ADDITIVE_INCREASE
        self.target_kbps = min(target, parameters.line_kbps)
        self.rate_kbps = (self.rate_kbps + self.target_kbps + 1) // 2
        self.reason = reason
        return reason
