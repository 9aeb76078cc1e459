"""Labs with flow control, in namespaces, and nothing left of them afterwards."""

import os
from collections.abc import Iterator

import pytest
from own_lab import lab_up

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.queue_spec import EcnSpec, QueueSpec, TrimSpec
from mrc_testbed.topology.spec import FlowControlKind, NicSpec, TopologySpec


@pytest.fixture(scope="module")
def held_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab of one plane and eight hosts that is up, with the flow control that the parameter names."""
    kind: FlowControlKind = request.param
    spec = TopologySpec(
        planes=1,
        t0=2,
        t1=2,
        hosts_per_t0=4,
        port_rate=10_000_000,
        flow_control=kind,
        queue=QueueSpec(ecn=EcnSpec(enabled=False), trim=TrimSpec(enabled=False)),
        nic=NicSpec(window_packets=128, memory=64 << 20),
    )
    with lab_up(spec, f"l{os.getpid()}") as name, lab.attach(name) as live:
        yield live
