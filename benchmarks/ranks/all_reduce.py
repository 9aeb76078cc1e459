"""A rank of benchmarks/launched.py: all-reduces by torch; rank 0 prints bytes, median in ns, and memory."""

import resource
import sys
import time
from statistics import median

import torch
import torch.distributed as dist

REPETITIONS = 60


def main(backend: str) -> None:
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    dist.init_process_group(backend)
    lines = []
    for count in (1, 1 << 18):
        data = torch.zeros(count)
        times = []
        for _ in range(REPETITIONS):
            began_ns = time.monotonic_ns()
            dist.all_reduce(data)
            times.append(time.monotonic_ns() - began_ns)
        lines.append(f"{data.nbytes} {int(median(times))}")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    if dist.get_rank() == 0:
        print("\n".join([*lines, f"memory {grown_kib * 1024}"]))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
