"""Names of the cases of training_ranks.py, for tests that start it: it needs torch, they have none."""

OF_GLOO = (
    "compiled", "default_hooks", "functions", "futures", "hooks", "local_steps", "pipeline", "saved",
    "shards", "skipped", "uneven", "zero",
)  # fmt: skip
BEYOND_GLOO = "hooks_of_several_buckets"
"""Hangs under gloo: the operations that follow one bucket meet those that follow another."""
