"""Parameters of DCQCN, scaled to a fabric.

Source: docs/explanation/transports.md, "DCQCN"; Zhu et al., "Congestion Control for Large-Scale RDMA
Deployments", SIGCOMM 2015, section 5.
"""

from dataclasses import dataclass
from typing import Final, Self

RATIO_SHIFT: Final = 16
ONE_Q16: Final = 1 << RATIO_SHIFT

_U32: Final = (1 << 32) - 1
_CNP_RTTS: Final = 5
_RATE_RTTS: Final = 30
_AI_SHARE: Final = 1 / 500
_HAI_SHARE: Final = 1 / 100
_MIN_SHARE: Final = 1 / 1000
_COUNTER_RTTS: Final = 100
_G_Q16: Final = ONE_Q16 // 16
_RECOVERY_STAGES: Final = 5


@dataclass(frozen=True, slots=True)
class DcqcnParameters:
    """struct mrc_dcqcn_parameters: constant while a QP sends."""

    line_kbps: int  # the rate to start with, and the highest
    min_kbps: int  # the lowest
    ai_kbps: int  # additive increase of the target
    hai_kbps: int  # hyper increase, per stage
    g_q16: int  # weight of a CNP in alpha, 2**-16
    alpha_ns: int  # without a CNP for so long, alpha falls
    rate_ns: int  # period of the increase timer
    counter_bytes: int  # bytes that count as one period too
    base_rtt_ns: int  # until one is measured
    recovery_stages: int  # periods of fast recovery
    mtu_bytes: int  # the window never falls below it
    is_fixed: int  # 1: the rate does not change, the window alone limits

    @classmethod
    def scaled(cls, rate_bps: int, base_rtt_ns: int, mtu_bytes: int, *, is_fixed: bool = False) -> Self:
        """The usual parameters of a 100 Gbit/s NIC at 10 us, in the same proportion to a rate and an RTT.

        CNPs at most every 5 RTT (50 us), alpha's timer likewise (55 us), the increase timer 30 RTT (300 us),
        the byte counter a hundred windows (10 MB). Steps are larger than usual, for runs are seconds long.

        Args:
            rate_bps: of the port; at least 1000.
            base_rtt_ns: of an idle fabric; at least 1.
            mtu_bytes: of a whole packet.
            is_fixed: no rate control.
        """
        line_kbps = min(_U32, rate_bps // 1000)
        window_bytes = max(mtu_bytes, rate_bps * base_rtt_ns // (8 * 10**9))
        return cls(
            line_kbps=line_kbps,
            min_kbps=max(1, round(line_kbps * _MIN_SHARE)),
            ai_kbps=max(1, round(line_kbps * _AI_SHARE)),
            hai_kbps=max(1, round(line_kbps * _HAI_SHARE)),
            g_q16=_G_Q16,
            alpha_ns=min(_U32, _CNP_RTTS * base_rtt_ns),
            rate_ns=min(_U32, _RATE_RTTS * base_rtt_ns),
            counter_bytes=min(_U32, _COUNTER_RTTS * window_bytes),
            base_rtt_ns=min(_U32, base_rtt_ns),
            recovery_stages=_RECOVERY_STAGES,
            mtu_bytes=mtu_bytes,
            is_fixed=int(is_fixed),
        )


def cnp_interval_ns(base_rtt_ns: int) -> int:
    """Least time between two CNPs of a QP: 50 us where the RTT is 10 us."""
    return _CNP_RTTS * base_rtt_ns
