"""Collectives in the memory of real NICs: every sum compared, on whatever the fabric does meanwhile."""

import time
from collections.abc import Callable
from contextlib import closing

import pytest
from typed_command import Command

from testbed.fabric.live import Lab
from testbed.faults.interactive import LabFaults, parse_fault
from testbed.workloads.bench import run_collective
from testbed.workloads.connectors import open_mrc
from testbed.workloads.engine import WorkloadEngine
from testbed.workloads.load import Load, build_loads
from testbed.workloads.nccl import CollectiveResult
from testbed.workloads.schedule import COLLECTIVE_KINDS
from testbed.workloads.spec import CollectiveSpec, Incast, Permutation, Training

pytestmark = pytest.mark.root

SECOND_NS = 10**9
RANKS = 4


def collective(live: Lab, **fields: object) -> Load:
    values = {"name": "bench", "kind": "all-reduce", "size": 256 << 10, "iterations": 3, **fields}
    return build_loads(CollectiveSpec.model_validate(values), live.clos)[0]


def carry_out(live: Lab, load: Load, duration_ns: int | None = None) -> CollectiveResult:
    return run_collective(live, load, warmup_operations=0, duration_ns=duration_ns, seed=1)


@pytest.mark.parametrize("kind", COLLECTIVE_KINDS)
@pytest.mark.parametrize("qps", [1, 2])
def test_every_result_is_right(live: Lab, kind: str, qps: int) -> None:
    result = carry_out(live, collective(live, kind=kind, qps=qps))
    assert result.errors == ()
    assert result.wrong_bytes == 0
    assert result.operation is not None
    assert result.operation.count == 3
    shares = {"all-reduce": 4, "reduce-scatter": 1, "all-gather": 3, "all-to-all": 3, "broadcast": 3}
    assert result.compared_bytes == 3 * shares[kind] * (256 << 10)


@pytest.mark.parametrize("size", [4 * RANKS, 4 * RANKS + 4, 65_532, 1 << 20, 4 << 20])
def test_sizes_around_the_edges_of_elements_packets_and_memory(live: Lab, size: int) -> None:
    result = carry_out(live, collective(live, size=size, iterations=2))
    assert result.has_passed
    assert result.compared_bytes == 2 * RANKS * size


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float64"])
@pytest.mark.parametrize("reduce", ["sum", "min", "max"])
def test_types_and_reductions(live: Lab, dtype: str, reduce: str) -> None:
    assert carry_out(
        live, collective(live, dtype=dtype, reduce=reduce, size=64 << 10, iterations=1)
    ).has_passed


def test_no_sum_is_wrong_while_a_plane_loses_packets(live: Lab, faults: Callable[[], LabFaults]) -> None:
    open_faults = faults()
    fields = {"id": "gray", "ratio": "5%", "until": "cleared"}
    open_faults.add(parse_fault("loss", "{links: {plane: 1}}", fields, ()), 1)
    result = carry_out(live, collective(live, iterations=None, duration=SECOND_NS), SECOND_NS)
    open_faults.clear("gray")
    assert result.has_passed
    assert result.operation is not None
    assert result.operation.count > 1


def test_training_computes_and_communicates_beside_other_traffic(live: Lab) -> None:
    job = Training.model_validate(
        {"name": "job", "kind": "training", "compute": 20_000_000, "size": 64 << 10, "duration": SECOND_NS}
    )
    storm = Incast.model_validate(
        {
            "name": "storm",
            "kind": "incast",
            "to": "h0",
            "victim": {"from": "h0", "to": "h3"},
            "size": 16 << 10,
            "duration": SECOND_NS,
        }
    )
    mixed = Permutation.model_validate(
        {"name": "mixed", "kind": "permutation", "size": 4096, "duration": SECOND_NS}
    )
    loads = [load for each in (job, storm, mixed) for load in build_loads(each, live.clos, seed=4)]
    assert [load.name for load in loads] == ["job", "storm", "storm.victim", "mixed"]
    with closing(WorkloadEngine(open_mrc(live))) as engine:
        engine.prepare(loads, 1)
        for load in loads:
            engine.start(load.name)
        engine.wait(time.monotonic_ns() + SECOND_NS)
        for load in loads:
            engine.stop(load.name)
        outcomes = engine.collect(time.monotonic_ns() + 20 * SECOND_NS)
        acknowledged = engine.acknowledged_bytes()
        steps = engine.operations("job")
    assert all(outcome.error is None and outcome.wrong_bytes == 0 for outcome in outcomes)
    assert all(outcome.compared_bytes > 0 for outcome in outcomes)
    assert all(acknowledged[outcome.flow] >= outcome.payload_bytes > 0 for outcome in outcomes)
    assert steps
    assert all(each.begin_ns - each.step_begin_ns >= 20_000_000 for each in steps)


def test_bench_all_reduce_has_the_columns_of_nccl_tests(command: Command) -> None:
    shown = command("bench", "all-reduce", "-b", "4KiB", "-e", "64KiB", "-f", "4", "-i", "2", "-w", "1")
    lines = shown.splitlines()
    heads = next(line for line in lines if line.startswith("size(B)")).split()
    assert heads == [
        "size(B)",
        "count",
        "type",
        "redop",
        "time(us)",
        "algbw(GB/s)",
        "busbw(GB/s)",
        "#wrong",
        "p50(us)",
        "p99(us)",
        "p99.9(us)",
        "max(us)",
    ]
    rows = [line.split() for line in lines if line.split()[0].isdecimal()]
    assert [(row[0], row[1], row[7]) for row in rows] == [
        ("4096", "1024", "0"),
        ("16384", "4096", "0"),
        ("65536", "16384", "0"),
    ]
    assert "verified, no mismatch" in shown


def test_bench_all_to_all_as_json(command: Command) -> None:
    found = command.json("bench", "all-to-all", "-b", "64KiB", "-i", "2", "-w", "0", "--hosts", "h3,h1,h0")
    [size] = found["sizes"]
    assert found["ranks"] == ["h3", "h1", "h0"]
    assert (size["wrong_bytes"], size["operation_ns"]["count"], size["reduce"]) == (0, 2, None)
    assert size["busbw_bytes_per_s"] == pytest.approx(size["algbw_bytes_per_s"] * 2 / 3)


def test_bench_training_reports_whole_steps(command: Command) -> None:
    found = command.json("bench", "training", "--compute", "30ms", "--size", "16KiB", "-d", "300ms")
    [size] = found["sizes"]
    assert size["step_ns"]["p50"] >= 30_000_000 + size["operation_ns"]["p50"] * 0.5
    assert size["step_ns"]["count"] >= 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("all-reduce -b 12MiB", "needs 24MiB of memory at h0, which has 16MiB for it"),
        ("all-reduce -b 4096", "it has no unit"),
        ("all-reduce -b 1MiB -e 4KiB", "--max-size 4KiB is less than --min-size 1MiB"),
        ("all-gather --hosts h0,h77", "there is no host 'h77'"),
        ("all-reduce --dtype float31", "did you mean 'float32'"),
        ("all-to-all --qps 40", "all 32 QPs of the NIC are in use"),
        ("training --collective all-redus", "did you mean 'all-reduce'"),
        ("incast h9", "there is no host 'h9'"),
    ],
)
def test_bad_input_is_refused(command: Command, line: str, message: str) -> None:
    command("bench", *line.split(), status=2)
    assert message in command.stderr.replace("\n", " ")
