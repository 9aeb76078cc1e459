"""The record of a run, and its results: quantities, recovery, trust, verdict."""
