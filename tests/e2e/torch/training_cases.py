"""Cases of training_ranks.py, for tests that start it: that needs torch, which they do not have."""

from functools import cache

from benchmarks import gloo

HOSTS = ("h0", "h1", "h2", "h3")
EXAMPLE = ("-m", "mrc_torch.examples.train", "--backend", "gloo", "--steps")

OF_GLOO = [
    "chained", "compiled", "default_hooks", "forked", "functions", "futures", "hooks", "local_steps",
    "pipeline", "saved", "sharded", "shards", "skipped", "stored", "sums", "uneven", "zero",
]  # fmt: skip
LOOPS = ["helped", "watched", "written"]
"""Loops whose ranks wait in the machine too."""

BEYOND_GLOO = "hooks_of_several_buckets"
"""Hangs with gloo: the operations that follow one bucket meet those that follow another."""


@cache
def by_gloo(steps: int, *command: str) -> list[str]:
    """Output of the ranks of *command*, by gloo: tests of labs and of virtual time compare with the same."""
    return gloo.by_gloo(HOSTS, command, steps)


def check(digests: list[str], by_gloo: list[str]) -> None:
    """Compare lines of all ranks with those of gloo, and of the case beyond it with each other."""
    beyond = [line for line in digests if BEYOND_GLOO in line]
    assert sorted(set(digests) - set(beyond)) == sorted(by_gloo)
    assert len({line.rpartition(" ")[2] for line in beyond}) == 1
