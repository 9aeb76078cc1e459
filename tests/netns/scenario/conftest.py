"""A lab of the test's own, in namespaces, and nothing left of it afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.fabric import lab
from testbed.fabric.namespace import namespace_names
from testbed.fabric.process import find_marked
from testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1)


@pytest.fixture
def live_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of a lab of spec SPEC that is up."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
    name = f"s{os.getpid()}"
    try:
        lab.up(SPEC, name=name, runtime="netns")
        yield name
    finally:
        lab.down(name)
        shutil.rmtree(folder)
    assert not [namespace for namespace in namespace_names() if namespace.startswith(f"mrc-{name}-")]
    assert not list(find_marked(name))


@pytest.fixture
def state_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder of the test's own."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
    yield folder
    shutil.rmtree(folder)
