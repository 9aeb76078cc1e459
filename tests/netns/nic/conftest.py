"""A lab that the tests of a module share, without faults between them, and nothing left of it afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from nic_lab import SPEC

from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.fabric.namespace import namespace_names
from testbed.fabric.port_fault import write_port_fault
from testbed.fabric.process import find_marked


@pytest.fixture(scope="module")
def lab_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of an unshaped lab of spec SPEC that is up, under a state folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    name = f"n{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        patch.setenv("DOCKER_HOST", f"unix://{folder}/no-engine.sock")
        try:
            lab.up(SPEC, name=name, runtime="netns")
            yield name
        finally:
            lab.down(name)
            shutil.rmtree(folder)
    assert not [namespace for namespace in namespace_names() if namespace.startswith(f"mrc-{name}-")]
    assert not list(find_marked(name))


@pytest.fixture
def doomed(lab_name: str) -> Iterator[Lab]:
    """The lab, for a test that kills agents."""
    with lab.attach(lab_name) as attached:
        yield attached


@pytest.fixture
def live(doomed: Lab) -> Iterator[Lab]:
    """The lab; whatever faults a test injects are taken back, and no agent may have died or stumbled.

    Nor may a NIC have counted bytes as under way when nothing was: what is sent, lost, refused and
    acknowledged must add up, whatever the test has done to the packets.
    """
    yield doomed
    for port in doomed.clos.ports():
        write_port_fault(doomed, port.id)
    assert lab.status(doomed.name).problems == ()
    for host in doomed.clos.hosts():
        log = doomed.paths.agent_log(host.name).read_text()
        assert "Traceback" not in log, log
        with doomed.agent(host.name) as agent:
            assert agent.counters()["cc_drift"] == 0
