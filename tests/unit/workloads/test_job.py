"""The pace of a job, and what its headline says of a fault."""

import pytest

from mrc_testbed.shown import format_times
from mrc_testbed.workloads.job import (
    SETTLED,
    Episode,
    Step,
    headline,
    measure_impact,
    measure_pace,
)

MS = 1_000_000
END_NS = 10_000 * MS


def steps(*lengths_ms: int) -> list[Step]:
    """One after the other from 0 on."""
    found, begin_ns = [], 0
    for at, length_ms in enumerate(lengths_ms):
        found.append(Step(begin_ns, begin_ns + length_ms * MS, f"h{at % 3}"))
        begin_ns = found[-1].end_ns
    return found


def episode(*begins_ms: int, end_ms: int) -> Episode:
    return Episode("p0-t1-0 was away", 0, tuple(at * MS for at in begins_ms), end_ms * MS, END_NS)


def sentence(done: list[Step], *episodes: Episode, errors: tuple[str, ...] = ()) -> str:
    return headline("step", [measure_impact(done, each) for each in episodes], errors)


def test_a_pace_counts_whole_steps_and_names_who_is_last() -> None:
    pace = measure_pace(steps(100, 100, 300, 100), 0, 550 * MS)
    assert pace is not None
    assert (pace.count, pace.p50_ns, pace.slowest_rank) == (3, 100 * MS, "h0")
    assert pace.per_second == pytest.approx(3.5 / 0.55)
    assert pace.p99_ns == pytest.approx(296 * MS)
    assert pace.slowest_share == pytest.approx(1 / 3)
    assert measure_pace(steps(100), 50 * MS, 90 * MS) is None


def test_one_outage_says_how_long_the_job_took_to_be_back() -> None:
    done = steps(*[100] * 5, 400, 250, *[100] * 12)
    assert sentence(done, episode(500, end_ms=900)) == (
        "step p99 100 to 400 ms while p0-t1-0 was away; back after 650 ms; no rank lost"
    )


def test_a_job_that_feels_nothing_has_no_slow_step() -> None:
    done = steps(*[100] * 5, 109, *[100] * 12)
    assert "; no step was slow; no rank lost" in sentence(done, episode(500, end_ms=600))


def test_the_end_of_a_flap_counts_from_its_last_outage() -> None:
    done = steps(*[100] * 5, 200, *[100] * 8, 200, *[100] * SETTLED)
    flap = episode(500, 1500, end_ms=1600)
    assert "; back 200 ms after the last of 2 outages began; " in sentence(done, flap)
    early = steps(*[100] * 5, 200, *[100] * 30)
    assert "; back before the last of 2 outages; " in sentence(early, flap)


def test_an_effect_that_comes_late_is_not_missed() -> None:
    done = steps(*[100] * 5, *[100] * (2 * SETTLED), 300, *[100] * SETTLED)
    assert "; back after 2.3 s; " in sentence(done, episode(500, end_ms=4000))


def test_a_slow_step_after_the_job_has_settled_is_another_matter() -> None:
    done = steps(*[100] * 5, 300, *[100] * SETTLED, 500, *[100] * SETTLED)
    assert "; back after 300 ms; " in sentence(done, episode(500, end_ms=600))


def test_a_job_that_is_slow_to_its_end_is_not_back() -> None:
    assert "; not back by the end; " in sentence(steps(*[100] * 5, 300, 300), episode(500, end_ms=600))


def test_a_job_that_stood_still_or_failed_says_so() -> None:
    stuck = episode(500, end_ms=900)
    assert sentence(steps(*[100] * 5), stuck, errors=("h1 is gone",)) == (
        "no step ended while p0-t1-0 was away; the job failed: h1 is gone"
    )


def test_without_a_step_before_there_is_nothing_to_compare_with() -> None:
    assert sentence(steps(100, 100), episode(0, end_ms=150)) == (
        "step p99 100 ms while p0-t1-0 was away; no rank lost"
    )


def test_of_several_faults_the_worst_makes_the_sentence() -> None:
    done = steps(*[100] * 5, 150, *[100] * 12, 800, *[100] * 12)
    mild, bad = episode(500, end_ms=600), episode(1850, end_ms=2000)
    assert "100 to 800 ms while p0-t1-0 was away, the worst of 2 faults; " in sentence(
        done, mild, Episode(bad.what, 700 * MS, bad.begins_ns, bad.end_ns, END_NS)
    ).replace("793", "800")
    assert sentence(done) == "no fault was active; no rank lost"


@pytest.mark.parametrize(
    ("times_ns", "text"),
    [((299.2 * MS, 849 * MS), "299 to 849 ms"), ((900 * MS, 1.23456e9), "0.9 to 1.23 s"), ((740,), "740 ns")],
)
def test_times_have_three_digits_and_one_unit(times_ns: tuple[float, ...], text: str) -> None:
    assert format_times(*times_ns) == text
