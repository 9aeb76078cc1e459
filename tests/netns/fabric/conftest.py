"""Labs of the test's own, and the proof that they leave nothing behind."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from lab_leftovers import SMALL, observe_leftovers
from own_lab import own_state_dir

from mrc_testbed.fabric import lab

_PREFIX = f"t{os.getpid()}"
_numbers = count(1)


@pytest.fixture(autouse=True)
def state_dir() -> Iterator[Path]:
    """A state folder of the test's own."""
    with own_state_dir() as folder:
        yield folder


@pytest.fixture(autouse=True)
def no_leak(state_dir: Path) -> Iterator[list[str]]:
    """Fails a test after which namespaces, processes, mounts, pins or files of its labs are left.

    Gives the names of the labs, which `lab_name` appends to.
    """
    names: list[str] = []
    yield names
    left = observe_leftovers(names, state_dir)
    for name in names:
        lab.down(name)
    assert left == []


@pytest.fixture
def lab_name(no_leak: list[str]) -> str:
    """Name of a lab that does not exist."""
    return _new_name(no_leak)


@pytest.fixture
def other_lab_name(no_leak: list[str]) -> str:
    """Name of another one."""
    return _new_name(no_leak)


def _new_name(names: list[str]) -> str:
    names.append(f"{_PREFIX}-{next(_numbers)}")
    return names[-1]


@pytest.fixture
def small_lab(lab_name: str) -> Iterator[str]:
    """Name of a lab of spec SMALL that is up."""
    lab.up(SMALL, name=lab_name, runtime="netns")
    yield lab_name
    lab.down(lab_name)
