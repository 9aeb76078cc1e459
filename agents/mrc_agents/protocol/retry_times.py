"""Times and counts that bound what a program's QPs try again, as libibverbs and libmrc encode them.

Source: InfiniBand Architecture Specification, volume 1, "Local ACK Timeout" and "RNR NAK Timer Field";
attributes `timeout` and `retry` of libmrc.
"""

from typing import Final

NO_END_US: Final = 0xFFFFFFFF
"""For ever."""

_ACK_TIMEOUT_UNIT_NS: Final = 4096
_MRC_TIMEOUT_UNIT_NS: Final = 1024
_MRC_EXPONENTIAL_FOREVER: Final = 25
_RNR_TIMER_UNITS: Final = (
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
)  # fmt: skip
_RNR_TIMER_UNIT_US: Final = 10


def give_up_us(timeout: int, retry_count: int) -> int:
    """Time that a QP waits for an acknowledgement before its work fails: retry_count + 1 time-outs.

    Args:
        timeout: 4.096 us doubled so many times, 5 bits; 0: no end.
        retry_count: 3 bits.
    """
    if not timeout & 31:
        return NO_END_US
    return _as_us((_ACK_TIMEOUT_UNIT_NS << (timeout & 31)) * ((retry_count & 7) + 1))


def mrc_give_up_us(timeout: int, linear_count: int, exponential_count: int) -> int:
    """Time that libmrc's retries take: *linear_count* + 1 equal time-outs, then each twice the one before.

    Args:
        timeout: 1.024 us doubled so many times.
        exponential_count: time-outs that double; 25: no end.
    """
    if exponential_count >= _MRC_EXPONENTIAL_FOREVER:
        return NO_END_US
    return _as_us((_MRC_TIMEOUT_UNIT_NS << timeout) * (linear_count - 1 + (2 << exponential_count)))


def _as_us(duration_ns: int) -> int:
    return max(1, min(duration_ns // 1000, NO_END_US - 1))


def rnr_timer_us(code: int) -> int:
    """Time before a message that found no receive is sent again, from its 5 bits."""
    return _RNR_TIMER_UNITS[code & 31] * _RNR_TIMER_UNIT_US
