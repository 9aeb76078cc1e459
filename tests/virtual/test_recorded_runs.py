"""`run --trace`: what collectives and flows have carried, as execution traces."""

import json
from pathlib import Path

import pytest
from document_text import document
from trace_files import ends_ns, traces_in

from mrc_testbed.cli.app import run as command
from mrc_testbed.traces.graph import Compute, GroupCall, Message, StepMark
from mrc_testbed.traces.job import TraceJob

SCENARIO = document("""\
Scenario {name: traced, description: A collective and a job and flows.}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 10Gbit}
  workloads:
    - {name: sum, kind: all-gather, hosts: [h0, h1, h2, h3], size: 64KiB, iterations: 5}
    - {name: job, kind: training, hosts: [h0, h2], size: 64KiB, compute: 1ms, iterations: 3}
    - {name: flows, kind: incast, from: [h0, h1], to: h3, size: 4KiB, iterations: 10}
  faults:
    - {id: gray, at: 1ms, for: 1ms, kind: loss, ratio: 1%, select: {links: "h0:0"}}
""")


def test_a_run_leaves_traces_of_collectives_and_flows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, folder = tmp_path / "traced.yaml", tmp_path / "traces"
    path.write_text(SCENARIO)
    arguments = ["run", str(path), "--virtual", "--runs", str(tmp_path), "--trace", str(folder)]
    assert command(arguments) == 0
    assert f"trace: {folder / 'job'}, 2 ranks, 3 operations" in capsys.readouterr().err.replace("\n", " ")
    gathered, trained, sent = (traces_in(folder / name) for name in ("sum", "job", "flows"))
    for ranks in (gathered, trained, sent):
        assert TraceJob(ranks, [f"rank {rank}" for rank in range(len(ranks))]).operations
    calls = [node.work for node in gathered[3].nodes if isinstance(node.work, GroupCall)]
    assert calls == [GroupCall("all-gather", "0", 16_384)] * 5
    assert [node.work for node in trained[0].nodes[1:]] == [
        work
        for step in range(3)
        for work in (StepMark(step), Compute("cpu"), GroupCall("all-reduce", "0", 65_536))
    ]
    last = trained[0].nodes[-1]
    assert 0 <= ends_ns(trained[0].nodes)[last.id] - last.start_ns - last.duration_ns < 1000  # written in us
    received = [node.work for node in sent[1].nodes if isinstance(node.work, Message)]
    assert {(work.peer, work.is_sent) for work in received} == {(0, False), (2, False)}
    assert sum(work.size_bytes for work in received) == 2 * 10 * 4096
    [fault] = json.loads((folder / "job" / "faults.json").read_text())
    assert (fault["fault"], fault["places"], fault["end_ns"] - fault["begin_ns"]) == (
        "gray",
        ["h0:0~p0-t0-0:0"],
        1_000_000,
    )
    assert command(arguments) == 2
