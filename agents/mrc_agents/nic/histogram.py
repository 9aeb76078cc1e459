"""Log-linear histograms of times: the twin of mrc_agents/include/mrc/histogram.h."""

from typing import Final

LINEAR_BITS: Final = 5
VALUE_BITS: Final = 36
"""Values of 2**VALUE_BITS ns and more share the last bucket."""


def bucket_index(value_ns: int) -> int:
    """Bucket in which *value_ns* (0 or more) is counted.

    Source: mrc_agents/include/mrc/histogram.h, histogram_index.
    """
    value_ns = min(value_ns, (1 << VALUE_BITS) - 1)
    shift = max(0, value_ns.bit_length() - LINEAR_BITS - 1)
    return (shift << LINEAR_BITS) + (value_ns >> shift)
