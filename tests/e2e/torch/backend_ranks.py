"""A rank of tests of the backend `mrc`: `launch` starts it, by a Python with torch, with names of cases."""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from mrc_torch.backend import is_too_old

TYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
)
LENGTHS = (3, 1001)
LONG = 70_001
"""For the first type alone: what it is cut into is the same of all types."""


def drawn(length: int, kind: torch.dtype) -> list[Tensor]:
    """The same small numbers of all ranks on each; their sums are exact in every type."""
    generator = torch.Generator().manual_seed(length)
    return [
        torch.randint(0, 3, (length,), generator=generator).to(kind) for _ in range(dist.get_world_size())
    ]


def collectives(rank: int, size: int) -> None:
    for kind in TYPES:
        for length in (*LENGTHS, LONG) if kind == TYPES[0] else LENGTHS:
            given = drawn(length, kind)
            own, whole = given[rank], torch.stack(given)
            for op, expected in (
                (dist.ReduceOp.SUM, whole.sum(0).to(kind)),
                (dist.ReduceOp.PRODUCT, whole.prod(0).to(kind)),
                (dist.ReduceOp.MIN, whole.amin(0)),
                (dist.ReduceOp.MAX, whole.amax(0)),
                (dist.ReduceOp.AVG, (whole.sum(0).double() / size).to(kind)),
            ):
                data = own.clone()
                dist.all_reduce(data, op)
                assert torch.equal(data, expected), (kind, length, op)
            data = own.clone()
            dist.reduce(data, 1)
            assert torch.equal(data, whole.sum(0).to(kind) if rank == 1 else own)
            parts = [torch.empty_like(own) for _ in range(size)]
            dist.all_gather(parts, own)
            assert torch.equal(torch.stack(parts), whole)
            data = torch.empty_like(whole)
            dist.all_gather_single(data, own)
            assert torch.equal(data, whole)
            data = torch.empty_like(own)
            dist.reduce_scatter_single(data, torch.cat([own + step for step in range(size)]))
            assert torch.equal(data, (whole + rank).sum(0).to(kind))
            data = own.clone()
            dist.broadcast(data, 2)
            assert torch.equal(data, given[2])
            parts = [torch.empty_like(own) for _ in range(size)]
            dist.gather(own, parts if rank == 2 else None, dst=2)
            assert rank != 2 or torch.equal(torch.stack(parts), whole)
            data = torch.empty_like(own)
            dist.scatter(data, [each + 1 for each in given] if rank == 1 else None, src=1)
            assert torch.equal(data, own + 1)
            parts = [torch.empty_like(own) for _ in range(size)]
            dist.all_to_all(parts, [own + to for to in range(size)])
            assert torch.equal(torch.stack(parts), whole + rank)
    splits = [index + 1 for index in range(size)]
    data = torch.empty(size * (rank + 1))
    dist.all_to_all_single(data, torch.arange(float(sum(splits))), [rank + 1] * size, splits)
    assert torch.equal(
        data, torch.arange(rank * (rank + 1) / 2, rank * (rank + 1) / 2 + rank + 1).repeat(size)
    )


def shapes_and_kinds(rank: int, size: int) -> None:
    """Strided, complex, of bool, of different sizes, empty, objects."""
    data = torch.full((6, 4), float(rank)).t()
    dist.all_reduce(data)
    assert torch.equal(data, torch.full((4, 6), size * (size - 1) / 2))
    data = torch.full((3,), complex(rank, 1))
    dist.all_reduce(data)
    assert torch.equal(data, torch.full((3,), complex(size * (size - 1) / 2, size)))
    data = torch.tensor([rank == 0, False, True])
    dist.all_reduce(data)
    assert data.tolist() == [True, False, True]
    data = torch.tensor([1 << rank])
    dist.all_reduce(data, dist.ReduceOp.BOR)
    assert data.item() == (1 << size) - 1
    parts = [torch.empty(index) for index in range(size)]
    dist.all_gather(parts, torch.full((rank,), 7.0))
    assert torch.cat(parts).tolist() == [7.0] * sum(range(size))
    dist.all_reduce(torch.empty(0))
    found: list[Any] = [None] * size
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": each} for each in range(size)]
    found = [rank, "of the root"]
    dist.broadcast_object_list(found, 1)
    assert found == [1, "of the root"]


def messages_cross(rank: int, size: int) -> None:
    """Each sends to all before it receives, with tags in another order."""
    data = torch.full((100_000,), float(rank))
    for peer in range(size):
        if peer != rank:
            dist.isend(data + 1, peer, tag=1)
            dist.isend(data + 2, peer, tag=2)
    for peer in range(size):
        if peer != rank:
            for tag in (2, 1):
                got = torch.empty_like(data)
                dist.recv(got, peer, tag=tag)
                assert torch.equal(got, torch.full_like(data, peer + tag))
    got = torch.empty_like(data)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, data, (rank + 1) % size), dist.P2POp(dist.irecv, got, (rank - 1) % size)]
    ):
        work.wait()
    assert torch.equal(got, torch.full_like(data, (rank - 1) % size))


def groups_share_qps(rank: int, size: int) -> None:
    """Twenty groups; of those of pairs a NIC could not hold the QPs and slots."""
    pairs = [dist.new_group([first, (first + 1) % size]) for first in range(size) for _ in range(5)]
    works, data = [], [torch.full((10_000,), float(rank)) for _ in pairs]
    for group, each in zip(pairs, data, strict=True):
        if rank in dist.get_process_group_ranks(group):
            works.append((dist.all_reduce(each, group=group, async_op=True), group, each))
    for work, group, each in works:
        work.wait()
        assert each[0].item() == sum(dist.get_process_group_ranks(group))
    mesh = dist.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns"))
    row = torch.tensor([float(rank)])
    dist.all_reduce(row, group=mesh.get_group("columns"))
    assert row.item() == sum(rank // 2 * 2 + column for column in range(size // 2))


def what_is_not_served_is_refused_by_name(rank: int, size: int) -> None:
    data = torch.ones(1)
    alone = [dist.new_group([each]) for each in range(size)][rank]
    to_oneself = dist.P2POp(dist.isend, data, rank)
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: dist.irecv(data, rank), "mrc: a message to oneself"),
        (lambda: dist.batch_isend_irecv([to_oneself]), "mrc: a message to oneself"),
        (lambda: dist.irecv(data, rank, group=alone), "mrc: a message to oneself"),
        (lambda: dist.isend(data, size), f"mrc: rank {size} in a group of {size}"),
        (lambda: dist.broadcast(data, size), f"mrc: rank {size} in a group of {size}"),
        (lambda: dist.recv(data), "mrc: recv from any source; name the source"),
        (lambda: dist.all_reduce(torch.ones(1, dtype=torch.int16)), "mrc: reduction of torch.int16"),
        (lambda: dist.all_reduce(torch.ones(1, device="meta")), "mrc: a tensor on meta"),
        (lambda: dist.all_reduce(data.to_sparse()), "mrc: a tensor of layout torch.sparse_coo"),
        (lambda: dist.all_reduce(data, dist.ReduceOp.BXOR), "mrc: reduction XOR of torch.float32"),
    ]
    for call, reason in refused:
        try:
            call()
            said = "nothing"
        except NotImplementedError as error:
            said = str(error)
        assert said.startswith(reason), said
    versions = ("1.13", "2.9.1+cpu", "2.12.1", "2.13.0+cpu", "2.14.0a0+git", "3.0")
    assert [is_too_old(version) for version in versions] == [True, True, True, False, False, False]


def a_rank_is_killed(rank: int, _size: int) -> None:
    dist.barrier()
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def a_rank_is_killed_in_a_step(rank: int, _size: int) -> None:
    """DistributedDataParallel waits for futures, in C++."""
    model = DistributedDataParallel(nn.Linear(100, 100))
    data = torch.randn(4, 100)
    for step in itertools.count():
        loss = model(data).sum()
        if rank == 2 and step == 2:  # the first two have broadcasts too
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()


def a_rank_ends_early(rank: int, _size: int) -> None:
    dist.barrier()
    if rank == 2:
        sys.exit(0)
    dist.barrier()


CASES: dict[str, Callable[[int, int], None]] = {
    case.__name__: case
    for case in (
        collectives,
        shapes_and_kinds,
        messages_cross,
        groups_share_qps,
        what_is_not_served_is_refused_by_name,
        a_rank_is_killed,
        a_rank_is_killed_in_a_step,
        a_rank_ends_early,
    )
}


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # each says what it saw
    dist.init_process_group("mrc")
    try:
        for case in sys.argv[1:]:
            CASES[case](dist.get_rank(), dist.get_world_size())
        dist.barrier()  # rank 0 has the store, which others need until the last group is there
    except RuntimeError as error:
        print(str(error)[str(error).index("mrc: ") :].partition("\n")[0], flush=True)
        sys.exit(1)
    dist.destroy_process_group()
    print("done")


if __name__ == "__main__":
    main()
