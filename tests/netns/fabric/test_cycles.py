"""Labs that come and go leave no BPF object: none in the kernel, none in the process that made them."""

import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from bpf_objects import BpfObjects, living, objects_of
from lab_leftovers import SMALL
from waiting import poll_until

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.paths import lab_paths

pytestmark = [pytest.mark.root, pytest.mark.slow("three shaped labs one after the other"), pytest.mark.ci]

CYCLES = 3
SHAPED = SMALL.model_copy(update={"port_rate": 100_000_000})


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    """Turn the garbage collector off: objects have to be freed by reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def bpf_objects_of_this_process() -> list[str]:
    """Its descriptors and mappings of maps and programs."""
    with_links = Path("/proc/self/fd").iterdir()
    descriptors = [str(path.readlink()) for path in with_links if path.is_symlink()]
    mappings = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    return sorted(name for name in descriptors + mappings if name.startswith("anon_inode:bpf"))


def is_gone(objects: BpfObjects) -> bool:
    """Return True if the kernel has freed all of them."""
    return not living(objects)


@pytest.mark.usefixtures("no_garbage_collector")
def test_a_lab_leaves_no_bpf_object(lab_name: str) -> None:
    before = bpf_objects_of_this_process()
    for _ in range(CYCLES):
        lab.up(SHAPED, name=lab_name, runtime="netns")
        made = objects_of(lab_paths(lab_name).pins)
        assert {kind for kind, _ in living(made)} == {"map", "prog"}
        lab.down(lab_name)
        assert bpf_objects_of_this_process() == before
        # The kernel frees programs and maps some time after their last reference has gone.
        poll_until(partial(is_gone, made), what="the end of all programs and maps")
