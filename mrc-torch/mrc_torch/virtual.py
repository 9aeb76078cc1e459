"""A rank in virtual time: its clock, and the simulation that carries its operations. Needs no torch.

`mrc-testbed launch --virtual` starts such ranks. The protocol is that of mrc-testbed's
mrc_testbed/virtual/rank_channel.py.
"""

import atexit
import ctypes
import json
import mmap
import os
import select
import socket
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from mrc_torch.clock import CLOCK
from mrc_torch.followers import Follower, Followers
from mrc_torch.library import CallAtEnd, CollectiveError, Ended, Store
from mrc_torch.rank import channel, is_rank

_MESSAGE_BYTES_MAX: Final = 1 << 20

_EXCHANGE: Final = "exchange"
_ENDED: Final = "the simulation has ended"

Pointers = Sequence[int | None]


class _Memory:
    """Memory that the simulation works on, in the place of that of an operation.

    Args:
        out: address and bytes of what it begins with.
        into: address and bytes of what is wanted back.
    """

    def __init__(self, out: Sequence[tuple[int | None, int]], into: Sequence[tuple[int | None, int]]) -> None:
        self.out, at = _laid_out(out, 0)
        is_same = out is into
        self.into, length = (self.out, at) if is_same else _laid_out(into, at)
        self._wanted = into
        self.descriptor = os.memfd_create("mrc-torch", os.MFD_CLOEXEC)
        os.ftruncate(self.descriptor, max(length, 1))
        self._map = mmap.mmap(self.descriptor, 0)
        self._held = (ctypes.c_char * len(self._map)).from_buffer(self._map)
        self._copy(self.out, out, is_back=False)

    def take_back(self) -> None:
        self._copy(self.into, self._wanted, is_back=True)

    def close(self) -> None:
        del self._held
        self._map.close()

    def _copy(
        self, places: Sequence[tuple[int, int]], own: Sequence[tuple[int | None, int]], *, is_back: bool
    ) -> None:
        base = ctypes.addressof(self._held)
        for (at, length), (address, _) in zip(places, own, strict=True):
            if address is not None and length:
                to, source = (address, base + at) if is_back else (base + at, address)
                ctypes.memmove(to, source, length)


def _laid_out(pieces: Sequence[tuple[int | None, int]], at: int) -> tuple[list[tuple[int, int]], int]:
    """Offset and length of each piece, one behind the other from *at* on, and where they end."""
    places = []
    for _, length in pieces:
        places.append((at, length))
        at += length
    return places, at


@dataclass(eq=False)
class _Wait:
    """A thread that waits: for what, and until which time once that is over."""

    is_over: Callable[[], bool]
    thread: int | None
    end_ns: int | None = None


class VirtualCollectives:
    """The interface of library.Engine, by a simulation.

    The simulation lets time pass while this rank waits: its program and what follows operations, all of them.
    """

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self._socket = socket.socket(fileno=channel())
        self._leaving = os.eventfd(0, os.EFD_CLOEXEC)
        self._ids = count(1)
        # until all that follows is done; None: it has ended
        self._under_way: dict[int, tuple[Ended, _Memory] | None] = {}
        self._awaited: set[int] = set()  # those under way that hold up who waits for them
        self._of_backward: set[int] = set()  # those that began in backward(), and what followed them
        self._ended_at_ns: dict[int, int] = {}
        self._waits: list[_Wait] = []
        self._woken_at_ns: int | None = None  # from its sleep
        self._is_outside = False
        self._is_cut_off = False
        self._changed = threading.Condition()
        self._followers = Followers()
        self._followed = threading.local()
        CLOCK.sleep_until = self._sleep_until
        self._thread = threading.Thread(target=self._listen, name="mrc", daemon=True)
        self._thread.start()

    def meet(self, ranks: Sequence[int], store: Store, timeout_ms: int) -> None:
        """Do nothing: the simulation knows all ranks."""

    def group(self, ranks: Sequence[int], number: int) -> tuple[tuple[int, ...], int]:
        return tuple(ranks), number

    def start(self, operation: str, ended: Ended, *arguments: Any, timeout_ms: int) -> int:
        """Start an operation; see library.Engine. Nothing is late in virtual time: there is no time-out."""
        del timeout_ms
        (ranks, group), number, *rest = arguments
        message: dict[str, Any] = {"operation": operation, "ranks": ranks, "group": group, "number": number}
        if operation == _EXCHANGE:
            out, into = _pieces(rest[0], rest[1]), _pieces(rest[2], rest[3])
            own = ranks.index(self.rank)
            out[own] = into[own] = (None, 0)
            memory = _Memory(out, into)
            message |= {"out": memory.out, "in": memory.into}
        else:
            data = [(rest[0], _data_bytes(operation, len(ranks), rest[1:]))]
            memory = _Memory(data, data)
            message["arguments"] = [int(each) for each in rest[1:]]
        with self._changed:
            if self._is_cut_off:
                raise CollectiveError(_ENDED)
            own_id = next(self._ids)
            if own_id == 1:
                CLOCK.program = threading.current_thread()
            self._under_way[own_id] = ended, memory
            self._awaited.add(own_id)
            self._note_backward(own_id)
            self._send({"do": "start", "id": own_id, "at_ns": CLOCK.now_ns, **message}, memory.descriptor)
        os.close(memory.descriptor)
        return own_id

    def expect(self, numbers: Collection[int]) -> None:
        """Wait for operations in virtual time, and move the clock to their end."""
        with self._changed:
            self._wait(lambda: self._awaited.isdisjoint(numbers), numbers)
            for number in numbers:
                CLOCK.join(self._ended_at_ns.get(number, 0))
                if self._own is None:
                    self._ended_at_ns.pop(number, None)

    def expect_future(self, is_done: Callable[[], bool], call_at_end: CallAtEnd) -> None:
        """Wait for a future in virtual time, if an operation may end it."""
        if self._under_way.keys() - {self._own}:
            call_at_end(lambda _: self._look())
            with self._changed:
                self._wait(is_done)

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Let time pass while the program waits for something that is not an operation.

        It goes on at the time that the simulation has then.
        """
        if self._is_outside or not CLOCK.is_of_program:
            yield
            return
        self._is_outside = True
        self._send({"do": "outside"})
        try:
            yield
        finally:
            self._is_outside = False
            self._sleep_until(CLOCK.now_ns)

    def close(self) -> None:
        """Wait for what has not ended."""
        with self._changed:
            self._wait(lambda: not self._under_way)
        self._followers.close()

    def end(self) -> None:
        """Leave the simulation, at the end of the process."""
        if not is_rank():  # of fork(): the channel is its parent's
            return
        os.eventfd_write(self._leaving, 1)
        self._thread.join()  # one that lives on while the interpreter ends aborts the process
        self._socket.close()
        os.close(self._leaving)

    @property
    def _own(self) -> int | None:
        """The operation that the calling thread follows; None: it is the program's; below 0: another."""
        own: int | None = getattr(self._followed, "number", None)
        return own if own or CLOCK.is_of_program else -threading.get_native_id()

    def _wait(self, is_over: Callable[[], bool], numbers: Collection[int] = ()) -> None:
        """Wait, with the lock, and let the simulation know; the clock moves to the end of the wait.

        Args:
            is_over: True once the wait is over.
            numbers: of the operations that it waits for; empty: any.
        """
        if is_over():
            return
        wait = _Wait(is_over, self._own)
        if wait.thread is not None:
            self._awaited.discard(wait.thread)
            self._followers.make_way()
        self._waits.append(wait)
        awaited = self._awaited.intersection(numbers or self._awaited)
        self._send({"do": "wait", "in": wait.thread, "ids": sorted(awaited)})
        self._look()
        self._changed.wait_for(lambda: wait.end_ns is not None)
        CLOCK.join(wait.end_ns or 0)

    def _sleep_until(self, time_ns: int) -> None:
        with self._changed:
            self._woken_at_ns = time_ns if self._is_cut_off else None
            self._send({"do": "sleep", "until_ns": time_ns})
            self._changed.wait_for(lambda: self._woken_at_ns is not None)
            CLOCK.join(self._woken_at_ns or 0)

    def _wake(self, now_ns: int) -> None:
        with self._changed:
            self._woken_at_ns = now_ns
            self._changed.notify_all()

    def _look(self) -> None:
        """End the waits that are over: the simulation knows before the calling thread goes on."""
        with self._changed:
            for wait in [each for each in self._waits if each.is_over()]:
                self._waits.remove(wait)
                wait.end_ns = CLOCK.now_ns
                self._send({"do": "go_on", "in": wait.thread})
            self._changed.notify_all()

    def _note_backward(self, number: int) -> None:
        """Wait for what began in backward() before DistributedDataParallel does: its wait, in C++, is unseen.

        It waits at the end of backward(), behind the callbacks that were there before, and for what followed
        as well.
        """
        queue = _backward_queue()
        if self._own in self._of_backward:
            self._of_backward.add(number)
        elif queue is not None:
            with suppress(RuntimeError):  # not in backward: who waits calls wait()
                queue(self._end_backward)
                self._of_backward.add(number)

    def _end_backward(self) -> None:
        with self._changed:
            self._wait(lambda: self._of_backward.isdisjoint(self._under_way))
            for number in self._of_backward:
                CLOCK.join(self._ended_at_ns.get(number, 0))
            self._of_backward.clear()

    def _send(self, message: dict[str, Any], *descriptors: int) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the simulation has ended: _listen() sees it
            socket.send_fds(self._socket, [json.dumps(message).encode()], descriptors)

    def _listen(self) -> None:
        channel = self._socket.fileno()
        while channel in select.select([channel, self._leaving], [], [])[0]:
            text = b""
            with suppress(ConnectionResetError):  # the simulation was killed, and left something unread
                text = self._socket.recv(_MESSAGE_BYTES_MAX)
            if not text:
                break
            answer = json.loads(text)
            if "id" in answer:
                self._end(answer["id"], answer["at_ns"], answer["error"])
            elif "now_ns" in answer:
                self._wake(answer["now_ns"])
            else:
                self._send({"do": "where", "place": _place()})
        with self._changed:
            self._is_cut_off = True
            left = [number for number, not_ended in self._under_way.items() if not_ended]
        self._wake(0)
        for number in left:
            self._end(number, CLOCK.now_ns, _ENDED)

    def _end(self, number: int, at_ns: int, error: str | None) -> None:
        with self._changed:
            found, self._under_way[number] = self._under_way[number], None
            self._ended_at_ns[number] = at_ns
        if found is None:
            return
        ended, memory = found
        if error is None:
            memory.take_back()
        memory.close()
        if error:
            self._followers.overtake()
        with CLOCK.of_this_thread(at_ns):
            followers = ended(error) or ()
        self._followers.call(partial(self._follow, number, at_ns, followers))

    def _follow(self, number: int, at_ns: int, followers: Iterable[Follower]) -> None:
        """Call what follows an operation; who waits for it goes on behind that, or once that waits."""
        self._followed.number = number
        with CLOCK.of_this_thread(at_ns):
            for follower in followers:
                follower()
            with self._changed:
                self._awaited.discard(number)
                del self._under_way[number]
                self._look()
                self._send({"do": "took", "id": number})
        self._followed.number = None


@cache
def engine() -> VirtualCollectives:
    """The engine of this rank; it stays until the process ends."""
    made = VirtualCollectives(int(os.environ["RANK"]))
    atexit.register(made.end)
    return made


def _backward_queue() -> Callable[[Callable[[], None]], None] | None:
    try:
        from torch.autograd import Variable  # noqa: PLC0415 - of torch, which this module does not need
    except ImportError:
        return None
    return Variable._execution_engine.queue_callback  # type: ignore[no-any-return] # noqa: SLF001


def _pieces(addresses: Pointers, lengths: Sequence[int]) -> list[tuple[int | None, int]]:
    return [(address, int(length)) for address, length in zip(addresses, lengths, strict=True)]


def _data_bytes(operation: str, size: int, arguments: Sequence[Any]) -> int:
    if operation == "all_gather":
        return size * int(arguments[0])
    elements = int(arguments[0]) * (size if operation == "reduce_scatter" else 1)
    return elements * int(arguments[1].bytes)


def _place() -> str:
    """Where the program is: the innermost line outside of libraries, and the innermost of all."""
    frame = sys._current_frames().get(CLOCK.program.ident or 0)  # noqa: SLF001 - for debuggers
    stack = traceback.extract_stack(frame)
    paths = sysconfig.get_paths()
    libraries = (paths["stdlib"], paths["purelib"], paths["platlib"], str(Path(__file__).parent), "<")
    own = [each for each in stack if not each.filename.startswith(libraries)]
    innermost = stack[-1]
    texts = [f"{Path(each.filename).name}:{each.lineno}" for each in (*own[-1:], innermost)]
    return f"at {texts[0]}, in {innermost.name} ({texts[-1]})"
