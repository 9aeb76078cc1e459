"""A lab per forwarding mode, one after the other, and nothing left of it afterwards."""

import os
from collections.abc import Iterator

import pytest
from own_lab import lab_up

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec

SHAPE = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 1, "uplinks_per_pair": 2}


@pytest.fixture(scope="module", params=["srv6", "stev", "ecmp"])
def lab_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of an unshaped lab of that mode."""
    with lab_up(
        TopologySpec.model_validate({"forwarding": request.param, **SHAPE}), f"f{os.getpid()}"
    ) as name:
        yield name


@pytest.fixture
def live(lab_name: str) -> Iterator[Lab]:
    """The lab; no agent may have died or stumbled."""
    with lab.attach(lab_name) as attached:
        yield attached
        assert lab.status(attached.name).problems == ()
        for host in attached.clos.hosts():
            log = attached.paths.agent_log(host.name).read_text()
            assert "Traceback" not in log, log
