"""A lab that the tests of a module share, without faults between them, and nothing left of it afterwards."""

import os
from collections.abc import Iterator

import pytest
from nic_lab import SPEC
from own_lab import lab_up
from port_faults import write_port_fault

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab


@pytest.fixture(scope="module")
def lab_name() -> Iterator[str]:
    """Name of an unshaped lab of spec SPEC that is up, under a state folder of its own."""
    with lab_up(SPEC, f"n{os.getpid()}") as name:
        yield name


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
