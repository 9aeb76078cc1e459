"""Figures of a benchmark from what its flows report."""

import pytest
from histograms import histogram_of

from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.perftest import build_report, describe_times, peak_messages_per_s
from mrc_testbed.workloads.sender import BatchRecord

MS = 1_000_000
FLOWS = (Flow("bench", "h0", "h1", 0), Flow("bench", "h1", "h0", 0))


def outcome(flow, *, start_ms, end_ms, messages, wrong=0, error=None):
    return FlowOutcome(
        flow, 256, start_ms * MS, end_ms * MS, messages, messages * 1000, messages * 1000, wrong, error
    )


def report(*outcomes, batches=None, times=()):
    load = Load("bench", 1000, 1, None, tuple(each.flow for each in outcomes))
    return build_report(load, outcomes, batches or {each.flow: [] for each in outcomes}, histogram_of(times))


def test_rates_are_payload_over_the_time_from_first_post_to_last_completion():
    found = report(outcome(FLOWS[0], start_ms=100, end_ms=600, messages=5000))
    assert found.messages_per_s == pytest.approx(10_000)
    assert found.average_bps == pytest.approx(10_000 * 8000)
    assert found.flows[0].average_bps == pytest.approx(10_000 * 8000)


def test_the_rate_of_all_flows_is_over_the_time_that_any_of_them_took():
    found = report(
        outcome(FLOWS[0], start_ms=0, end_ms=500, messages=500),
        outcome(FLOWS[1], start_ms=500, end_ms=1000, messages=500),
    )
    assert found.messages_per_s == pytest.approx(1000)
    assert [flow.messages_per_s for flow in found.flows] == pytest.approx([1000, 1000])


def test_the_peak_is_the_best_stretch_of_batches_that_is_long_enough():
    batches = [
        BatchRecord(0, 1 * MS, 10_000),  # a single millisecond says nothing
        BatchRecord(1 * MS, 41 * MS, 400),
        BatchRecord(41 * MS, 71 * MS, 600),
    ]
    assert peak_messages_per_s(batches) == pytest.approx(10_400 / 0.041)
    assert peak_messages_per_s(batches[1:]) == pytest.approx(600 / 0.030)
    assert peak_messages_per_s(batches[:1]) is None


def test_the_peak_is_never_below_the_average():
    found = report(outcome(FLOWS[0], start_ms=0, end_ms=10, messages=100))
    assert found.flows[0].peak_bps == found.flows[0].average_bps


def test_wrong_bytes_and_errors_fail_a_benchmark():
    good = outcome(FLOWS[0], start_ms=0, end_ms=1, messages=1)
    assert report(good).has_passed
    assert not report(good, outcome(FLOWS[1], start_ms=0, end_ms=1, messages=1, wrong=3)).has_passed
    failed = report(good, outcome(FLOWS[1], start_ms=0, end_ms=1, messages=0, error="QP 257 failed"))
    assert failed.errors == ("QP 257 failed",)
    assert not failed.has_passed


def test_nothing_sent_is_a_rate_of_zero_and_no_times():
    found = report(outcome(FLOWS[0], start_ms=5, end_ms=5, messages=0))
    assert found.messages_per_s == 0
    assert found.completion is None


def test_times_of_a_histogram():
    times = describe_times(histogram_of([*range(1000, 2000, 10), 50_000]))
    assert times is not None
    assert times.count == 101
    assert times.min_ns == pytest.approx(1000, rel=0.02)
    assert times.typical_ns == pytest.approx(1500, rel=0.03)
    assert times.p99_ns == pytest.approx(1990, rel=0.03)
    assert times.max_ns == 50_000
    assert times.mean_ns == pytest.approx((sum(range(1000, 2000, 10)) + 50_000) / 101)
    assert times.deviation_ns == pytest.approx(4830, rel=0.03)
    assert (half := times.scaled(0.5)).count == 101
    assert half.max_ns == 25_000
