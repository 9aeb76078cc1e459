"""Scenarios: what a file may say, the plan it resolves to, the run, the verdict and its results."""
