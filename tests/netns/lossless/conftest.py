"""Labs with flow control, in namespaces, and nothing left of them afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.fabric.namespace import namespace_names
from testbed.fabric.process import find_marked
from testbed.topology.flow_control import FlowControlKind
from testbed.topology.queue_spec import EcnSpec, QueueSpec, TrimSpec
from testbed.topology.spec import NicSpec, TopologySpec


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
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    before = os.environ.get("MRC_TESTBED_STATE_DIR")
    os.environ["MRC_TESTBED_STATE_DIR"] = str(folder)
    name = f"l{os.getpid()}{kind[0]}"
    try:
        lab.up(spec, name=name, runtime="netns")
        with lab.attach(name) as attached:
            yield attached
    finally:
        lab.down(name)
        shutil.rmtree(folder)
        if before is None:
            del os.environ["MRC_TESTBED_STATE_DIR"]
        else:
            os.environ["MRC_TESTBED_STATE_DIR"] = before
    assert not [namespace for namespace in namespace_names() if namespace.startswith(f"mrc-{name}-")]
    assert not list(find_marked(name))
