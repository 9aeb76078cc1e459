"""Expectations about flows, collectives and training steps, from numbers made by hand."""

import pytest
from document_text import document
from hand_made import MS, ZERO_NS, S, applied, cleared, reading, recording

from mrc_testbed.metrics.series import HostCounts
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.recording import NotMeasured
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.workloads.operation_record import OperationRecord, percentile_ns

TEXT = document("""\
Scenario {name: jobs}
  workloads:
    - {name: job, kind: training, compute: 50ms, size: 1MiB, hosts: [h0, h1, h2, h3], duration: 10s}
    - {name: ring, kind: all-gather, size: 4MiB, hosts: [h4, h5], duration: 10s}
    - name: inc
      kind: incast
      from: [h5, h6, h7]
      to: h4
      victim: {from: h0, to: h1}
      size: 1KiB
      duration: 5s
  faults:
    - {id: cut, at: 4s, for: 2s, kind: link-down, select: {links: {plane: 0}, pick: first}}
""")


def operation(step_begin_ms, begin_ms, end_ms):
    begin, start, end = (ZERO_NS + time * MS for time in (step_begin_ms, begin_ms, end_ms))
    return OperationRecord(begin, start, end, reaction_ns=0, compared_bytes=1, wrong_bytes=0, last_rank="h0")


@pytest.fixture
def run():
    def hosts(seconds):
        return {f"h{host}": HostCounts(acknowledged_bytes=host * 1_000_000 * seconds) for host in range(8)}

    made = recording(TEXT, [reading(at * S, hosts=hosts(at)) for at in range(11)], end_ns=10 * S)
    made.workload_ends["inc"] = ZERO_NS + 5 * S
    made.fault_changes = [applied("cut", 4 * S), cleared("cut", 6 * S)]
    # 100 ms a step; one of 2.5 s is hit by the fault, which begins in the middle of a step
    steps = [operation(at, at + 50, at + 100) for at in range(50, 3950, 100)]
    steps += [operation(3950, 4000, 6450)]
    steps += [operation(at, at + 50, at + 100) for at in range(6450, 9950, 100)]
    made.operations = {"job": steps, "ring": [operation(0, 0, 8), operation(10, 10, 14)]}
    return made


def value(run, text):
    [quantity] = parse_expectation(
        f"{text} > {'1' if 'op' in text or 'job_t' in text else '1s'}"
    ).quantities()
    return Measurement(run).measure(quantity)


def rate(run, text):
    unit = "1%" if "fairness" in text else "1bit"
    [quantity] = parse_expectation(f"{text} > {unit}").quantities()
    return Measurement(run).measure(quantity)


def test_times_of_steps_contain_computing_and_those_of_collectives_do_not(run):
    assert value(run, "p50(step_time(job))") == 100 * MS
    assert value(run, "p50(collective_time(job))") == 50 * MS
    assert value(run, "max(step_time(job))") == 2500 * MS
    assert value(run, "mean(collective_time(ring))") == 6 * MS


def test_a_step_that_a_fault_hit_belongs_to_the_time_during_it_and_to_no_other(run):
    assert value(run, "max(step_time(job)) before cut") == 100 * MS
    assert value(run, "max(step_time(job)) during cut") == 2500 * MS
    assert value(run, "max(step_time(job)) after cut") == 100 * MS
    assert value(run, "operations(job) during cut") == 1
    assert value(run, "operations(job) before cut") == 39


def test_throughput_counts_the_part_of_a_step_that_lies_in_the_window(run):
    assert value(run, "job_throughput(job) before cut") == pytest.approx((39 + 50 / 2500) / 4)
    assert value(run, "job_throughput(job) during cut") == pytest.approx(2000 / 2500 / 2)
    assert value(run, "job_throughput(job)") == pytest.approx(75 / 10)


def test_bus_bandwidth_is_that_of_the_busiest_nic(run):
    assert rate(run, "algbw(ring)") == pytest.approx(4 * 2**20 * 8 / 0.006)
    assert rate(run, "busbw(ring)") == pytest.approx(4 * 2**20 * 8 / 0.006 / 2)
    assert rate(run, "busbw(job)") == pytest.approx(rate(run, "algbw(job)") * 2 * 3 / 4)


def test_flows_of_a_workload_are_reported_apart_and_end_with_it(run):
    # h5 also sends for ring: hand-made readings share a host's bytes equally among its flows
    assert rate(run, "slowest_flow(inc)") == pytest.approx(2.5e6 * 8)
    assert rate(run, "fastest_flow(inc)") == pytest.approx(7e6 * 8)
    assert rate(run, "goodput(inc)") == pytest.approx(15.5e6 * 8)
    assert rate(run, "fairness(inc)") == pytest.approx(15.5**2 / (3 * (2.5**2 + 6**2 + 7**2)))


def test_what_never_happened_is_not_measured(run):
    run.operations = {}
    for text in ("p99(step_time(job))", "mean(collective_time(job))", "max(step_time(job)) during cut"):
        with pytest.raises(NotMeasured, match=r"no operation of it lies in this window"):
            value(run, text)
    assert value(run, "operations(job)") == 0
    with pytest.raises(NotMeasured, match="none of its flows carried anything"):
        rate(run, "fairness(inc.victim)")


@pytest.mark.parametrize(("ratio", "expected"), [(0.0, 10), (0.5, 25), (0.99, 39.7), (1.0, 40)])
def test_percentiles_lie_between_neighbours(ratio, expected):
    assert percentile_ns([40, 10, 30, 20], ratio) == pytest.approx(expected)
