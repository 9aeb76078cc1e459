"""The lab that most tests use, and what a lab may leave on the machine."""

from pathlib import Path

from mrc_testbed.fabric.known_labs import claim_lock
from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.fabric.process import find_marked
from mrc_testbed.topology.spec import TopologySpec

SMALL = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1)
"""Six switches, two hosts: everything that a fabric has, up in less than a second."""


def observe_leftovers(names: list[str], state_dir: Path) -> list[str]:
    """Everything on the machine that belongs to the labs *names* or to the state folder."""
    owned = tuple(f"mrc-{name}-" for name in names)
    left = [f"namespace {name}" for name in namespace_names() if owned and name.startswith(owned)]
    left += [f"process {process.pid} of {name}" for name in names for process in find_marked(name)]
    left += [f"claim of {name}" for name in names if claim_lock(name).parent.exists()]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    left += [f"mount {line}" for line in mounts if str(state_dir) in line]
    left += [f"mount {line}" for line in mounts if owned and any(prefix in line for prefix in owned)]
    left += [f"file {path}" for name in names for path in state_dir.glob(f"{name}*")]
    return left
