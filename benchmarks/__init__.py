"""Figures of mrc-testbed, each measured by a command: `python -m benchmarks [NAME ...]`.

Nothing here is asserted in a test. Each figure is taken several times; the median is the one to quote.
"""
