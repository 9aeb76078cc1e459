"""Labs to capture in, unshaped, with direct links and shaped, and nothing left of them afterwards."""

import os
from collections.abc import Iterator

import pytest
from captured_ports import captured_ports
from own_lab import lab_up

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec

SIZE = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2}
SPECS = {
    "unshaped": TopologySpec.model_validate(SIZE),
    "direct": TopologySpec.model_validate({**SIZE, "queue": {"links": "direct"}}),
    "shaped": TopologySpec.model_validate({**SIZE, "port_rate": "100Mbit", "link_delay": "100us"}),
}

AGAIN = pytest.mark.slow("all tests again, in another lab")


@pytest.fixture(
    scope="module",
    params=[
        "unshaped",
        pytest.param("direct", marks=AGAIN),
        pytest.param("shaped", marks=[AGAIN, pytest.mark.ci]),
    ],
)
def lab_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of a lab that is up, under a state folder of its own."""
    with lab_up(SPECS[request.param], f"c{os.getpid()}") as name:
        yield name


@pytest.fixture
def live(lab_name: str) -> Iterator[Lab]:
    """The lab; a test must leave no port captured."""
    with lab.attach(lab_name) as attached:
        yield attached
        assert captured_ports(attached) == []
