"""Labs to capture in, unshaped, with direct links and shaped, and nothing left of them afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.topology.spec import TopologySpec

SIZE = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2}
SPECS = {
    "unshaped": TopologySpec.model_validate(SIZE),
    "direct": TopologySpec.model_validate({**SIZE, "queue": {"links": "direct"}}),
    "shaped": TopologySpec.model_validate({**SIZE, "port_rate": "100Mbit", "link_delay": "100us"}),
}


@pytest.fixture(scope="module", params=SPECS)
def lab_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of a lab that is up, under a state folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))
    name = f"c{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        for variable in [variable for variable in os.environ if variable.startswith("MRC_TESTBED_")]:
            patch.delenv(variable)
        patch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        try:
            lab.up(SPECS[request.param], name=name, runtime="netns")
            yield name
        finally:
            lab.down(name)
            shutil.rmtree(folder)


@pytest.fixture
def live(lab_name: str) -> Iterator[Lab]:
    """The lab; a test must leave no port captured."""
    with lab.attach(lab_name) as attached:
        yield attached
        assert captured_ports(attached) == []


def captured_ports(attached: Lab) -> list[str]:
    """Names of the ports whose frames are being copied."""
    return [
        attached.clos.port(port_id).name
        for port_id, port in enumerate(attached.port_table)
        if port.capture_bytes
    ]
