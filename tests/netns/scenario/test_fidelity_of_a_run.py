"""Failures of the machine show in the verdict of a run, or in its counts."""

import os
from contextlib import closing
from pathlib import Path

from document_text import document
from live_scenario import run_live
from waiting import poll_until

from mrc_agents.nic.client import AgentClient
from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.doorbell import ring_drops
from mrc_testbed.fabric.live import Lab
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.take_reading import take_reading
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.congestion import CongestionControl
from mrc_testbed.workloads.connectors import open_mrc
from mrc_testbed.workloads.engine import WorkloadEngine
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load

OVERLOAD = document("""\
Scenario {name: overload}
  topology: {planes: 4, t0: 2, t1: 4, hosts_per_t0: 4, port_rate: 2Gbit}
  workloads:
    - {name: main, kind: sendrecv, size: 64KiB, shift: 4, duration: 1s}
  expect: [wrong_bytes == 0]
""")


def _agent(lab: Lab, host: str) -> AgentClient:
    return AgentClient(lab.paths.agent_socket(host))


def test_a_run_that_asks_too_much_of_the_machine_is_untrusted(state_dir: Path, tmp_path: Path) -> None:
    plan = resolve(load_scenario(OVERLOAD))
    name = f"f{os.getpid()}"
    labs.up(plan.topology, name=name, runtime="netns")
    try:
        result = run_live(name, OVERLOAD, tmp_path).result
        warm = run_live(name, OVERLOAD.replace("1s}", "1h, warmup: 200ms}"), tmp_path).result
    finally:
        labs.down(name)
    assert result.verdict.status is Status.UNTRUSTED
    assert result.verdict.exit_code == 7
    assert any("frames left their queues late" in reason for reason in result.verdict.untrusted)
    assert [outcome.answer for outcome in result.verdict.outcomes] == ["cannot tell"]
    assert any(finding.what == "frames lost in receive rings" for finding in result.fidelity)
    assert warm.verdict.status is Status.UNTRUSTED  # long before its hour is over
    assert "at a mean in the warm-up" in warm.verdict.reason
    assert "run it with --virtual, or with a port_rate of " in warm.verdict.reason
    assert [outcome.answer for outcome in warm.verdict.outcomes] == ["cannot tell"]


def test_every_frame_that_vanishes_between_nics_is_found_in_a_ring(state_dir: Path) -> None:
    name = f"f{os.getpid()}"
    labs.up(TopologySpec(planes=1, t0=2, t1=2, hosts_per_t0=4), name=name, runtime="netns")
    flows = tuple(Flow("incast", f"h{source}", "h0", 0) for source in range(1, 8))
    try:
        with (
            labs.attach(name) as lab,
            closing(LabReader(name, lab.clos, lab.paths.fabric_pins, lab.paths.pins / "nodes")) as reader,
        ):
            before, lost_before = take_reading(reader), ring_drops(lab)
            with closing(WorkloadEngine(open_mrc(lab, CongestionControl("fixed", 1024)))) as engine:
                # seven windows of 1024 packets into a ring of 256
                engine.prepare([Load("incast", 65536, 8, 40, flows)], seed=1)
                engine.start("incast")
                assert engine.wait(None)

                def vanished() -> int:
                    """Frames that no NIC and no ring has counted. A NIC counts for QPs that are there."""
                    now = take_reading(reader).since(before).hosts.total()
                    assert now.messages == 7 * 40
                    return now.tx_data_packets - now.rx_data_packets - (ring_drops(lab) - lost_before)

                poll_until(lambda: vanished() <= 0, what="every frame that is still in a backlog")
    finally:
        labs.down(name)
