"""Look for slow and dead ranks: `launch -- python -m mrc_torch.check`; any backend for CPU tensors will do.

Three looks: how late each rank comes to a barrier after a fixed computation, how long an all-reduce takes,
and how fast each rank sends to each other. Rank 0 prints them; status 1: a rank is slow.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean, median
from typing import Final

import torch
import torch.distributed as dist

from mrc_torch.failure import NAME

_MIB: Final = 1 << 20
_SLOW: Final = 0.6
"""Share of the median over all ranks below which the median bandwidth of a rank is slow."""


def lateness_s(waits_s: Sequence[float]) -> list[float]:
    """Time from the first rank's arrival at a barrier to each other's, from how long each waited there."""
    return [max(waits_s) - wait for wait in waits_s]


def slow_ranks(bandwidth: Sequence[Sequence[float]]) -> list[int]:
    """Ranks whose bandwidth to and from others is low.

    Args:
        bandwidth: (ranks, ranks) from the first to the second; the diagonal does not count.
    """
    size = len(bandwidth)
    others = [(source, target) for source in range(size) for target in range(size) if source != target]
    usual = median(bandwidth[source][target] for source, target in others)
    return [
        rank
        for rank in range(size)
        if median(bandwidth[a][b] for a, b in others if rank in {a, b}) < _SLOW * usual
    ]


def pairings(size: int) -> list[list[tuple[int, int]]]:
    """Rounds of disjoint pairs in which each rank meets each other once (circle method)."""
    ring: list[int | None] = [*range(size), *([None] if size % 2 else [])]
    rounds = []
    for _ in range(len(ring) - 1):
        halves = zip(ring[: len(ring) // 2], reversed(ring[len(ring) // 2 :]), strict=True)
        rounds.append([(a, b) for a, b in halves if a is not None and b is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def _of_all(own: Sequence[float]) -> list[list[float]]:
    """(ranks, values) what each rank has measured."""
    parts = [torch.empty(len(own), dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.tensor(own, dtype=torch.float64))
    return [part.tolist() for part in parts]


def _barriers(repetitions: int) -> list[float]:
    """Mean lateness of each rank."""
    matrix = torch.ones(128, 128)
    waits = []
    for _ in range(repetitions):
        dist.barrier()
        matrix @ matrix
        began = time.perf_counter()
        dist.barrier()
        waits.append(time.perf_counter() - began)
    late = [lateness_s(each) for each in zip(*_of_all(waits), strict=True)]
    return [mean(each) for each in zip(*late, strict=True)]


def _all_reduce_s(count: int, repetitions: int) -> float:
    """Median time of the slowest rank."""
    data = torch.ones(count)
    times = []
    for _ in range(repetitions):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(data)
        times.append(time.perf_counter() - began)
    slowest: list[float] = [max(each) for each in zip(*_of_all(times), strict=True)]
    return median(slowest)


def _bandwidth(repetitions: int, count: int) -> list[list[float]]:
    """(ranks, ranks) bytes per second that the second received from the first: median of messages."""
    rank, size = dist.get_rank(), dist.get_world_size()
    data = torch.ones(count)
    from_peer = [0.0] * size
    for pairs in pairings(size):
        dist.barrier()
        for one, other in pairs:
            for source, target in ((one, other), (other, one)):
                if rank == source:
                    for _ in range(repetitions):
                        dist.send(data, target)
                    dist.recv(torch.empty(1), target)
                elif rank == target:
                    times = []  # the first starts the clock
                    for _ in range(repetitions):
                        dist.recv(data, source)
                        times.append(time.perf_counter())
                    took = median(after - before for before, after in pairwise(times))
                    from_peer[source] = data.nbytes / took
                    dist.send(torch.ones(1), source)
    received = _of_all(from_peer)
    return [[received[target][source] for target in range(size)] for source in range(size)]


def main() -> int:
    """Measure, print on rank 0, and give the same status on all ranks."""
    options = argparse.ArgumentParser(prog="python -m mrc_torch.check", description=__doc__)
    options.add_argument("--backend", default=NAME)
    options.add_argument("--repetitions", type=int, default=20)
    options.add_argument("--late-ms", type=float, default=20, help="lateness at barriers that is too much")
    given = options.parse_args()
    dist.init_process_group(given.backend)
    lines = [f"{dist.get_world_size()} ranks, backend {dist.get_backend()}"]
    late = _barriers(given.repetitions)
    skew_ms = (max(late) - mean(late)) * 1e3
    lines.append(f"barrier: rank {late.index(max(late))} comes last, {skew_ms:.2f} ms behind the mean")
    for size in (_MIB // 1024, _MIB // 16, _MIB):
        took_s = _all_reduce_s(size // 4, given.repetitions)
        lines.append(f"all-reduce of {size // 1024} KiB: {took_s * 1e3:.2f} ms")
    bandwidth = _bandwidth(max(4, given.repetitions // 4), _MIB // 16)
    lines.append("Mbit/s from (row) to (column)")
    lines += ["  ".join(f"{value * 8 / 1e6:8.1f}" for value in row) for row in bandwidth]
    slow = dict.fromkeys(slow_ranks(bandwidth), "sends or receives slowly")
    if skew_ms > given.late_ms:
        slow[late.index(max(late))] = "comes late to barriers"
    lines += [f"slow: rank {rank} {why}" for rank, why in sorted(slow.items())]
    if dist.get_rank() == 0:
        sys.stdout.write("\n".join([*lines, *([] if slow else ["no rank is slow"])]) + "\n")
    dist.barrier()
    dist.destroy_process_group()
    return int(bool(slow))


if __name__ == "__main__":
    sys.exit(main())
