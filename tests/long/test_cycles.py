"""Labs that come and go leave nothing in the kernel: BPF objects, mounts, namespaces, descriptors.

Counts are of the whole machine: another lab that comes or goes meanwhile spoils them.
"""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from waiting import poll_until

from testbed.fabric import lab
from testbed.fabric.namespace import namespace_names
from testbed.topology.spec import TopologySpec

pytestmark = [pytest.mark.root, pytest.mark.timeout(1800)]

CYCLES = 40
SMALL = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1, port_rate=100_000_000)
libbpf = ctypes.CDLL("libbpf.so.1", use_errno=True)


def ids(next_id: Callable[..., int]) -> set[int]:
    """Of all BPF programs, or maps, that the kernel has."""
    found: set[int] = set()
    number = ctypes.c_uint32(0)
    while next_id(number, ctypes.byref(number)) == 0:
        found.add(number.value)
    return found


def state_of_the_machine() -> dict[str, int]:
    return {
        "programs": len(ids(libbpf.bpf_prog_get_next_id)),
        "maps": len(ids(libbpf.bpf_map_get_next_id)),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "namespaces": len(list(namespace_names())),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def test_forty_labs_leave_what_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"cycle{os.getpid()}"
    with TemporaryDirectory(prefix="mrc-", ignore_cleanup_errors=True) as state:
        monkeypatch.setenv("MRC_TESTBED_STATE_DIR", state)
        for cycle in range(CYCLES):
            lab.up(SMALL, name=name, runtime="netns")
            lab.down(name)
            if cycle == 0:
                before = state_of_the_machine()
        # The kernel frees programs and maps some time after their last reference has gone.
        poll_until(lambda: state_of_the_machine() == before, what=f"the machine as after one lab: {before}")
