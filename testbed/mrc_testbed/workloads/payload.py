"""The data of operations of a trace: what a rank gives, and whether it has what it must in the end.

Elements are bytes, whose sums are exact; see `element`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from mrc_agents.abi import CollReduction, CollType
from mrc_testbed.traces.graph import GroupCallKind
from mrc_testbed.workloads.element import Array, Inputs
from mrc_testbed.workloads.rank_network import Piece, exchange_sides

_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class _Expected:
    """Bytes that must be there in the end."""

    at: int  # offset in the memory
    length: int
    element: int  # the first one of the input
    giver: int | None  # index of the rank whose input it is; None: of all, reduced


@dataclass(frozen=True, slots=True)
class Payload:
    """A rank's part in one operation: a function of libmrc_coll, with memory for it."""

    function: str
    arguments: tuple[Any, ...]  # behind the number of the operation
    _memory: Array
    _inputs: Inputs
    _number: int
    _expected: tuple[_Expected, ...]

    def compare(self) -> tuple[int, int]:
        """Count the bytes that are compared, and those of them that are wrong."""
        wrong = (
            self._inputs.count_wrong(
                self._memory[each.at : each.at + each.length], each.element, each.giver, self._number
            )
            for each in self._expected
        )
        return sum(each.length for each in self._expected), sum(wrong)


def build_payload(
    kind: GroupCallKind | None, sizes_bytes: Sequence[int], index: int, root: int, number: int
) -> Payload:
    """A rank's part in an operation, its input written.

    Args:
        kind: of the collective; None: a message.
        sizes_bytes: input of each rank, in the order of the group.
        index: of this rank in the group.
        root: index of the root; of a message, of its sender.
        number: selects the data.
    """
    ranks, size = len(sizes_bytes), sizes_bytes[index]
    arguments: tuple[int, ...]
    match kind:
        case "all-reduce" | "reduce" | "barrier":
            function, given, expected = "all_reduce", (0, size), [_Expected(0, size, 0, None)]
            memory, arguments = np.empty(size, np.uint8), (size, CollType.U8, CollReduction.SUM)
        case "reduce-scatter":
            chunk = -(-size // ranks)
            function, given = "reduce_scatter", (0, chunk * ranks)
            memory, arguments = np.empty(chunk * ranks, np.uint8), (chunk, CollType.U8, CollReduction.SUM)
            expected = [_Expected(index * chunk, chunk, index * chunk, None)]
        case "all-gather" if len(set(sizes_bytes)) == 1:
            function, given = "all_gather", (index * size, size)
            memory, arguments = np.empty(size * ranks, np.uint8), (size,)
            expected = [_Expected(each * size, size, 0, each) for each in range(ranks) if each != index]
        case _:
            return _exchange(kind, sizes_bytes, index, root, number)
    inputs = _inputs(ranks)
    inputs.fill(memory[given[0] : sum(given)], 0, index, number)
    return Payload(function, (memory.ctypes.data, *arguments), memory, inputs, number, tuple(expected))


def _exchange(
    kind: GroupCallKind | None, sizes_bytes: Sequence[int], index: int, root: int, number: int
) -> Payload:
    """The part of a rank in an exchange of each with each, as far as they send each other something."""
    ranks = range(len(sizes_bytes))
    lengths = [
        [_sent_bytes(kind, sizes_bytes[source], len(ranks), source, target, root) for target in ranks]
        for source in ranks
    ]
    out, at = _laid_out(lengths[index], 0)
    into, length = _laid_out([lengths[source][index] for source in ranks], at)
    memory, inputs = np.empty(length, np.uint8), _inputs(len(ranks))
    inputs.fill(memory[:at], 0, index, number)
    expected = [
        _Expected(place, got, sum(lengths[source][:index]), source)
        for source, (place, got) in zip(ranks, into, strict=True)
        if got
    ]
    sides = exchange_sides(memory.ctypes.data, out, into)
    return Payload("exchange", sides, memory, inputs, number, tuple(expected))


def _sent_bytes(
    kind: GroupCallKind | None, size_bytes: int, ranks: int, source: int, target: int, root: int
) -> int:
    """Bytes from one rank to another."""
    if source == target:
        return 0
    match kind:
        case "all-to-all":
            return -(-size_bytes // ranks)
        case "all-gather":  # of different sizes
            return size_bytes
        case "gather":
            return size_bytes if target == root else 0
        case _:  # broadcast, scatter, and a message, whose group is sender and receiver
            return size_bytes if source == root else 0


def _laid_out(lengths: Sequence[int], at: int) -> tuple[list[Piece], int]:
    """Pieces of these lengths, one behind the other, and where they end."""
    pieces = []
    for length in lengths:
        pieces.append((at, length))
        at += length
    return pieces, at


@lru_cache(maxsize=8)
def _inputs(ranks: int) -> Inputs:
    return Inputs(ranks, "uint8", "sum", _SEED)
