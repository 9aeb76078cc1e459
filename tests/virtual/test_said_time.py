"""Progress of a run in virtual time."""

from itertools import pairwise
from pathlib import Path

from runs import plan_of

from mrc_testbed.virtual.world import run_virtually


def test_a_run_says_how_much_of_its_time_is_simulated(tmp_path: Path) -> None:
    plan = plan_of("true/loss-400g.yaml")
    assert plan.end_ns is not None
    length_ns = plan.end_ns - plan.start_ns
    said: list[tuple[int, int | None]] = []
    run_virtually(plan, None, tmp_path, say_time=lambda *time: said.append(time))
    assert {total_ns for _, total_ns in said} == {length_ns}
    assert all(earlier <= later for (earlier, _), (later, _) in pairwise(said))
    assert said[0][0] == 0
    assert length_ns * 0.99 < said[-1][0] <= length_ns
