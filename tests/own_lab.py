"""A lab that only its tests know of: under a state folder of its own, and nothing left of it afterwards."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.fabric.process import find_marked
from mrc_testbed.topology.spec import TopologySpec


@contextmanager
def own_state_dir() -> Iterator[Path]:
    """A state folder for labs made meanwhile, to which no flag from outside and no Docker Engine matters."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    with pytest.MonkeyPatch.context() as patch:
        for variable in [variable for variable in os.environ if variable.startswith("MRC_TESTBED_")]:
            patch.delenv(variable)
        patch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        patch.setenv("DOCKER_HOST", f"unix://{folder}/no-engine.sock")
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


@contextmanager
def lab_up(spec: TopologySpec, name: str) -> Iterator[str]:
    """Name of a lab in network namespaces that is up meanwhile; what is left of it afterwards is an error."""
    with own_state_dir():
        try:
            lab.up(spec, name=name, runtime="netns")
            yield name
        finally:
            lab.down(name)
    assert_nothing_left(name)


def assert_nothing_left(name: str) -> None:
    """No namespace and no process of that lab is there."""
    assert not [namespace for namespace in namespace_names() if namespace.startswith(f"mrc-{name}-")]
    assert not find_marked(name)
