"""Figures of mrc-testbed, each measured by a command: `python -m benchmarks [NAME ...]`.

Nothing here is asserted in a test. Each figure is taken several times; the median is the one to quote.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[1] / "tests"
# The tests' helpers, by the bare names that they have for one another.
sys.path += [str(_TESTS / folder) for folder in ("", "bpf", "bpf/nic", "netns/queue")]
