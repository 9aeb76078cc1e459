"""A lab per forwarding mode, one after the other, and nothing left of it afterwards."""

import os
from collections.abc import Iterator

import pytest
from own_lab import lab_up

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec

TWO_TIERS = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 1, "uplinks_per_pair": 2}
THREE_TIERS = {"planes": 2, "tiers": [{"joins": 1}, {"joins": 1, "switches": 2}, {"joins": 2, "links": 2}]}
LABS = (("srv6", TWO_TIERS), ("stev", TWO_TIERS), ("ecmp", TWO_TIERS), ("srv6", THREE_TIERS))


@pytest.fixture(scope="module", params=LABS, ids=["srv6", "stev", "ecmp", "srv6 in three tiers"])
def lab_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of an unshaped lab of that mode; its two hosts have different T0s, and pods."""
    forwarding, shape = request.param
    with lab_up(TopologySpec.model_validate({"forwarding": forwarding, **shape}), f"f{os.getpid()}") as name:
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
