"""Statistics of cells: what they must find, what they must not, and what they say of too few runs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.campaign.statistics import (
    SEEDS_MIN,
    SIGNIFICANCE,
    RankTest,
    estimate,
    judge,
    rank_test,
    two_modes,
)

RUNS = 20
TABLES = 20


def judged(values, others):
    return judge([(values, others)])[0]


def findings(shift: float) -> list[str]:
    """Findings in TABLES tables: two cells of runs that vary by 3 %, the second *shift* times the first."""
    found = []
    for seed in range(TABLES):
        generator = np.random.default_rng(seed)
        base = generator.normal(100, 3, RUNS)
        other = generator.normal(100 * shift, 3, RUNS)
        found.append(judged(other.tolist(), base.tolist()).finding)
    return found


def test_the_same_variant_twice_shows_no_difference():
    assert findings(1.0).count("not shown") >= TABLES - 1


def test_a_difference_of_five_percent_is_found():
    assert findings(1.05).count("more") >= TABLES - 1
    assert findings(0.95).count("less") >= TABLES - 1


def test_many_comparisons_find_nothing_by_chance():
    tables_that_find = 0
    for seed in range(TABLES):
        generator = np.random.default_rng(seed)
        pairs = [generator.normal(100, 3, (2, RUNS)).tolist() for _ in range(50)]
        effects = judge(pairs)
        tables_that_find += any(effect.finding in ("more", "less") for effect in effects)
    assert tables_that_find <= 1


@pytest.mark.parametrize(("runs", "more"), [(1, 5), (2, 4), (5, 1)])
def test_too_few_runs_are_reported_with_how_many_would_do(runs, more):
    low, high = [float(number) for number in range(runs)], [float(100 + number) for number in range(runs)]
    effect = judged(high, low)
    assert (effect.finding, effect.more_runs) == ("too few runs", more)
    assert judged([*high, *range(200, 200 + more)], [*low, *range(-more, 0)]).finding == "more"


def test_a_difference_that_is_not_shown_is_bounded():
    effect = judged([100.0 + number % 3 for number in range(8)], [100.5 + number % 2 for number in range(8)])
    assert (effect.finding, effect.more_runs) == ("not shown", None)
    assert effect.within == pytest.approx(0.0149, abs=1e-4)
    assert effect.verdict("less") == "no difference shown, within \N{PLUS-MINUS SIGN}1.49 % (95%)"
    assert judged([0.0, 1.0] * 4, [0.0] * 8).within is None


def test_a_bound_holds_the_difference_as_often_as_it_says():
    held = 0
    for seed in range(100):
        values, others = np.random.default_rng(seed).normal((100, 102), 3, (15, 2)).T.tolist()
        effect = judged(values, others)
        held += effect.within is None or effect.within >= 2 / 102
    assert held >= 90


def test_ties_of_few_runs_are_counted_exactly():
    # all orders of 5 and 5 with the lower five on one side: 2 of 252
    assert rank_test([1, 1, 2, 2, 2], [3, 3, 3, 4, 4]).p == pytest.approx(2 / math.comb(10, 5))


@pytest.mark.parametrize("count", [6, 8, 10, 20])
def test_one_sample_has_two_modes_once_in_fifty_at_most(count):
    found = 0
    for seed in range(400):
        generator = np.random.default_rng(seed)
        drawn = (generator.normal(100, 3, count), generator.exponential(size=count))
        found += sum(two_modes(values.tolist(), 0.0) is not None for values in drawn)
    assert found <= 0.02 * 800


def test_two_samples_far_apart_are_two_modes_unless_one_is_a_run_or_two():
    near, far = [100.0, 101.0, 102.0, 103.0], [140.0, 141.0, 142.0]
    found = two_modes([*far, *near], 1.0)
    assert found is not None
    low, high = found
    assert (low.runs, low.median, high.runs, high.median) == (4, 101.5, 3, 141.0)
    assert two_modes([*near, *far[:2]], 1.0) is None
    assert two_modes([*far, *near], 40.0) is None
    assert two_modes([1.0] * 6, 0.0) is None


def test_equal_runs_are_equal():
    effect = judged([5.0] * 3, [5.0] * 7)
    assert (effect.finding, effect.p, effect.more_runs) == ("equal", 1.0, None)


def test_runs_that_lie_between_each_other_are_not_equal():
    effect = judged([1.0, 4.0], [2.0, 3.0])
    assert (effect.test.delta, effect.finding, effect.more_runs) == (0, "too few runs", 4)


def test_an_interval_needs_enough_runs():
    few = estimate([1.0, 2.0, 4.0])
    assert (few.runs, few.median, few.low, few.high) == (3, 2.0, None, None)
    assert estimate([3.0] * SEEDS_MIN).low == 3.0


def test_an_interval_holds_the_median_as_often_as_it_says():
    held = 0
    for seed in range(100):
        found = estimate(np.random.default_rng(seed).normal(10, 2, 15).tolist())
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 10 <= found.high
    assert held >= 90


values = st.lists(
    st.floats(-1e9, 1e9, allow_nan=False).map(lambda value: round(value, 3)), min_size=1, max_size=7
)


@given(values, values)
def test_sides_may_be_exchanged(first, second):
    one, other = rank_test(first, second), rank_test(second, first)
    assert one.p == pytest.approx(other.p)
    assert one.delta == pytest.approx(-other.delta)
    assert 0 < one.p <= 1
    assert -1 <= one.delta <= 1
    assert one.p >= one.least_p


@given(st.lists(st.tuples(values, values), min_size=1, max_size=3))
def test_a_correction_never_makes_a_finding_surer(pairs):
    for pair, effect in zip(pairs, judge(pairs), strict=True):
        assert effect.p >= effect.test.p == rank_test(*pair).p
        is_enough = min(map(len, pair)) >= SEEDS_MIN
        assert (effect.finding in ("more", "less")) == (effect.p <= SIGNIFICANCE and is_enough)


def test_a_difference_between_machines_is_none_between_cells():
    """One machine is slower than the other, and the cells do not share them evenly."""
    blocks = [([10.0, 12.0, 14.0, 16.0, 18.0, 20.0], [15.0]), ([33.0], [30.0, 31.0, 32.0, 34.0, 35.0, 36.0])]
    values, others = ([value for block in blocks for value in block[side]] for side in (0, 1))
    assert rank_test(values, others).p < 0.05
    assert rank_test(values, others, blocks) == RankTest(1.0, 0.0, 2 / 49)


def test_a_difference_on_each_machine_shows_though_machines_differ_more():
    blocks = [
        ([float(base + n) for n in range(4)], [base + 10.0 + n for n in range(4)]) for base in (0, 50, 100)
    ]
    values, others = ([value for block in blocks for value in block[side]] for side in (0, 1))
    alone, blocked = rank_test(values, others), rank_test(values, others, blocks)
    assert alone.p > 0.1
    assert blocked.p < 1e-4
    assert blocked.delta == -1


def test_few_runs_on_machines_are_tested_by_every_order():
    blocks = [([1.0, 2.0], [3.0, 4.0]), ([11.0], [12.0, 13.0])]
    found = rank_test([1.0, 2.0, 11.0], [3.0, 4.0, 12.0, 13.0], blocks)
    assert found.p == found.least_p == 2 / (6 * 3)


def test_machines_with_runs_of_one_cell_alone_show_nothing():
    found = judge([([1.0, 2.0], [3.0, 4.0])], [[([1.0, 2.0], []), ([], [3.0, 4.0])]])[0]
    assert found.finding == "too few runs"
