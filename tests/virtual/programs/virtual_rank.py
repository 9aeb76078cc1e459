"""A rank of tests of programs in virtual time, by the engine of mrc-torch but without torch; does a case."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np

from mrc_torch.clock import CLOCK, take_over_time
from mrc_torch.library import Reduction, Type, buffers
from mrc_torch.rank import CHANNEL_VARIABLE, is_rank, is_virtual
from mrc_torch.virtual import engine

RANK: Final = int(os.environ["RANK"])
SIZE: Final = int(os.environ["WORLD_SIZE"])
REPORT: Final = int(os.environ["MRC_TESTBED_REPORT_FD"])
COMPUTE_NS: Final = int(os.environ.get("MRC_TORCH_COMPUTE", "0"))
ELEMENTS: Final = 60_000
Array = np.ndarray[Any, Any]


class Rank:
    """This process among all ranks."""

    def __init__(self) -> None:
        self.engine = engine()
        self.all = self.engine.group(range(SIZE), 1)
        self._numbers = count()
        self.errors: list[str] = []

    def start(
        self,
        operation: str,
        *arguments: object,
        number: int | None = None,
        followers: Sequence[Callable[[], None]] = (),
    ) -> int:
        def end(error: str | None) -> Sequence[Callable[[], None]]:
            self._note(error)
            return followers

        own = next(self._numbers) if number is None else number
        return self.engine.start(operation, end, self.all, own, *arguments, timeout_ms=-1)

    def all_reduce(self, data: Array, *followers: Callable[[], None]) -> int:
        arguments = data.ctypes.data, data.size, Type.F32, Reduction.SUM
        return self.start("all_reduce", *arguments, followers=followers)

    def message(self, peer: int, out: Array | None, into: Array | None, number: int) -> int:
        """Start a message to *peer*, or from it."""

        def at(data: Array | None) -> Any:
            place = (data.ctypes.data, data.nbytes) if data is not None else None
            return buffers([place if rank == peer else None for rank in range(SIZE)])

        return self.start("exchange", *at(out), *at(into), number=number)

    def wait(self, *numbers: int) -> None:
        """Wait for operations; one that failed ends the process with what it said."""
        self.engine.expect(numbers)
        if self.errors:
            sys.exit(self.errors[0])

    def _note(self, error: str | None) -> None:
        if error:
            self.errors.append(error)


def report(step: int, began_ns: int, **more: object) -> None:
    line = {"step": step, "time_s": (CLOCK.now_ns - began_ns) / 1e9, "end_ns": CLOCK.now_ns, **more}
    os.write(REPORT, (json.dumps(line) + "\n").encode())


def train(rank: Rank, steps: int) -> None:
    """Sum numbers over all ranks, step after step, each with two buckets under way at once."""
    for step in range(steps):
        began_ns = CLOCK.now_ns
        data = np.full((2, ELEMENTS), (RANK + 1) / 2**step, np.float32)  # sums are exact in any order
        CLOCK.compute(COMPUTE_NS // 2)
        first = rank.all_reduce(data[0])
        CLOCK.compute(COMPUTE_NS // 2)
        rank.wait(first, rank.all_reduce(data[1]))
        assert np.ptp(data) == 0
        report(step, began_ns, loss=float(data[0, 0]), bytes=2 * data.nbytes * (SIZE - 1) // SIZE)


def overlap(rank: Rank) -> None:
    """Print how long a step takes whose first bucket is under way while the second is computed."""
    train(rank, 2)
    print(CLOCK.now_ns, flush=True)


def messages(rank: Rank) -> None:
    """Send to the next rank and receive from the one before, and print what came."""
    out, into = np.full(9, RANK), np.zeros(9, int)
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    rank.wait(rank.message(after, out, None, RANK), rank.message(before, None, into, before))
    assert (into == before).all()
    report(0, -1)
    print("from", into[0], flush=True)


def wait_in_a_circle(rank: Rank) -> None:
    train(rank, 1)
    rank.wait(rank.message((RANK + 1) % SIZE, None, np.zeros(9), 77 + RANK))


def leave(rank: Rank) -> None:
    """Rank 1 ends in good order, while others need it."""
    train(rank, 1)
    if RANK != 1:
        train(rank, 2)


def die(rank: Rank) -> None:
    train(rank, 2)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    train(rank, 2)


def disagree(rank: Rank) -> None:
    data = np.zeros(1000 * (RANK + 1), np.float32)
    rank.wait(rank.all_reduce(data))


def differ(rank: Rank, way: int) -> None:
    """Rank 1 calls something else, of which it sends as many bytes."""
    data, sums = np.zeros(8, np.float32), (Type.F32, Reduction.SUM)
    others: tuple[tuple[Any, ...], ...] = (
        ("all_reduce", data.ctypes.data, 8, Type.I32, Reduction.SUM),
        ("all_reduce", data.ctypes.data, 8, Type.F32, Reduction.MAX),
        ("reduce_scatter", data.ctypes.data, 4, *sums),
        ("all_gather", data.ctypes.data, 16),
    )
    rank.wait(rank.start(*others[way]) if RANK == 1 else rank.all_reduce(data))


def follow(rank: Rank, own_ns: int) -> None:
    """Sum, and sum again behind that, which waits for itself; the program waits for both, by a future.

    Args:
        rank: this one.
        own_ns: time for which the program computes meanwhile, once it has waited for the first.
    """
    train(rank, 1)
    data = np.full((3, ELEMENTS), RANK + 1, np.float32)
    future: Future[int] = Future()

    def again() -> None:
        rank.wait(rank.all_reduce(data[1]))
        future.set_result(CLOCK.now_ns)

    first, before_ns = rank.all_reduce(data[0], again), CLOCK.now_ns
    if own_ns:
        rank.wait(first)
        CLOCK.compute(own_ns)
    rank.wait(rank.all_reduce(data[2]))
    rank.engine.expect_future(future.done, future.add_done_callback)
    assert (data == SIZE * (SIZE + 1) / 2).all()
    assert before_ns + own_ns < CLOCK.now_ns
    assert before_ns < future.result() < before_ns + (own_ns or 10**9)
    print(future.result(), CLOCK.now_ns, flush=True)


def compute(rank: Rank, seconds: int) -> None:
    """Rank 1 keeps a core busy, which takes no virtual time."""
    while RANK == 1 and time.process_time() < seconds:
        pass
    train(rank, 1)


def hang(rank: Rank) -> None:
    """Rank 1 waits for nothing that the simulation knows."""
    train(rank, 1)
    if RANK == 1:
        threading.Event().wait()
    train(rank, 2)


def late_message(rank: Rank, then: Callable[[], object]) -> None:
    """Let rank 1 do something once a message of rank 2 is there, which takes 20 ms."""
    data = np.zeros(ELEMENTS, np.float32)
    if RANK == 1:
        rank.wait(rank.message(2, None, data, 77))
        then()
    elif RANK == 2:
        rank.wait(rank.message(1, data, None, 77))


def meet(rank: Rank) -> None:
    print(CLOCK.now_ns, flush=True)
    data = np.zeros(ELEMENTS, np.float32)
    rank.wait(rank.all_reduce(data))
    report(1, -1)
    print(CLOCK.now_ns, flush=True)


def look_for_file(rank: Rank, name: str) -> None:
    """Rank 0 looks again and again for a file of rank 1."""
    take_over_time()
    late_message(rank, Path(name).touch)
    while RANK == 0 and not Path(name).exists():
        time.sleep(0.003)
    meet(rank)


def read_pipe(rank: Rank, name: str, *, is_said: bool = False) -> None:
    """Rank 0 sleeps in the kernel until rank 1 writes."""
    late_message(rank, lambda: Path(name).write_text("x"))
    if RANK == 0:
        with rank.engine.outside() if is_said else nullcontext():
            assert Path(name).read_text() == "x"
    meet(rank)


def read_pipe_and_say_so(rank: Rank, name: str) -> None:
    read_pipe(rank, name, is_said=True)


def join_thread(rank: Rank, _: str) -> None:
    """Rank 1 waits for a thread that waits for a message."""
    train(rank, 1)
    thread = threading.Thread(target=late_message, args=(rank, lambda: None))
    thread.start()
    thread.join()
    meet(rank)


def wait_by_the_clock(rank: Rank, _: str) -> None:
    """Rank 0 reads the clock until it is later, and waits for a child by looks at it."""
    take_over_time()
    end_ns = time.monotonic_ns() + 5_000_000
    while RANK == 0 and time.monotonic_ns() < end_ns:
        pass
    child = subprocess.Popen(["sleep", "0.05"])
    while child.poll() is None:
        time.sleep(0.01)
    assert not threading.Event().wait(0.01)
    meet(rank)


def watch(rank: Rank) -> None:
    """Train while another thread sleeps between looks around."""
    take_over_time()
    has_slept, is_over = threading.Event(), threading.Event()

    def look_around() -> None:
        while not is_over.is_set():
            time.sleep(0.001)
            has_slept.set()

    watcher = threading.Thread(target=look_around)
    watcher.start()
    train(rank, 3)
    has_slept.wait()
    is_over.set()
    watcher.join()


def bear_children(rank: Rank) -> None:
    """Children have the machine's clock and nothing of the rank, and end as they like."""
    take_over_time()
    train(rank, 1)
    if os.fork() == 0:
        print(is_rank(), is_virtual(), time.monotonic() - CLOCK.now_ns / 1e9 > 1, flush=True)
        sys.exit()  # with what is registered to be done at exit
    os.wait()
    text = "from mrc_torch import rank; print(rank.is_rank(), rank.is_virtual())"
    subprocess.run([sys.executable, "-c", text], check=True, close_fds=False)
    say_nothing(rank)


def babble(rank: Rank) -> None:
    if RANK == 0:
        socket.socket(fileno=os.dup(int(os.environ[CHANNEL_VARIABLE]))).send(b"hello")
    say_nothing(rank)


def exit_with_3(rank: Rank) -> None:
    train(rank, 1)
    if RANK == 1:
        sys.exit(3)
    train(rank, 2)


def say_nothing(rank: Rank) -> None:
    data = np.zeros(9, np.float32)
    rank.wait(rank.all_reduce(data))


def misreport(rank: Rank) -> None:
    train(rank, 1)
    if RANK == 0:
        os.write(REPORT, b'{"step": 1, "time_s": -1}\n')
    train(rank, 2)


if __name__ == "__main__":
    _, case, *rest = sys.argv
    own = Rank()
    globals()[case](own, *(int(each) if each.isdecimal() else each for each in rest))
    own.engine.close()
