"""A lab whose hosts probe their links, without faults between the tests, and nothing left of it."""

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
from testbed.faults.by_hand import LabFaults
from testbed.topology.spec import TopologySpec

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
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    name = f"p{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        for variable in [variable for variable in os.environ if variable.startswith("MRC_TESTBED_")]:
            patch.delenv(variable)
        patch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        try:
            lab.up(TopologySpec.model_validate(SPEC), name=name, runtime="netns")
            yield name
        finally:
            lab.down(name)
            shutil.rmtree(folder)
    assert not [namespace for namespace in namespace_names() if namespace.startswith(f"mrc-{name}-")]
    assert not list(find_marked(name))


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
