"""What the verifier looks at in each program: with enough to spare for a kernel that prunes less."""

import pytest

from agents.bpf.libbpf import BpfObject
from testbed.fabric.data_plane import OBJECTS_DIR, fabric_rodata
from testbed.topology.clos import Clos
from testbed.topology.spec import TopologySpec

pytestmark = pytest.mark.root

KERNEL_LIMIT = 1_000_000
SHARE_MAX = 0.75
PROGRAMS = ("forward", "emit", "nic", "rc", "stack")
SPECS = {
    "unshaped": TopologySpec(),
    "shaped": TopologySpec(port_rate=100_000_000),
    "structured EVs": TopologySpec(port_rate=100_000_000, forwarding="stev"),
    "ECMP": TopologySpec(port_rate=100_000_000, forwarding="ecmp"),
}


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_quarter_of_the_kernels_limit_is_left(program: str, kind: str) -> None:
    rodata = fabric_rodata(Clos(SPECS[kind]))
    with BpfObject(OBJECTS_DIR / f"{program}.bpf.o", rodata=rodata) as loaded:
        count = loaded.verified_instructions(program)
    assert 0 < count < SHARE_MAX * KERNEL_LIMIT
