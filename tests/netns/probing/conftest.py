"""A lab whose hosts probe their links, without faults between the tests, and nothing left of it."""

import os
from collections.abc import Iterator

import pytest
from own_lab import lab_up

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.faults.interactive import LabFaults
from mrc_testbed.topology.spec import TopologySpec

SPEC = {
    "planes": 2,
    "t0": 2,
    "t1": 2,
    "hosts_per_t0": 2,
    "probing": {"interval": "5ms", "timeout": "100ms", "t1_share": "100%"},
}


@pytest.fixture(scope="module")
def lab_name() -> Iterator[str]:
    """Name of that lab, which is up under a state folder of its own."""
    with lab_up(TopologySpec.model_validate(SPEC), f"p{os.getpid()}") as name:
        yield name


@pytest.fixture
def live(lab_name: str) -> Iterator[Lab]:
    """The lab; whatever faults a test injects are taken back, and no agent may have died or stumbled."""
    with lab.attach(lab_name) as attached:
        yield attached
        faults = LabFaults(lab_name)
        faults.clear_all()
        faults.close()
        assert lab.status(attached.name).problems == ()
        for host in attached.clos.hosts():
            log = attached.paths.agent_log(host.name).read_text()
            assert "Traceback" not in log, log
