"""Reports of ranks, and the steps of the job that they are."""

import json
import math
from typing import Any

import pytest

from mrc_testbed.workloads.step_report import JobSteps, ReportError, StepReport, parse_report

HOSTS = ("h0", "h4", "h2")
NOW_NS = 10**12
S = 10**9


def report(rank: int, step: int, end_s: float, time_s: float = 1, **fields: float | str | None) -> StepReport:
    values = {"step": step, "time_s": time_s, "end_ns": round(end_s * S), **fields}
    return parse_report(json.dumps(values).encode(), rank, HOSTS, NOW_NS)


def test_a_report_with_all_fields() -> None:
    line = b'{"step": 12, "time_s": 0.123, "loss": 1.25, "bytes": 60, "slowest_rank": 2, "end_ns": 500000000}'
    assert parse_report(line, 1, HOSTS, NOW_NS) == StepReport(1, 12, 377 * 10**6, S // 2, 1.25, 60, 2)


def test_a_report_without_an_end_ends_now() -> None:
    found = parse_report(b'{"step": 0, "time_s": 2}', 0, HOSTS, NOW_NS)
    assert found == StepReport(0, 0, NOW_NS - 2 * S, NOW_NS)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("step 3", "expected a JSON object in one line, got 'step 3'"),
        ("3", "expected a JSON object, got 3"),
        ('{"step": 3}', "time_s: expected seconds from 0, got nothing"),
        ('{"time_s": 3}', "step: expected a whole number from 0, got nothing"),
        ('{"step": -1, "time_s": 1}', "step: expected a whole number from 0, got -1"),
        ('{"step": true, "time_s": 1}', "step: expected a whole number from 0, got true"),
        ('{"step": 1, "time_s": -1}', "time_s: expected seconds from 0, got -1"),
        ('{"step": 1, "time_s": 1e400}', "time_s: expected seconds from 0, got Infinity"),
        ('{"step": 1, "time_s": "1"}', 'time_s: expected seconds from 0, got "1"'),
        ('{"step": 1, "time_s": 1, "loss": "1"}', 'loss: expected a number or null, got "1"'),
        ('{"step": 1, "time_s": 1, "loss": true}', "loss: expected a number or null, got true"),
        ('{"step": 1, "time_s": 1, "bytes": 1.5}', "bytes: expected a whole number from 0, got 1.5"),
        ('{"step": 1, "time_s": 1, "slowest_rank": 3}', "slowest_rank: expected a rank from 0 to 2, got 3"),
        (
            '{"step": 1, "time_s": 1, "end_ns": 1000000000001}',
            "end_ns: expected CLOCK_MONOTONIC in ns, not after now, got 1000000000001",
        ),
        ('{"step": 1, "time_s": 1, "optimizer": 3}', "optimizer: expected a name, got 3"),
        ('{"step": 1, "time_s": 1, "los": 2}', "los: there is no such field; did you mean 'loss'?"),
    ],
)
def test_a_wrong_report_names_rank_host_field_and_what_was_expected(line: str, complaint: str) -> None:
    with pytest.raises(ReportError) as refused:
        parse_report(line.encode(), 1, HOSTS, NOW_NS)
    assert refused.value.message == f"rank 1 (h4) reported no step: {complaint}"


def test_a_step_of_a_job_is_over_when_all_ranks_have_reported_it() -> None:
    steps = JobSteps(HOSTS)
    assert steps.add(report(1, 5, end_s=10.5, time_s=2, loss=3.0, bytes=10)) == []
    assert not steps.has_begun
    assert steps.add(report(0, 5, end_s=10, loss=1.0, bytes=20)) == []
    assert steps.has_begun
    [step] = steps.add(report(2, 5, end_s=11))
    assert (step.step_begin_ns, step.begin_ns, step.end_ns) == (round(8.5 * S), round(8.5 * S), 11 * S)
    assert (step.last_rank, step.loss, step.sent_bytes) == ("h2", 2.0, 30)


def test_a_step_may_take_no_time() -> None:
    found = parse_report(b'{"step": 0, "time_s": 0.0}', 0, HOSTS, NOW_NS)
    assert found == StepReport(0, 0, NOW_NS - 1, NOW_NS)


@pytest.mark.parametrize("loss", ["null", "NaN", "Infinity", "-Infinity", "1e400"])
def test_a_loss_that_is_not_finite_is_a_loss(loss: str) -> None:
    found = parse_report(f'{{"step": 0, "time_s": 2, "loss": {loss}}}'.encode(), 0, HOSTS, NOW_NS).loss
    assert found is not None
    assert not math.isfinite(found)


@pytest.mark.parametrize(
    ("of_ranks", "expected"),
    [
        ([{}, {}, {}], None),
        ([{}, {}, {"loss": 3}], 3),
        ([{"loss": 1}, {}, {"loss": 2}], 1.5),
        ([{"loss": 1}, {"loss": None}, {}], math.nan),
        ([{"loss": math.inf}, {"loss": -math.inf}, {"loss": 1}], math.nan),
    ],
)
def test_the_loss_of_a_step_is_that_of_the_ranks_that_have_one(
    of_ranks: list[dict[str, Any]], expected: float | None
) -> None:
    steps = JobSteps(HOSTS)
    found = [steps.add(report(rank, 0, end_s=1, **fields)) for rank, fields in enumerate(of_ranks)]
    assert [each.loss for each in found[-1]] == [pytest.approx(expected, nan_ok=True)]


def seen(rank: int, step: int, **fields: Any) -> StepReport:
    return report(rank, step, end_s=step + 1, by="mrc-torch", **fields)


def test_the_loss_is_the_script_s_where_it_reports_one_of_a_step_that_mrc_torch_saw() -> None:
    steps = JobSteps(HOSTS[:2])
    found = []
    for step in range(4):
        found += steps.add(seen(0, step, loss=1000))
        if step != 2:
            found += steps.add(report(0, 10 * step, end_s=step + 3, loss=step))
        found += steps.add(seen(1, step, loss=3000))
    found += steps.finish()
    assert [(each.loss, each.end_ns) for each in found] == [(0, S), (1, 2 * S), (None, 3 * S), (3, 4 * S)]


def test_a_step_is_of_the_optimizer_that_rank_0_names() -> None:
    steps = JobSteps(HOSTS[:2])
    steps.add(seen(0, 0, optimizer="Adam"))
    steps.add(report(0, 0, end_s=1, loss=2))
    steps.add(seen(1, 0, optimizer="SGD"))
    assert [(each.optimizer, each.loss) for each in steps.finish()] == [("Adam", 2)]


def test_a_job_whose_scripts_report_nothing_has_what_mrc_torch_saw() -> None:
    steps = JobSteps(HOSTS[:2])
    found = [
        each for step in range(3) for rank in range(2) for each in steps.add(seen(rank, step, loss=rank))
    ]
    assert [each.loss for each in [*found, *steps.finish()]] == [0.5] * 3


def test_a_script_that_reports_before_mrc_torch_sees_a_step_reports_alone() -> None:
    steps = JobSteps(HOSTS[:2])
    found = []
    for step in range(3):
        found += steps.add(report(0, step, end_s=step + 1, loss=step))
        found += [each for rank in range(2) for each in steps.add(seen(rank, step, loss=1000))]
    assert [each.loss for each in [*found, *steps.finish()]] == [0, 1, 2]


def test_a_rank_may_say_which_one_was_slowest() -> None:
    steps = JobSteps(HOSTS)
    steps.add(report(0, 0, end_s=10, slowest_rank=1))
    steps.add(report(1, 0, end_s=10))
    [step] = steps.add(report(2, 0, end_s=11, slowest_rank=2))
    assert step.last_rank == "h4"


def test_ranks_that_report_nothing_are_not_waited_for_after_the_first_step() -> None:
    steps = JobSteps(HOSTS)
    assert steps.add(report(0, 0, end_s=1)) == []
    assert [each.end_ns for each in steps.add(report(0, 1, end_s=2))] == [S, 2 * S]
    assert [each.end_ns for each in steps.add(report(0, 2, end_s=3))] == [3 * S]


def test_a_rank_that_reports_late_is_waited_for_from_then_on() -> None:
    steps = JobSteps(HOSTS)
    steps.add(report(0, 0, end_s=1))
    steps.add(report(0, 1, end_s=2))
    assert steps.add(report(2, 1, end_s=2)) == []
    assert steps.add(report(0, 2, end_s=3)) == []
    assert [each.last_rank for each in steps.add(report(2, 2, end_s=3.5))] == ["h2"]


def test_the_job_has_the_steps_of_rank_0_only() -> None:
    steps = JobSteps(HOSTS)
    for rank in (1, 2):
        assert steps.add(report(rank, 0, end_s=1)) == []
    assert steps.add(report(0, 10, end_s=2)) == []
    steps.add(report(1, 10, end_s=2))
    assert len(steps.add(report(2, 10, end_s=2))) == 1


def test_what_is_left_at_the_end_is_over_too() -> None:
    steps = JobSteps(HOSTS)
    steps.add(report(0, 0, end_s=1))
    steps.add(report(1, 0, end_s=1))
    steps.add(report(1, 1, end_s=1))
    assert len(steps.finish()) == 1
    assert steps.finish() == []
    assert JobSteps(HOSTS).finish() == []


def test_steps_must_go_up() -> None:
    steps = JobSteps(HOSTS)
    steps.add(report(1, 7, end_s=1))
    with pytest.raises(ReportError, match=r"rank 1 \(h4\) .*: step: expected more than 7, got 7"):
        steps.add(report(1, 7, end_s=2))
