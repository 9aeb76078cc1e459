"""The effect of faults on a job: what its sentence claims, and what noise is not enough for."""

import random

import pytest

from mrc_testbed.workloads.impact import (
    SETTLED,
    Act,
    Impact,
    find_episodes,
    headline,
    join_conditions,
    measure_impact,
)
from mrc_testbed.workloads.job import Step

MS = 1_000_000
AWAY = "p0-t1-0 was away"


def steps(*lengths_ms: float) -> list[Step]:
    """One after the other from 0 on."""
    found, begin_ns = [], 0
    for at, length_ms in enumerate(lengths_ms):
        found.append(Step(begin_ns, begin_ns + round(length_ms * MS), f"h{at % 3}"))
        begin_ns = found[-1].end_ns
    return found


def act(*begins_ms: int, end_ms: int, what: str = AWAY) -> Act:
    return Act(what, tuple(at * MS for at in begins_ms), end_ms * MS)


def impacts(done: list[Step], *acts: Act) -> list[Impact]:
    return [measure_impact(done, each) for each in find_episodes(acts, 0, done[-1].end_ns)]


def sentence(done: list[Step], *acts: Act, errors: tuple[str, ...] = ()) -> str:
    return headline("step", impacts(done, *acts), errors)


def hit(before_ms: list[float], during_ms: list[float]) -> Impact:
    """That of a fault from between the two on, up to the end."""
    done = steps(*before_ms, *during_ms)
    begin_ns = done[len(before_ms)].begin_ns
    [found] = impacts(done, Act(AWAY, (begin_ns,), done[-1].end_ns))
    return found


def noise(drawn: random.Random, count: int, sigma: float, median_ms: float = 262) -> list[float]:
    return [median_ms * drawn.lognormvariate(0, sigma) for _ in range(count)]


def test_one_outage_says_how_long_the_job_took_to_be_back() -> None:
    done = steps(*[100] * 5, 400, 250, *[100] * 12)
    assert sentence(done, act(500, end_ms=900)) == (
        "step median 100 ms (n = 5) before, 400 ms (n = 1) while p0-t1-0 was away; "
        "2 steps slower than any before, up to 400 ms; back after 650 ms; no rank lost"
    )


def test_a_slow_step_within_the_noise_before_is_no_effect_of_a_fault() -> None:
    before = [440, 255, 262, 270, 258, 266, 301, 262, 255, 271, 268]
    during = [262, 259, 484, 265, 271, 258, 262, 266, 283, 260, 262, 277, 269, 265]
    done = steps(*before, *during)
    begin_ms = sum(before)
    assert sentence(done, act(begin_ms, end_ms=begin_ms + sum(during))) == (
        "no effect seen: step median 266 ms (n = 11) before, 265 ms (n = 14) while p0-t1-0 was away; "
        "no rank lost"
    )


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.3, 1.0])
@pytest.mark.parametrize(("before", "during"), [(4, 14), (11, 14), (11, 120), (40, 40)])
def test_noise_is_no_effect(sigma: float, before: int, during: int) -> None:
    seen = 0
    for seed in range(500):
        drawn = random.Random(seed)
        seen += hit(noise(drawn, before, sigma), noise(drawn, during, sigma)).is_seen
    assert seen <= 5


def test_steps_that_are_all_longer_by_more_than_the_spread_are_an_effect() -> None:
    for seed in range(200):
        drawn = random.Random(seed)
        longer = [262 * 1.2 * drawn.uniform(0.975, 1.025) for _ in range(14)]
        found = hit([262 * drawn.uniform(0.975, 1.025) for _ in range(11)], longer)
        assert found.is_seen
        assert found.ratio == pytest.approx(1.2, rel=0.05)


def test_a_few_steps_far_longer_than_the_rest_are_an_effect() -> None:
    for seed in range(200):
        drawn = random.Random(seed)
        during = noise(drawn, 20, 0.05)
        during[::4] = [3 * length for length in during[::4]]
        found = hit(noise(drawn, 11, 0.05), during)
        assert found.is_seen
        assert found.slow is not None
        assert 5 <= found.slow.count <= 7


def test_steps_that_are_all_shorter_are_an_effect() -> None:
    assert hit([100] * 20, [80] * 20).is_seen


def test_less_than_a_hundredth_is_no_effect() -> None:
    assert not hit([255.0] * 20, [255.4] * 20).is_seen
    assert hit([255.0] * 20, [258.0] * 20).is_seen


def test_an_effect_without_a_slow_step_says_nothing_of_a_return() -> None:
    done = steps(*[100] * 20, *[105] * 20)
    assert sentence(done, act(2000, end_ms=4100)) == (
        "step median 100 ms (n = 20) before, 105 ms (n = 20) while p0-t1-0 was away; no rank lost"
    )


def test_one_step_like_those_before_proves_nothing() -> None:
    assert sentence(steps(*[100] * 14), act(510, end_ms=590)).startswith(
        "too few steps to tell: step median 100 ms (n = 5) before, 100 ms (n = 1) while "
    )
    assert sentence(steps(100, 100, 100, 130), act(310, end_ms=400)).startswith("too few steps to tell: ")


def test_both_medians_have_one_unit() -> None:
    done = steps(*[900] * 10, *[1234] * 10)
    assert "step median 0.9 s (n = 10) before, 1.23 s (n = 10) while" in sentence(
        done, act(9000, end_ms=22_000)
    )


def test_the_end_of_a_flap_counts_from_its_last_outage() -> None:
    done = steps(*[100] * 5, 200, *[100] * 8, 200, *[100] * SETTLED)
    flap = act(500, 1500, end_ms=1600)
    assert "; back 200 ms after the last of 2 outages began; " in sentence(done, flap)
    early = steps(*[100] * 5, 200, *[100] * 30)
    assert "; back before the last of 2 outages; " in sentence(early, flap)


def test_an_effect_that_comes_late_is_not_missed() -> None:
    done = steps(*[100] * 5, *[100] * (2 * SETTLED), 300, *[100] * SETTLED)
    assert "; 1 step of 300 ms, slower than any before; back after 2.3 s; " in sentence(
        done, act(500, end_ms=4000)
    )


def test_an_effect_may_come_as_the_fault_ends() -> None:
    done = steps(*[100] * 10, *[100] * 10, 300, *[100] * 12)
    assert "; back after 1.3 s; " in sentence(done, act(1000, end_ms=2000))


def test_a_slow_step_after_the_job_has_settled_is_another_matter() -> None:
    done = steps(*[100] * 5, 300, *[100] * SETTLED, 500, *[100] * SETTLED)
    assert "; 1 step of 300 ms, slower than any before; back after 300 ms; " in sentence(
        done, act(500, end_ms=600)
    )


def test_a_job_is_not_back_before_the_last_slow_step_under_a_fault() -> None:
    done = steps(*[100] * 5, 300, *[100] * SETTLED, 200, *[100] * SETTLED)
    assert "; 2 steps slower than any before, up to 300 ms; back after 1.5 s; " in sentence(
        done, act(500, end_ms=2000)
    )


def test_the_slow_steps_of_a_long_return_count() -> None:
    done = steps(*[100] * 5, *[200] * (3 * SETTLED), *[100] * SETTLED)
    assert "; 30 steps slower than any before, up to 200 ms; back after 6 s; " in sentence(
        done, act(500, end_ms=600)
    )


def test_a_job_that_is_slow_to_its_end_is_not_back() -> None:
    assert "; not back by the end; " in sentence(steps(*[100] * 5, 300, 300), act(500, end_ms=600))


def test_a_job_that_stood_still_or_failed_says_so() -> None:
    done = [*steps(*[100] * 5), Step(2000 * MS, 2100 * MS, "h0")]
    assert sentence(done, act(500, end_ms=900), errors=("h1 is gone",)) == (
        "no step ended while p0-t1-0 was away; the job failed: h1 is gone"
    )


def test_without_a_step_before_there_is_nothing_to_compare_with() -> None:
    assert sentence(steps(100, 100), act(0, end_ms=150)) == (
        "step median 100 ms (n = 2) while p0-t1-0 was away; no rank lost"
    )


def test_faults_that_overlap_are_named_together() -> None:
    done = steps(*[100] * 10, *[150] * 10)
    flap = act(1000, 1500, end_ms=1800, what="link a~b flapped")
    assert sentence(done, flap, act(1200, end_ms=2000), act(100, end_ms=200)) == (
        "step median 100 ms (n = 8) before, 150 ms (n = 7) while link a~b flapped and p0-t1-0 was away, "
        "the worst of 2 groups of faults; 10 steps slower than any before, up to 150 ms; "
        "not back by the end; no rank lost"
    )


def test_faults_that_overlap_through_another_are_one_episode() -> None:
    acts = [
        act(0, end_ms=2, what="A"),
        act(1, end_ms=5, what="B"),
        act(4, end_ms=6, what="C"),
        act(6, end_ms=7, what="D"),
        act(9, end_ms=12, what="E"),
    ]
    found = find_episodes(reversed(acts), 0, 10 * MS)
    assert [(each.what, each.faults) for each in found] == [("A, B and C", 3), ("D", 1), ("E", 1)]
    assert [each.calm_ns // MS for each in found] == [0, 6, 7]
    assert [each.end_ns // MS for each in found] == [6, 7, 10]
    assert [each.until_ns // MS for each in found] == [6, 9, 10]
    assert [each.what for each in find_episodes(acts, 7 * MS, 9 * MS)] == []


def test_one_return_is_counted_from_the_last_of_two_faults() -> None:
    done = steps(*[100] * 10, *[150] * 3, *[100] * SETTLED)
    said = sentence(done, act(1000, end_ms=1300), act(1100, end_ms=1200, what="link a~b was down"))
    assert "; back 350 ms after the last of 2 faults began; " in said


def test_of_several_faults_the_worst_makes_the_sentence() -> None:
    done = steps(*[100] * 5, 150, *[100] * 12, 800, *[100] * 12)
    said = sentence(done, act(500, end_ms=600), act(1850, end_ms=2000))
    assert "(n = 12) before, 800 ms (n = 1) while p0-t1-0 was away, the worst of 2 faults; " in said
    assert sentence(done) == "no fault was active; no rank lost"
    assert headline("step", [], (), is_over=False) == "no fault is active; no rank lost"


@pytest.mark.parametrize(
    ("conditions", "phrase"),
    [
        ("A", "A"),
        ("AB", "A and B"),
        ("ABA", "A and B"),
        ("ABC", "A, B and C"),
        ("ABCDE", "A, B, C and 2 more"),
    ],
)
def test_conditions_are_joined_to_a_phrase(conditions: str, phrase: str) -> None:
    assert join_conditions(list(conditions)) == phrase
