"""Traces of jobs in virtual time: every operation compared, computing to the nanosecond."""

from pathlib import Path

import pytest
from made_traces import CPU, call, every_kind, node, rank, send, write
from runs import run

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.traces.graph import Compute, RankTrace, TraceNode

SCENARIO = """
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: traced}
spec:
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 10Gbit, nic: {memory: 16MiB}}
  workloads: [{name: job, kind: trace, files: 'FILES'KEYS}]
  expect: [wrong_bytes == 0]
"""


def plan_of(files: str, keys: str = "", faults: str = "") -> Plan:
    return resolve(load_scenario(SCENARIO.replace("FILES", files).replace("KEYS", keys) + faults))


GRAY = """
  faults:
    - {id: gray, kind: loss, ratio: 5%, at: 1ms, until: cleared,
       select: {links: {plane: 1, between: [t0, t1]}, pick: all}}
"""


def traced(tmp_path: Path, ranks: list[RankTrace], keys: str = "", faults: str = "") -> Measurement:
    """Measurement of a run, none of whose bytes is wrong."""
    done = run(plan_of(write(tmp_path, ranks), keys, faults), tmp_path)
    assert done.result.verdict.status is Status.PASSED, done.result.verdict
    return Measurement(done.result.recording)


def value(measured: Measurement, quantity: str) -> float:
    return measured.measure(parse_quantity(quantity))


def test_operations_of_all_kinds_carry_the_right_bytes_through_losses(tmp_path: Path) -> None:
    ranks = [every_kind(number, 4, steps=3) for number in range(4)]
    measured = traced(tmp_path, ranks, ", iterations: 2", GRAY)
    assert value(measured, "operations(job)") == 6
    assert value(measured, "fault_drops") > 0


def steps_ns(tmp_path: Path, ranks: list[RankTrace], keys: str = "") -> float:
    return value(traced(tmp_path, ranks, keys), "max(step_time(job))")


def test_computing_takes_its_time_by_streams_and_factor(tmp_path: Path) -> None:
    def pair(*before: TraceNode) -> list[RankTrace]:
        barrier = node(9, call("barrier", 0), *(each.id for each in before))
        return [rank(*before, barrier), rank(node(9, call("barrier", 0)))]

    cpu, device = node(1, CPU, us=500), node(2, Compute("device"), us=700)
    behind = node(2, CPU, us=700)
    alone_ns = steps_ns(tmp_path, pair(cpu))
    assert steps_ns(tmp_path, pair(cpu, device)) == alone_ns + 200_000
    assert steps_ns(tmp_path, pair(cpu, behind)) == alone_ns + 700_000
    assert steps_ns(tmp_path, pair(cpu), ", compute: x3") == alone_ns + 1_000_000


def test_idle_is_what_ranks_do_not_compute(tmp_path: Path) -> None:
    done = run(
        plan_of(
            write(
                tmp_path,
                [
                    rank(node(1, CPU, us=900), node(2, call("barrier", 0), 1)),
                    rank(node(1, CPU, us=300), node(2, call("barrier", 0), 1)),
                ],
            )
        ),
        tmp_path,
    )
    [job] = done.result.jobs
    [step] = done.result.recording.operations["job"]
    assert step.computed_ns == (900_000, 300_000)
    assert job.idle == {"h0": 1 - 900_000 / step.step_ns, "h1": 1 - 300_000 / step.step_ns}


def test_sizes_take_their_factor(tmp_path: Path) -> None:
    ranks = [rank(node(1, call(size=1 << 20)))] * 2
    whole, tenth = (traced(tmp_path, ranks, keys) for keys in ("", ", bytes: x0.1"))
    compared = [sum(each.compared_bytes for each in found._recording.outcomes) for found in (whole, tenth)]
    assert compared == [2 << 20, 2 * round((1 << 20) * 0.1)]


def test_one_file_is_that_of_all_ranks(tmp_path: Path) -> None:
    write(tmp_path, [rank(node(1, CPU, us=100), node(2, call(), 1))])
    files = str(tmp_path / "rank.0.et")
    done = run(plan_of(files, ", hosts: [h3, h0, h2]"), tmp_path)
    assert [each.compared_bytes for each in done.result.recording.operations["job"]] == [300]
    with pytest.raises(UsageError, match="hosts: 3; the trace has 1 ranks"):
        plan_of(str(tmp_path / "rank.{}.et"), ", hosts: 3")
    write(tmp_path, [rank(node(7, send(1)), node(8, call()))])
    with pytest.raises(
        UsageError, match=r"rank.0.et: rank 1: node 7 .*: its peer is rank 1; this is rank 1 of 4"
    ):
        plan_of(files)


def test_a_trace_that_has_changed_is_not_the_one_that_was_planned(tmp_path: Path) -> None:
    plan = plan_of(write(tmp_path, [rank(node(1, call()))] * 2))
    write(tmp_path, [rank(node(1, call(size=200)))] * 2)
    done = run(plan, tmp_path)
    assert "this is another trace than when the run was planned" in done.result.verdict.reason


def test_goal_runs(tmp_path: Path) -> None:
    (tmp_path / "a.goal").write_text(
        "num_ranks 2\nrank 0 {\n l1: calc 1000000\n l2: send 100000b to 1 tag 3\n l2 requires l1\n}\n"
        "rank 1 {\n l1: recv 100000b from 0 tag 3\n l2: calc 5000\n l2 requires l1\n}\n"
    )
    done = run(plan_of(str(tmp_path / "a.goal"), ", format: goal"), tmp_path)
    [step] = done.result.recording.operations["job"]
    assert (step.last_rank, step.compared_bytes, step.wrong_bytes) == ("h1", 100_000, 0)
    assert step.step_ns > 1_005_000
