"""Cases of training_ranks.py, for tests that start it: that needs torch, which they do not have."""

OF_GLOO = [
    "chained", "compiled", "default_hooks", "forked", "functions", "futures", "hooks", "local_steps",
    "pipeline", "saved", "sharded", "shards", "skipped", "stored", "sums", "uneven", "zero",
]  # fmt: skip
LOOPS = ["helped", "watched", "written"]
"""Loops whose ranks wait in the machine too."""

BEYOND_GLOO = "hooks_of_several_buckets"
"""Hangs with gloo: the operations that follow one bucket meet those that follow another."""


def check(digests: list[str], by_gloo: list[str]) -> None:
    """Compare lines of all ranks with those of gloo, and of the case beyond it with each other."""
    beyond = [line for line in digests if BEYOND_GLOO in line]
    assert sorted(set(digests) - set(beyond)) == sorted(by_gloo)
    assert len({line.rpartition(" ")[2] for line in beyond}) == 1
