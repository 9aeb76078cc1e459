"""Expectations about short dips and about parts of a run, from numbers made by hand."""

import dataclasses

import pytest
from hand_made import MS, S, applied, cleared, reading, recording
from scenario_text import scenario

from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.series import HostCounts
from mrc_testbed.scenario.measure.expectation import Outcome, evaluate_expectations
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.load import load_scenario

TEXT = scenario('  faults: [{id: f, at: 400ms, for: 200ms, kind: link-down, select: {links: "h0:0"}}]\n')
ACKED = [0, 1000, 2000, 3000, 4000, 4000, 4400, 4400, 4400, 5400, 6400]


def run() -> Recording:
    """h0 gets 1000 bytes per 100 ms acknowledged; nothing from 400 to 500 and from 600 to 800 ms."""
    readings = [
        dataclasses.replace(
            reading(at * 100 * MS, hosts={"h0": HostCounts(acknowledged_bytes=total, retransmits_sack=at)}),
            plane_tx_bytes=(at * 100, at * 100, at * 100, 100 * min(at, 5)),
        )
        for at, total in enumerate(ACKED)
    ]
    made = recording(TEXT, readings, end_ns=S)
    made.fault_changes = [applied("f", 400 * MS), cleared("f", 600 * MS, lost=7, last_lost_ns=403 * MS)]
    return made


def outcome(text: str, made: Recording | None = None) -> Outcome:
    return evaluate_expectations([text], made or run())[0]


@pytest.mark.parametrize(
    ("text", "left_value"),
    [
        ("lowest_goodput(main) >= 0bit", 0),
        ("lowest_goodput(main) before f >= 0bit", 80_000),
        ("lowest_goodput(main) during f >= 0bit", 16_000),
        ("lowest_goodput(main) from 500ms to 700ms >= 0bit", 16_000),
        ("goodput(main) from 100ms to 300ms >= 0bit", 80_000),
        ("goodput(main) from 0s to 1s >= 0bit", 51_200),
        ("interruption(main) < 1s", 200 * MS),
        ("interruption(main) during f < 1s", 100 * MS),
        ("interruption(main) from 500ms to 700ms < 1s", 100 * MS),
        ("interruption(main) before f < 1s", 0),
        ("retransmits from 200ms to 600ms >= 0", 4),
        ("lowest_plane_share before f >= 0%", 0.25),
        ("highest_plane_share before f >= 0%", 0.25),
        ("lowest_plane_share from 500ms to 1s >= 0%", 0),
        ("highest_plane_share from 500ms to 1s >= 0%", 1 / 3),
        ("lost(f) >= 0", 7),
    ],
)
def test_a_quantity_has_this_value(text: str, left_value: float) -> None:
    assert outcome(text).left == pytest.approx(left_value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lowest_goodput(main) from 100ms to 200ms >= 0bit", "the window is shorter than 200ms"),
        ("interruption(main) from 110ms to 120ms < 1s", "no two readings lie in these 10000000 ns"),
    ],
)
def test_what_a_window_is_too_short_for_is_not_measured(text: str, reason: str) -> None:
    assert not outcome(text).has_passed
    assert reason in outcome(text).reason


def test_planes_have_no_shares_while_nothing_is_sent() -> None:
    made = run()
    made.readings = [dataclasses.replace(each, plane_tx_bytes=(0, 0, 0, 0)) for each in made.readings]
    assert "hosts sent nothing" in outcome("lowest_plane_share >= 24%", made).reason


def test_a_run_that_ended_before_a_window_fails_what_is_said_of_it() -> None:
    made = run()
    made.end_ns = None
    made.readings = made.readings[:7]
    found = outcome("goodput(main) from 500ms to 900ms > 0bit", made)
    assert not found.has_passed
    assert "the run was over at 600 ms" in found.reason


def test_a_window_of_times_is_written_as_it_was_read() -> None:
    [quantity] = parse_expectation("goodput(main) from 1500ms to 4s > 1bit").quantities()
    assert str(quantity) == "goodput(main) from 1.5s to 4s"


def test_a_window_beyond_the_run_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError) as caught:
        load_scenario(TEXT + "  expect:\n    - goodput(main) from 500ms to 2s > 1bit\n")
    assert "spec.expect[0]: column 1: the window lasts until 2s, but the last workload is over at 1s" in str(
        caught.value
    )
