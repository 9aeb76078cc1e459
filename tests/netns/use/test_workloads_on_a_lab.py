"""Real messages through a real lab: counted, compared, ended in order."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from shared_lab import SPEC

from testbed.errors import AgentError, UsageError
from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.faults.interactive import LabFaults, parse_fault
from testbed.workloads.bench import run_bench
from testbed.workloads.connectors import open_mrc
from testbed.workloads.engine import WorkloadEngine
from testbed.workloads.flow import Flow
from testbed.workloads.load import Load, build_loads
from testbed.workloads.perftest import BenchReport
from testbed.workloads.spec import SendRecv, Workload, WriteBw, WriteLat

pytestmark = pytest.mark.root

LAB_SPEC = SPEC  # a lab of its own, of which the last test kills an agent

SECOND_NS = 10**9
DEADLINE_NS = 120 * SECOND_NS


def bench(live: Lab, workload: Workload) -> BenchReport:
    return run_bench(live, build_loads(workload, live.clos)[0], duration_ns=workload.duration_ns, seed=1)


def write_bw(**fields: object) -> WriteBw:
    values = {"name": "bench", "kind": "write-bw", "from": "h0", "to": "h2", "size": 64 << 10, **fields}
    return WriteBw.model_validate(values)


@pytest.mark.parametrize("target", ["h1", "h2"])
def test_every_message_arrives_within_a_t0_and_across_a_t1(live: Lab, target: str) -> None:
    report = bench(live, write_bw(to=target, iterations=300))
    assert report.messages == 300
    assert report.compared_bytes > 0
    assert report.has_passed
    assert report.completion is not None
    assert report.completion.count == 300
    assert report.completion.min_ns <= report.completion.typical_ns <= report.completion.p999_ns


@pytest.mark.parametrize("size", [1, 2, 2047, 2048, 2049, 100_000, 3 << 20])
def test_sizes_around_the_edges_of_packets_and_memory(live: Lab, size: int) -> None:
    report = bench(live, write_bw(size=size, iterations=10))
    assert report.messages == 10
    assert report.has_passed


def test_several_qps_of_a_pair_are_apart(live: Lab) -> None:
    report = bench(live, write_bw(qps=3, iterations=50))
    assert [flow.outcome.messages for flow in report.flows] == [50, 50, 50]
    assert len({flow.outcome.qpn for flow in report.flows}) == 3
    assert report.has_passed


def test_a_ring_is_busy_in_both_directions_until_its_time_is_over(live: Lab) -> None:
    workload = SendRecv.model_validate(
        {"name": "ring", "kind": "sendrecv", "size": 64 << 10, "duration": SECOND_NS // 2}
    )
    report = bench(live, workload)
    assert [(flow.outcome.flow.source, flow.outcome.flow.target) for flow in report.flows] == [
        ("h0", "h1"),
        ("h1", "h2"),
        ("h2", "h3"),
        ("h3", "h0"),
    ]
    assert all(flow.outcome.messages > 0 for flow in report.flows)
    assert report.has_passed


def test_latency_is_measured_message_by_message(live: Lab) -> None:
    workload = WriteLat.model_validate(
        {"name": "lat", "kind": "write-lat", "from": "h0", "to": "h2", "size": 2, "iterations": 500}
    )
    report = bench(live, workload)
    assert report.completion is not None
    assert report.completion.count == 500
    assert 0 < report.completion.min_ns <= report.completion.mean_ns <= report.completion.max_ns


def test_no_byte_is_wrong_while_a_plane_loses_packets(live: Lab, faults: Callable[[], LabFaults]) -> None:
    open_faults = faults()
    fields = {"id": "gray", "ratio": "5%", "until": "cleared"}
    open_faults.add(parse_fault("loss", "{links: {plane: 1}}", fields, ()), 1)
    report = bench(live, write_bw(duration=SECOND_NS))
    open_faults.clear("gray")
    assert report.messages > 0
    assert report.compared_bytes > 0
    assert report.has_passed


def test_a_message_too_large_for_the_memory_is_refused_before_anything_is_sent(live: Lab) -> None:
    with pytest.raises(UsageError, match=r"messages of 8MiB need .* at h0, which has 16MiB"):
        bench(live, write_bw(size=8 << 20, iterations=1))


def test_a_qp_too_many_is_refused_and_the_others_are_given_back(live: Lab) -> None:
    with pytest.raises(UsageError, match="all 32 QPs of the NIC are in use"):
        bench(live, write_bw(qps=33, size=64, iterations=1))


def test_an_agent_killed_in_mid_run_is_named(lab_name: str) -> None:
    """The last test of the module: the lab has one agent less from now on."""
    with lab.attach(lab_name) as live:
        engine = WorkloadEngine(open_mrc(live))
        with closing(engine):
            engine.prepare([Load("main", 4096, 1, None, (Flow("main", "h0", "h2", 0),))], 1)
            engine.start("main")
            [agent] = [process for process in live.state.processes if process.node == "h2"]
            os.kill(agent.pid, signal.SIGKILL)
            assert engine.wait(time.monotonic_ns() + DEADLINE_NS)
            with pytest.raises(AgentError, match=r"the NIC agent of h2 is lost: .*died"):
                engine.collect(time.monotonic_ns())
        assert live.agent("h0").list_qps() == []
