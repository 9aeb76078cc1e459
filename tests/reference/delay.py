"""The bucket of a queueing delay, as mrc_agents/queue/delay.h counts it."""

from typing import Final

_UNIT_NS: Final = 256
_LINEAR_BITS: Final = 3
_VALUE_BITS: Final = 24
"""Bits of a value, in units of 256 ns: values of 2**32 ns and more share the last bucket."""


def delay_index(value_ns: int) -> int:
    """Bucket in which *value_ns* (0 or more) is counted."""
    value = min(value_ns // _UNIT_NS, (1 << _VALUE_BITS) - 1)
    shift = max(0, value.bit_length() - _LINEAR_BITS - 1)
    return (shift << _LINEAR_BITS) + (value >> shift)
