"""The order in which gloo's ring makes a sum, in numpy: what the bits of floating-point sums depend on."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _chunk_length(length: int, element_bytes: int, size: int) -> int:
    """Elements that end at one of *size* ranks: segments of at most 1 MiB, at least two for each rank."""
    longest = 2**20 // element_bytes
    segments = max(-(-length // longest), 2 * size)
    for_each = -(-segments // size)
    return for_each * -(-length // (for_each * size))


def in_ring_order(
    given: Sequence[Array], add: Callable[[Array, Array], Array], element_bytes: int = 0
) -> Array:
    """The sum of what ranks give: chunk i begins at rank i - 1, goes down and ends at rank i.

    Args:
        given: as many elements of each rank.
        add: rounds as the type does.
        element_bytes: of the type; 0: of the arrays' own.
    """
    size = len(given)
    chunk = _chunk_length(len(given[0]), element_bytes or given[0].itemsize, size)
    result = given[0].copy()
    for index in range(size):
        part = slice(index * chunk, (index + 1) * chunk)
        total = given[(index - 1) % size][part]
        for step in range(2, size + 1):
            total = add(given[(index - step) % size][part], total)
        result[part] = total
    return result
