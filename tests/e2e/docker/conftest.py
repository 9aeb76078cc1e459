"""Labs of containers on the machine's Docker Engine, and the proof that they leave nothing behind."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from container_lab import SMALL, mounts, observe_leftovers

from mrc_testbed.fabric import lab
from mrc_testbed.hostprep.image import build_image

_PREFIX = f"d{os.getpid()}"
_numbers = count(1)


@pytest.fixture(scope="session")
def node_image() -> None:
    """The node image, made from the sources as they are."""
    build_image()


@pytest.fixture(scope="session", autouse=True)
def state_dir() -> Iterator[Path]:
    """A state folder of the tests' own, with a path short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        yield folder
    assert [line for line in mounts() if str(folder) in line] == []
    shutil.rmtree(folder)


@pytest.fixture
def lab_names(state_dir: Path, node_image: None) -> Iterator[list[str]]:
    """Names that labs of the test were given; a test after which anything of them is left fails."""
    names: list[str] = []
    yield names
    left = [found for name in names for found in observe_leftovers(name, state_dir)]
    for name in names:
        lab.down(name)
    assert left == []


@pytest.fixture
def lab_name(lab_names: list[str]) -> str:
    """Name of a lab that does not exist."""
    return _new_name(lab_names)


@pytest.fixture
def other_lab_name(lab_names: list[str]) -> str:
    """Name of another one."""
    return _new_name(lab_names)


@pytest.fixture
def small_lab(lab_name: str) -> Iterator[str]:
    """Name of a lab of spec SMALL in containers that is up, for a test that harms it."""
    lab.up(SMALL, name=lab_name, runtime="docker")
    yield lab_name
    lab.down(lab_name)


@pytest.fixture(scope="session")
def shared_lab(state_dir: Path, node_image: None) -> Iterator[str]:
    """The same for tests that leave it as it is."""
    name = f"{_PREFIX}-shared"
    lab.up(SMALL, name=name, runtime="docker")
    yield name
    lab.down(name)
    assert observe_leftovers(name, state_dir) == []


def _new_name(names: list[str]) -> str:
    names.append(f"{_PREFIX}-{next(_numbers)}")
    return names[-1]
