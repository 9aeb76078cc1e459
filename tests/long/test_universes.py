"""Random universes with new numbers every time, and the plans of the corpus with other seeds."""

import copy
from pathlib import Path
from random import SystemRandom

import pytest

from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.universe import judge, judge_seed
from mrc_testbed.soak.violation import keep_scenario
from tests.universes.plans import CORPUS, read_plan

UNIVERSES = 3000
SEEDS_PER_PLAN = 30

pytestmark = pytest.mark.timeout(3600)


def test_new_universes_are_good() -> None:
    """One that is not is kept in the corpus; its number is in the message."""
    first = SystemRandom().getrandbits(48)
    bad = [judged for number in range(UNIVERSES) if (judged := judge_seed(first + number)).failures]
    for judged in bad:
        keep_scenario(draw_universe(judged.seed), judged.failures, CORPUS)
    assert bad == []


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_plan_is_good_with_any_seed(path: Path) -> None:
    document = copy.deepcopy(read_plan(path))
    first = SystemRandom().getrandbits(48)
    for seed in range(first, first + SEEDS_PER_PLAN):
        document["spec"]["seed"] = seed
        assert judge(document).failures == (), seed
