"""scenarios/lossy-soak.yaml, short: loss, corruption, reordering on all links, and all bytes right."""

import os
from pathlib import Path

import pytest
from live_scenario import run_live

from mrc_testbed.fabric import lab
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

pytestmark = [pytest.mark.root, pytest.mark.slow("a soak"), pytest.mark.ci]

SCENARIO = Path(__file__).parents[3] / "scenarios" / "lossy-soak.yaml"
HOSTS, QPS, ITERATIONS = 4, 8, 3


@pytest.mark.usefixtures("state_dir")
def test_every_byte_arrives(tmp_path: Path) -> None:
    text = SCENARIO.read_text(encoding="utf-8").replace("iterations: 6", f"iterations: {ITERATIONS}")
    plan = resolve(load_scenario(text))
    name = f"soak{os.getpid()}"
    lab.up(plan.topology, name=name, runtime="netns")
    try:
        result = run_live(name, text, tmp_path).result
    finally:
        lab.down(name)
    assert [outcome.reason for outcome in result.verdict.outcomes if not outcome.has_passed] == []
    assert sum(outcome.messages for outcome in result.recording.outcomes) == HOSTS * QPS * ITERATIONS
