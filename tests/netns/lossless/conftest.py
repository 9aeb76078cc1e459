"""Labs with flow control, in namespaces, and nothing left of them afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.fabric.namespace import namespace_names
from testbed.fabric.process import find_marked
from testbed.topology.flow_control import FlowControlKind
from testbed.topology.queue_spec import EcnSpec, QueueSpec, TrimSpec
from testbed.topology.spec import NicSpec, TopologySpec


@contextmanager
def lab_of(spec: TopologySpec) -> Iterator[Lab]:
    """A lab that is up, under a state folder of its own; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    name = f"l{os.getpid()}{spec.flow_control[0]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        try:
            lab.up(spec, name=name, runtime="netns")
            with lab.attach(name) as attached:
                yield attached
        finally:
            lab.down(name)
            shutil.rmtree(folder)
    assert not [namespace for namespace in namespace_names() if namespace.startswith(f"mrc-{name}-")]
    assert not list(find_marked(name))


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
    with lab_of(spec) as live:
        yield live


@pytest.fixture(scope="module")
def spread_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A lab with credits and a host at each of five T0s, whose switches choose uplinks as the parameter says:
    what a T0 sends up is of one host.
    """
    spec = TopologySpec(
        planes=1,
        t0=5,
        t1=3,
        hosts_per_t0=1,
        port_rate=20_000_000,
        forwarding="ecmp",
        uplink_choice=request.param,
        flow_control="credits",
        nic=NicSpec(window_packets=128),
    )
    with lab_of(spec) as live:
        yield live
