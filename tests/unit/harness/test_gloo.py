"""The reference of losses: ranks that print their steps, and may never end."""

import sys

from benchmarks.gloo import by_gloo, losses

PROGRAM = """
import json, os, signal
for step in range(3):
    print(json.dumps({"loss": os.environ["RANK"] + "." + str(step)}), flush=True)
signal.pause()
"""


def test_a_rank_that_waits_for_ever_at_its_end_is_ended() -> None:
    lines = by_gloo(("h0", "h1"), [sys.executable, "-c", PROGRAM], 3)
    assert losses(lines) == {"[0]": ["0.0", "0.1", "0.2"], "[1]": ["1.0", "1.1", "1.2"]}
