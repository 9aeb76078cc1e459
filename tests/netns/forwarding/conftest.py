"""A lab per forwarding mode, one after the other, and nothing left of it afterwards."""

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
from testbed.topology.spec import TopologySpec

SHAPE = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 1, "uplinks_per_pair": 2}


@contextmanager
def lab_of(spec: TopologySpec) -> Iterator[str]:
    """Name of a lab that is up, under a state folder of its own; nothing of it is left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    name = f"f{os.getpid()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        try:
            lab.up(spec, name=name, runtime="netns")
            yield name
        finally:
            lab.down(name)
            shutil.rmtree(folder)
    assert not [namespace for namespace in namespace_names() if namespace.startswith(f"mrc-{name}-")]
    assert not list(find_marked(name))


@pytest.fixture(scope="module", params=["srv6", "stev", "ecmp"])
def lab_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Name of an unshaped lab of that mode."""
    with lab_of(TopologySpec.model_validate({"forwarding": request.param, **SHAPE})) as name:
        yield name


@pytest.fixture(scope="module", params=["none", "credits"])
def adaptive_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A shaped lab whose switches choose uplinks by load, with that flow control."""
    mode = {"forwarding": "ecmp", "uplink_choice": "adaptive", "flow_control": request.param}
    shape = {"planes": 1, "t0": 2, "t1": 2, "hosts_per_t0": 2, "port_rate": 20_000_000}
    with (
        lab_of(TopologySpec.model_validate({**shape, **mode})) as name,
        lab.attach(name) as attached,
    ):
        yield attached


@pytest.fixture
def live(lab_name: str) -> Iterator[Lab]:
    """The lab; no agent may have died or stumbled."""
    with lab.attach(lab_name) as attached:
        yield attached
        assert lab.status(attached.name).problems == ()
        for host in attached.clos.hosts():
            log = attached.paths.agent_log(host.name).read_text()
            assert "Traceback" not in log, log
