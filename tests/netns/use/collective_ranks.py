"""A rank of tests of libmrc_coll: `launch` starts it with the name of a case."""

import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final

import numpy as np
import pytest

from mrc_torch.library import CollectiveError, LiveCollectives, Options, Reduction, Type, buffers
from tests.gloo_order import Array, in_ring_order

RANK: Final = int(os.environ["RANK"])
SIZE: Final = int(os.environ["WORLD_SIZE"])
MASTER: Final = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
TIMEOUT_MS: Final = 120_000
TYPES: Final = {
    Type.F32: np.float32,
    Type.F64: np.float64,
    Type.F16: np.float16,
    Type.I8: np.int8,
    Type.U8: np.uint8,
    Type.I32: np.int32,
    Type.I64: np.int64,
}
LENGTHS: Final = (1, 3, 1000, 70_001, 300_000)


@cache
def server() -> socket.socket:
    return socket.create_server(("", MASTER[1]))


def meet(own: Any) -> list[Any]:
    """The values of all ranks, in their order."""
    if RANK == 0:
        files = [server().accept()[0].makefile("rw") for _ in range(SIZE - 1)]
        given = sorted([[0, own], *(json.loads(file.readline()) for file in files)])
        for file in files:
            print(json.dumps(given), file=file, flush=True)
    else:
        while True:
            try:
                file = socket.create_connection(MASTER).makefile("rw")
                break
            except ConnectionRefusedError:
                os.sched_yield()
        print(json.dumps([RANK, own]), file=file, flush=True)
        given = json.loads(file.readline())
    return [each for _, each in given]


class Ranks:
    """All ranks, connected, and a group of them."""

    def __init__(self, options: Options | None = None) -> None:
        self.engine = LiveCollectives(RANK, options)
        self.addresses = meet([socket.gethostbyname(socket.gethostname()), self.engine.port])
        self.numbers = iter(range(1 << 32))
        self.errors: list[str | None] = []
        self.connect(range(SIZE))
        self.all = self.engine.group(range(SIZE), 1)

    def connect(self, ranks: Sequence[int]) -> None:
        peers = {rank: tuple(self.addresses[rank]) for rank in ranks if rank != RANK}
        self.engine.connect(peers, TIMEOUT_MS)

    def start(
        self,
        operation: str,
        *arguments: Any,
        timeout_ms: int = TIMEOUT_MS,
        followers: Sequence[Callable[[], object]] = (),
    ) -> Callable[[], None]:
        """Start it; the result waits for its end, as what follows it sees that."""
        ended = threading.Event()
        errors: list[str | None] = []

        def end(error: str | None) -> Sequence[Callable[[], object]]:
            errors.append(error)
            return [ended.set, *followers]

        self.engine.start(operation, end, *arguments, timeout_ms=timeout_ms)

        def wait() -> None:
            ended.wait()
            if errors[0] is not None:
                raise CollectiveError(errors[0])

        return wait

    def run(self, operation: str, *arguments: Any) -> None:
        self.start(operation, self.all, next(self.numbers), *arguments)()

    def exchange(
        self, group: int, number: int, out: Sequence[Array | None], into: Sequence[Array | None]
    ) -> Any:
        given = [
            buffers([None if a is None else (a.ctypes.data, a.nbytes) for a in side]) for side in (out, into)
        ]
        return self.start("exchange", group, number, *given[0], *given[1])

    def barrier(self) -> None:
        self.run("all_reduce", np.zeros(1, np.uint8).ctypes.data, 1, Type.U8, Reduction.SUM)


def drawn(length: int, kind: Any, limit: int = 5) -> list[Array]:
    """The same numbers of all ranks on each; sums are exact."""
    generator = np.random.default_rng(length)
    return [generator.integers(0, limit, length).astype(kind) for _ in range(SIZE)]


def sums_are_right(ranks: Ranks) -> None:
    for kind, dtype in TYPES.items():
        for length in LENGTHS:
            given = drawn(length, dtype, 3)
            whole = np.stack(given)
            for reduction, expected in (
                (Reduction.SUM, whole.sum(0)),
                (Reduction.PRODUCT, whole.prod(0)),
                (Reduction.MIN, whole.min(0)),
                (Reduction.MAX, whole.max(0)),
            ):
                data = given[RANK].copy()
                ranks.run("all_reduce", data.ctypes.data, length, kind, reduction)
                assert np.array_equal(data, expected.astype(dtype)), (kind, length, reduction)
    for reduction, expected in (
        (Reduction.AND, np.bitwise_and.reduce(drawn(77, np.int64, 99))),
        (Reduction.OR, np.bitwise_or.reduce(drawn(77, np.int64, 99))),
        (Reduction.XOR, np.bitwise_xor.reduce(drawn(77, np.int64, 99))),
    ):
        data = drawn(77, np.int64, 99)[RANK].copy()
        ranks.run("all_reduce", data.ctypes.data, 77, Type.I64, reduction)
        assert np.array_equal(data, expected), reduction
    with pytest.raises(CollectiveError, match="Invalid argument"):
        ranks.run("all_reduce", np.zeros(1).ctypes.data, 1, Type.F64, Reduction.XOR)


def as_bf16(values: Array) -> Array:
    """float32 rounded to the upper 16 bits, ties to even."""
    bits = values.view(np.uint32)
    return (bits + np.uint32(0x7FFF) + (bits >> 16 & 1) & np.uint32(0xFFFF0000)).view(np.float32)


def sums_are_in_the_order_of_gloo(ranks: Ranks) -> None:
    for length in (2, 1001, 300_007, 2_500_001):
        generator = np.random.default_rng(length)
        given = [generator.standard_normal(length, dtype=np.float32) for _ in range(SIZE)]
        data = given[RANK].copy()
        ranks.run("all_reduce", data.ctypes.data, length, Type.F32, Reduction.SUM)
        assert np.array_equal(data, in_ring_order(given, np.add)), length
        if length == 2:
            continue
        assert not np.array_equal(data, np.sum(given, 0, dtype=np.float32)), "the order shows"
        halves = [as_bf16(each) for each in given]
        short = (halves[RANK].view(np.uint32) >> 16).astype(np.uint16)
        ranks.run("all_reduce", short.ctypes.data, length, Type.BF16, Reduction.SUM)
        expected = in_ring_order(halves, lambda a, b: as_bf16(a + b), 2)
        assert np.array_equal(short, (expected.view(np.uint32) >> 16).astype(np.uint16)), length
        small = [each.astype(np.float16) for each in given]
        small[0][:8] = [np.inf, 65504, -65504, 6e-8, 5.96e-8, 3e-5, 6.1e-5, 0]
        small[1][:8] = [1, 65504, -65504, -6e-8, 5.96e-8, 3e-5, 1e-7, -0.0]
        found = small[RANK].copy()
        ranks.run("all_reduce", found.ctypes.data, length, Type.F16, Reduction.SUM)
        with np.errstate(over="ignore"):
            wanted = in_ring_order(small, np.add)
        assert found.tobytes() == wanted.tobytes(), length
    for length in (2, 53, 1001, 65_537, 700_001):
        generator = np.random.default_rng(length)
        given = [generator.standard_normal(SIZE * length, dtype=np.float32) for _ in range(SIZE)]
        data = given[RANK].copy()
        ranks.run("reduce_scatter", data.ctypes.data, length, Type.F32, Reduction.SUM)
        mine = slice(RANK * length, (RANK + 1) * length)
        assert np.array_equal(data[mine], in_ring_order(given, np.add)[mine]), length


def chunks_are_scattered_and_gathered(ranks: Ranks) -> None:
    for length in LENGTHS:
        given = [np.concatenate(drawn(length, np.int64)) + rank for rank in range(SIZE)]
        data = given[RANK].copy()
        ranks.run("reduce_scatter", data.ctypes.data, length, Type.I64, Reduction.SUM)
        mine = slice(RANK * length, (RANK + 1) * length)
        assert np.array_equal(data[mine], np.sum(given, 0)[mine]), length
        parts = drawn(length, np.uint8, 255)
        whole = np.zeros(SIZE * length, np.uint8)
        whole[mine] = parts[RANK]
        ranks.run("all_gather", whole.ctypes.data, length)
        assert np.array_equal(whole, np.concatenate(parts)), length


def all_give_each_what_is_its(ranks: Ranks) -> None:
    """Also nothing, and more than slots take."""
    for length in (0, 1, 5000, 1_000_000):
        out: list[Array] = [np.full(length * to, 10 * RANK + to, np.uint8) for to in range(SIZE)]
        into: list[Array] = [np.zeros(length * RANK, np.uint8) for _ in range(SIZE)]
        ranks.exchange(ranks.all, next(ranks.numbers), out, into)()
        for source, each in enumerate(into):
            assert source == RANK or (each == 10 * source + RANK).all(), (length, source)


def operations_do_not_wait_for_each_other(ranks: Ranks) -> None:
    """Each rank starts many in an order of its own: of all, of pairs whose messages cross, and of groups."""
    waits, checks = [], []
    odd = ranks.engine.group([rank for rank in range(SIZE) if rank % 2 == RANK % 2], 2 + RANK % 2)
    work: list[Callable[[], None]] = []

    def reduce(group: int, members: Sequence[int], number: int) -> None:
        data = np.full(200_000, RANK + number, np.int32)
        expected = sum(members) + number * len(members)
        address = data.ctypes.data
        waits.append(ranks.start("all_reduce", group, number, address, data.size, Type.I32, Reduction.SUM))
        checks.append(partial(np.array_equal, data, np.full_like(data, expected)))

    def send(peer: int, number: int) -> None:
        data = np.full(900_000, RANK, np.uint8)
        waits.append(
            ranks.exchange(
                ranks.all, number, [data if at == peer else None for at in range(SIZE)], [None] * SIZE
            )
        )
        checks.append(partial(np.array_equal, data, np.full_like(data, RANK)))

    def receive(peer: int, number: int) -> None:
        data = np.full(900_000, 99, np.uint8)
        waits.append(
            ranks.exchange(
                ranks.all, number, [None] * SIZE, [data if at == peer else None for at in range(SIZE)]
            )
        )
        checks.append(partial(np.array_equal, data, np.full_like(data, peer)))

    for number in range(1000, 1010):
        work.append(partial(reduce, ranks.all, range(SIZE), number))
        work.append(partial(reduce, odd, range(RANK % 2, SIZE, 2), number))
    for peer in set(range(SIZE)) - {RANK}:
        work.append(partial(send, peer, 2000 + 100 * RANK + peer))
        work.append(partial(receive, peer, 2000 + 100 * peer + RANK))
    random.Random(RANK).shuffle(work)
    for each in work:
        each()
    for wait in waits:
        wait()
    assert all(check() for check in checks)


def ranks_leave_after_their_last_operation(ranks: Ranks) -> None:
    """Whoever is through first does not fail those that are not, again and again."""
    ranks.engine.close()
    for _ in range(15):
        again = Ranks()
        again.barrier()
        again.engine.close()
    ranks.engine = Ranks().engine


def a_rank_is_killed(ranks: Ranks) -> None:
    ranks.barrier()
    if RANK == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    ranks.barrier()


def a_rank_leaves(ranks: Ranks) -> None:
    ranks.barrier()
    if RANK != 2:
        ranks.barrier()


def a_rank_never_comes(ranks: Ranks) -> None:
    """And what follows an operation before never ends."""
    data = np.zeros(1, np.uint8)
    arguments = ranks.all, 99, data.ctypes.data, 1, Type.U8, Reduction.SUM
    ranks.start("all_reduce", *arguments, followers=[threading.Event().wait])()
    if RANK == 2:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        meet(None)
        signal.pause()
    try:
        ranks.start("all_reduce", ranks.all, 100, *arguments[2:], timeout_ms=300)()
    finally:
        meet(None)  # a rank that left before the time of the others is out would be the one at fault


def a_rank_has_another_size(ranks: Ranks) -> None:
    data = np.zeros(100)
    ranks.run("all_reduce", data.ctypes.data, 100 - 80 * (RANK == 2), Type.F64, Reduction.SUM)


def a_rank_has_another_type(ranks: Ranks) -> None:
    kind = Type.I32 if RANK == 2 else Type.F32
    ranks.run("all_reduce", np.zeros(8, np.float32).ctypes.data, 8, kind, Reduction.SUM)


def a_nic_fails(ranks: Ranks) -> None:
    ranks.barrier()
    if RANK == 2:
        alone = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        subprocess.run(shlex.split(os.environ["RESTART"]), env=alone, check=True, stdout=sys.stderr)
    while True:
        ranks.barrier()


def nothing(_: Ranks) -> None:
    """Only open and connect."""


OPTIONS: Final = {"a_nic_is_too_small": Options(slots=65536)}
CASES: Final = {
    "a_nic_is_too_small": nothing,
    **{
        case.__name__: case
        for case in (
            sums_are_right,
            sums_are_in_the_order_of_gloo,
            chunks_are_scattered_and_gathered,
            all_give_each_what_is_its,
            operations_do_not_wait_for_each_other,
            ranks_leave_after_their_last_operation,
            a_rank_is_killed,
            a_rank_leaves,
            a_rank_never_comes,
            a_rank_has_another_size,
            a_rank_has_another_type,
            a_nic_fails,
        )
    },
}


def main(cases: Sequence[str]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # each says what it saw
    ranks = None
    try:
        ranks = Ranks(OPTIONS.get(cases[0]))
        for case in cases:
            CASES[case](ranks)
    except CollectiveError as error:
        print(error, flush=True)
        sys.exit(1)
    finally:
        if ranks:
            ranks.engine.close()
    print("done")


if __name__ == "__main__":
    main(sys.argv[1:])
