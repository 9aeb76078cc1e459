"""libmrc_coll by ctypes, and the thread that does its work. Needs no torch."""

import ctypes
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from itertools import count
from typing import Any, Final, Protocol

from mrc_torch.followers import Follower, Followers

LIBRARY: Final = "libmrc_coll.so"
_WHY_BYTES: Final = 256
_HINT: Final = "start the program by `mrc-testbed launch`"


class Type(IntEnum):
    """enum mrc_coll_type."""

    F32 = 0
    F64 = 1
    F16 = 2
    BF16 = 3
    I8 = 4
    U8 = 5
    I32 = 6
    I64 = 7

    @property
    def bytes(self) -> int:
        """Size of an element."""
        return int(self.name.lstrip("BFIU")) // 8


class Reduction(IntEnum):
    """enum mrc_coll_reduction."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    AND = 4
    OR = 5
    XOR = 6


class Options(ctypes.Structure):
    """struct mrc_coll_options."""

    _fields_ = (
        ("slots", ctypes.c_uint32),
        ("slot_bytes", ctypes.c_uint32),
        ("dead_after_ms", ctypes.c_uint32),
        ("port", ctypes.c_uint16),
    )


class _Peer(ctypes.Structure):
    _fields_ = (("rank", ctypes.c_int), ("address", ctypes.c_char_p), ("port", ctypes.c_int))


class _Done(ctypes.Structure):
    _fields_ = (("id", ctypes.c_uint64), ("failed", ctypes.c_int))


class CollectiveError(RuntimeError):
    """An operation failed, or cannot be begun: one line that names the rank at fault."""


_Pointer = ctypes.c_void_p
_Int = ctypes.c_int
_U64 = ctypes.c_uint64
_Size = ctypes.c_size_t
_TAIL: Final = (_Int, _U64)
"""Time-out and id of an operation."""

_FUNCTIONS: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "open": (_Pointer, (_Int, ctypes.POINTER(Options), ctypes.c_char_p, _Size)),
    "port": (_Int, (_Pointer,)),
    "connect": (_Int, (_Pointer, ctypes.POINTER(_Peer), _Int, _Int)),
    "group": (_Pointer, (_Pointer, ctypes.POINTER(_Int), _Int, _U64)),
    "all_reduce": (_Int, (_Pointer, _U64, _Pointer, _Size, _Int, _Int, *_TAIL)),
    "reduce_scatter": (_Int, (_Pointer, _U64, _Pointer, _Size, _Int, _Int, *_TAIL)),
    "all_gather": (_Int, (_Pointer, _U64, _Pointer, _Size, *_TAIL)),
    "exchange": (
        _Int,
        (
            _Pointer,
            _U64,
            ctypes.POINTER(_Pointer),
            ctypes.POINTER(_Size),
            ctypes.POINTER(_Pointer),
            ctypes.POINTER(_Size),
            *_TAIL,
        ),
    ),
    "wait": (_Int, (_Pointer, _Int, ctypes.POINTER(_Done))),
    "wake": (None, (_Pointer,)),
    "error": (ctypes.c_char_p, (_Pointer,)),
    "close": (None, (_Pointer,)),
}


def _load() -> dict[str, Callable[..., Any]]:
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError as error:
        raise CollectiveError(f"{error}: {_HINT}") from error
    functions = {}
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, f"mrc_coll_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions


class Store(Protocol):
    """Where ranks tell each other something, as torch.distributed has it."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> bytes: ...


Ended = Callable[[str | None], Iterable[Follower] | None]
"""Called by the engine's thread when an operation ends, with what went wrong; returns what follows."""


CallAtEnd = Callable[[Callable[[Any], Any]], None]
"""Lets a function be called with a future when that is done."""


class LiveCollectives:
    """The NIC of this process, its peers, and all that is under way.

    Args:
        rank: number of this process among all that it will meet.
        options: 0 stands for the library's default.

    Raises:
        CollectiveError: there is no NIC, or no library.
    """

    def __init__(self, rank: int, options: Options | None = None) -> None:
        self._call = _load()
        why = ctypes.create_string_buffer(_WHY_BYTES)
        self._coll = self._call["open"](rank, options, why, _WHY_BYTES)
        if not self._coll:
            raise CollectiveError(why.value.decode())
        self.rank = rank
        self.port: int = self._call["port"](self._coll)
        self._ids = count(1)
        self._waiting: dict[int, Ended] = {}
        self._followers = Followers()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    @property
    def error(self) -> str:
        """Why operations fail; empty where they do not."""
        text: bytes = self._call["error"](self._coll)
        return text.decode()

    def meet(self, ranks: Sequence[int], store: Store, timeout_ms: int) -> None:
        """Connect to the other ranks of a group, which all call this."""
        own = f"{socket.gethostbyname(socket.gethostname())}:{self.port}"
        store.set(f"mrc/{self.rank}", own)
        peers = {}
        for rank in ranks:
            if rank != self.rank:
                host, _, port = store.get(f"mrc/{rank}").decode().rpartition(":")
                peers[rank] = host, int(port)
        self.connect(peers, timeout_ms)

    def connect(self, peers: Mapping[int, tuple[str, int]], timeout_ms: int) -> None:
        """Connect to *peers*, by rank: address and port; all of them do so, and those already known stay.

        Raises:
            CollectiveError: names the rank that cannot be reached, or the NIC's limit.
        """
        self._stop()
        wanted = [_Peer(rank, address.encode(), port) for rank, (address, port) in peers.items()]
        failed = self._call["connect"](self._coll, (_Peer * len(wanted))(*wanted), len(wanted), timeout_ms)
        if failed:
            raise CollectiveError(self.error)
        self._thread = threading.Thread(target=self._work, name="mrc", daemon=True)
        self._thread.start()

    def group(self, ranks: Sequence[int], number: int) -> int:
        """A group of ranks, in the order of their indices; *number* names it on all of them."""
        made: int | None = self._call["group"](self._coll, (_Int * len(ranks))(*ranks), len(ranks), number)
        if not made:
            raise MemoryError
        return made

    def start(self, operation: str, ended: Ended, *arguments: object, timeout_ms: int) -> int:
        """Start an operation of the library; its buffers stay until *ended* is called.

        Returns:
            Its number in this process.

        Args:
            operation: all_reduce, reduce_scatter, all_gather or exchange.
            ended: what to do then.
            arguments: of the library's function, without time-out and id.
            timeout_ms: less than 0: none.
        """
        if self._coll is None:
            raise CollectiveError(f"{operation}: this process has left its peers")
        number = next(self._ids)
        self._waiting[number] = ended
        error = self._call[operation](*arguments, timeout_ms, number)
        if error:
            del self._waiting[number]
            raise CollectiveError(f"{operation}: {os.strerror(error)}")
        return number

    def expect(self, _numbers: Sequence[int]) -> None:
        """Note that the calling thread waits for operations."""
        self._followers.make_way()

    def expect_future(self, _is_done: Callable[[], bool], _call_at_end: CallAtEnd) -> None:
        """Note that the calling thread waits for a future."""
        self._followers.make_way()

    def close(self) -> None:
        """Wait until peers have what was sent to them, and leave in good order."""
        self._stop()
        self._call["close"](self._coll)
        self._coll = None
        for number in list(self._waiting):
            self._end(number, "this process has left its peers")
        self._followers.close()

    def _stop(self) -> None:
        if self._thread:
            self._is_stopping = True
            self._call["wake"](self._coll)
            self._thread.join()
            self._is_stopping = False
            self._thread = None

    def _work(self) -> None:
        done = _Done()
        while not self._is_stopping:
            if self._call["wait"](self._coll, -1, done):
                self._end(done.id, self.error if done.failed else None)

    def _end(self, number: int, error: str | None) -> None:
        if error:
            self._followers.overtake()  # a function that waits for ever would hide it
        for follower in self._waiting.pop(number)(error) or ():
            self._followers.call(follower)


def buffers(
    given: Sequence[tuple[int, int] | None],
) -> tuple["ctypes.Array[ctypes.c_void_p]", "ctypes.Array[ctypes.c_size_t]"]:
    """Addresses and lengths of an exchange, by index in the group; None is nothing."""
    filled = [each or (None, 0) for each in given]
    return (
        (_Pointer * len(filled))(*(address for address, _ in filled)),
        (_Size * len(filled))(*(length for _, length in filled)),
    )
