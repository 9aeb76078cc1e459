"""What the kernel's verifier goes through in each program, by kind of fabric.

It does not depend on the machine, only on the kernel and the compiler.
"""

from collections.abc import Iterator

from agents.bpf.libbpf import BpfObject
from benchmarks.figure import Figure
from testbed.fabric.data_plane import OBJECTS_DIR, fabric_rodata
from testbed.topology.clos import Clos
from tests.bpf.test_verifier import KERNEL_LIMIT, PROGRAMS, SHARE_MAX, SPECS


def run() -> Iterator[Figure]:
    target = f"< {SHARE_MAX * KERNEL_LIMIT:,.0f}"
    for program in PROGRAMS:
        for kind, spec in SPECS.items():
            with BpfObject(OBJECTS_DIR / f"{program}.bpf.o", rodata=fabric_rodata(Clos(spec))) as loaded:
                count = loaded.verified_instructions(program)
            yield Figure("verifier", f"{program}, {kind}", "instruction", (count,), target)
