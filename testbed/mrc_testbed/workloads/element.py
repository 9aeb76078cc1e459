"""The elements of collectives: types, reductions, and inputs whose result is known without them.

The input of rank q in operation k is an endless tile of random elements, begun at a place that q and k give:

    element i of rank q's data = tile[(i + q * RANK_STRIDE + k * OPERATION_STRIDE) % TILE_COUNT]

so the reduction over all ranks is a tile too, computed once, without any of the data that crossed the fabric.
Elements of floating point are small whole numbers: their sums are exact in whatever order they are added.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mrc_testbed.workloads.collective import DType, ReduceOp

Array: TypeAlias = NDArray[Any]

TILE_COUNT: Final = 65_521
"""Prime: no power-of-two distance maps the tile onto itself."""

_RANK_STRIDE: Final = 7_919
_OPERATION_STRIDE: Final = 104_729 % TILE_COUNT
_FLOAT_VALUES: Final = 256
_OPERATIONS: Final = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def reduce_into(target: Array, arrived: Array, operation: ReduceOp) -> None:
    """Reduces *arrived* into *target*, in place."""
    _OPERATIONS[operation](target, arrived, out=target)


class Inputs:
    """The inputs of all ranks in every operation, and what they reduce to."""

    def __init__(self, ranks: int, dtype: DType, operation: ReduceOp, seed: int) -> None:
        random = np.random.default_rng(seed)
        kind = np.dtype(dtype)
        tile: Array
        if kind.kind == "f":
            tile = random.integers(0, _FLOAT_VALUES, TILE_COUNT).astype(kind)
        else:
            limits = np.iinfo(kind)
            tile = random.integers(limits.min, limits.max, TILE_COUNT, dtype=kind, endpoint=True)
        reduced = tile.copy()
        for rank in range(1, ranks):
            reduce_into(reduced, np.roll(tile, -rank * _RANK_STRIDE), operation)
        self._tile = np.concatenate((tile, tile))
        self._reduced = np.concatenate((reduced, reduced))

    def fill(self, target: Array, start: int, rank: int, operation: int) -> None:
        """Writes elements *start* and on of a rank's input."""
        for offset, piece in _pieces(self._tile, len(target), _origin(start, rank, operation)):
            target[offset : offset + len(piece)] = piece

    def count_wrong(self, found: Array, start: int, rank: int | None, operation: int) -> int:
        """Count the bytes of *found* that are not those of elements *start* and on of a rank's input.

        Args:
            start: first element.
            rank: whose input; None: the reduction over all ranks.
        """
        tile = self._reduced if rank is None else self._tile
        wrong = 0
        for offset, piece in _pieces(tile, len(found), _origin(start, rank or 0, operation)):
            part = found[offset : offset + len(piece)]
            if not np.array_equal(part.view(np.uint8), piece.view(np.uint8)):
                wrong += int(np.count_nonzero(part.view(np.uint8) != piece.view(np.uint8)))
        return wrong


def _origin(start: int, rank: int, operation: int) -> int:
    return (start + rank * _RANK_STRIDE + operation * _OPERATION_STRIDE) % TILE_COUNT


def _pieces(tile: Array, count: int, origin: int) -> list[tuple[int, Array]]:
    """(offset in the interval, elements) of each run of a tile that is kept twice over."""
    return [
        (offset, tile[origin : origin + min(TILE_COUNT, count - offset)])
        for offset in range(0, count, TILE_COUNT)
    ]
