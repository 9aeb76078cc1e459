"""Names of the cases of training_ranks.py, for tests that start it: it needs torch, they have none."""

OF_GLOO = ("hooks", "skipped", "uneven", "compiled", "futures", "pipeline", "saved")
BEYOND_GLOO = "hooks_of_several_buckets"
"""Hangs under gloo: the operations that follow one bucket meet those that follow another."""
