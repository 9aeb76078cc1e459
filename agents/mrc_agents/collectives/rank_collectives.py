"""The collectives of one rank in virtual time: mrc_agents/collectives/virtual.h by ctypes.

rank = RankCollectives(library, 0)
rank.add_peer(1, address)                        memory of its NIC, rank.memory_bytes of it
rank.start("all_reduce", rank.group((0, 1), 1), 1, 7, data, count, F32, SUM)
rank.advance()
for write in rank.take_writes(): ...             which somebody carries to the peer's memory
rank.take_ended()                                (7, None)
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Final

from mrc_agents.errors import PreflightError
from mrc_agents.objects import OBJECTS_DIR, how_to_build

_LIBRARY: Final = OBJECTS_DIR / "libmrc_virtual.so"
_NO_TIMEOUT: Final = -1


class Write(ctypes.Structure):
    """struct mrc_coll_virtual_write."""

    peer: int
    bytes: int
    local: int
    remote: int
    immediate: int
    _fields_ = (
        ("peer", c_int32),
        ("bytes", c_uint32),
        ("local", c_uint64),
        ("remote", c_uint64),
        ("immediate", c_uint32),
    )


class _Done(ctypes.Structure):
    """struct mrc_coll_done."""

    id: int
    failed: int
    _fields_ = (("id", c_uint64), ("failed", c_int))


_TAIL: Final = (c_int, c_uint64)
"""Time-out and id of an operation."""

_FUNCTIONS: Final[dict[str, tuple[Any, ...]]] = {
    "virtual_open": (c_void_p, c_int, c_void_p),
    "virtual_memory_bytes": (c_size_t, c_void_p),
    "virtual_add_peer": (c_int, c_void_p, c_int, c_void_p),
    "virtual_arrive": (None, c_void_p, c_int, c_uint32),
    "virtual_advance": (None, c_void_p),
    "virtual_take_write": (c_int, c_void_p, POINTER(Write)),
    "virtual_take_ended": (c_int, c_void_p, POINTER(_Done)),
    "virtual_awaited": (c_int, c_void_p, POINTER(c_int), c_int),
    "virtual_fail": (None, c_void_p, c_char_p),
    "virtual_close": (None, c_void_p),
    "error": (c_char_p, c_void_p),
    "group": (c_void_p, c_void_p, POINTER(c_int), c_int, c_uint64),
    "all_reduce": (c_int, c_void_p, c_uint64, c_void_p, c_size_t, c_int, c_int, *_TAIL),
    "reduce_scatter": (c_int, c_void_p, c_uint64, c_void_p, c_size_t, c_int, c_int, *_TAIL),
    "all_gather": (c_int, c_void_p, c_uint64, c_void_p, c_size_t, *_TAIL),
    "exchange": (
        c_int,
        c_void_p,
        c_uint64,
        POINTER(c_void_p),
        POINTER(c_size_t),
        POINTER(c_void_p),
        POINTER(c_size_t),
        *_TAIL,
    ),
}


Library = Mapping[str, Callable[..., Any]]


def load_library() -> Library:
    """The functions of the library, by name without prefix."""
    try:
        library = ctypes.CDLL(str(_LIBRARY))
    except OSError as error:
        raise PreflightError(f"the library of virtual time: {error}", hint=how_to_build("virtual")) from error
    functions = {}
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, f"mrc_coll_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions


class RankCollectives:
    """One rank's part of the operations of its groups."""

    def __init__(self, library: Library, rank: int) -> None:
        self._call = library
        self._coll = library["virtual_open"](rank, None)
        if not self._coll:
            raise MemoryError
        self.rank = rank
        # memory of its NIC that it needs for each peer
        self.memory_bytes: int = library["virtual_memory_bytes"](self._coll)
        self._groups: dict[tuple[tuple[int, ...], int], int] = {}

    @property
    def error(self) -> str:
        """Why operations fail; empty where they do not."""
        text: bytes = self._call["error"](self._coll)
        return text.decode()

    def add_peer(self, rank: int, address: int) -> None:
        """Add a peer, with the memory for what it and this rank send each other; before the groups.

        Raises:
            ValueError: there are too many.
        """
        if self._call["virtual_add_peer"](self._coll, rank, address):
            raise ValueError(f"rank {self.rank} cannot have rank {rank} as one more peer")

    def group(self, ranks: Sequence[int], number: int) -> int:
        """The group of *ranks* in the order of their indices; *number* names it on all of them."""
        key = tuple(ranks), number
        if key not in self._groups:
            made = self._call["group"](self._coll, (c_int * len(ranks))(*ranks), len(ranks), number)
            if not made:
                raise MemoryError
            self._groups[key] = made
        return self._groups[key]

    def start(self, operation: str, group: int, number: int, ended_as: int, *arguments: Any) -> None:
        """Start an operation of the library; its buffers stay until it has ended.

        Args:
            operation: all_reduce, reduce_scatter, all_gather or exchange.
            group: of `group`.
            number: of the operation in the group.
            ended_as: comes back from `take_ended`.
            arguments: of the library's function, between number and time-out.

        Raises:
            ValueError: the reduction does not exist for the type.
        """
        error = self._call[operation](group, number, *arguments, _NO_TIMEOUT, ended_as)
        if error:
            raise ValueError(f"{operation}: {os.strerror(error)}")

    def arrive(self, peer: int, immediate: int) -> None:
        """A WRITE of *peer* is whole."""
        self._call["virtual_arrive"](self._coll, peer, immediate)

    def advance(self) -> None:
        """Do what there is to do now."""
        self._call["virtual_advance"](self._coll)

    def take_writes(self) -> Iterator[Write]:
        """WRITEs to post, oldest first."""
        write = Write()
        while self._call["virtual_take_write"](self._coll, byref(write)):
            yield write

    def take_ended(self) -> Iterator[tuple[int, str | None]]:
        """Operations that have ended, and why they failed if they did."""
        done = _Done()
        while self._call["virtual_take_ended"](self._coll, byref(done)):
            yield done.id, self.error if done.failed else None

    def awaited(self, most: int) -> list[int]:
        """Ranks that its operations wait for now, at most so many."""
        ranks = (c_int * most)()
        return sorted(set(ranks[: self._call["virtual_awaited"](self._coll, ranks, most)]))

    def fail(self, why: str) -> None:
        """Let all operations fail."""
        self._call["virtual_fail"](self._coll, why.encode())

    def close(self) -> None:
        self._call["virtual_close"](self._coll)
