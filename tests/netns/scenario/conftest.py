"""A lab of the test's own, in namespaces, and nothing left of it afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_lab import lab_up, own_state_dir

from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1)


@pytest.fixture
def live_lab() -> Iterator[str]:
    """Name of a lab of spec SPEC that is up."""
    with lab_up(SPEC, f"s{os.getpid()}") as name:
        yield name


@pytest.fixture
def state_dir() -> Iterator[Path]:
    """A state folder of the test's own."""
    with own_state_dir() as folder:
        yield folder
