"""The cost of the programs for kernels' verifiers: measured, kept in budgets.json, compared."""

import json
import os
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from mrc_agents.algorithms import CC, EV, names_of
from mrc_agents.bpf.libbpf import BpfObject
from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.fabric.data_plane import fabric_rodata
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import NicSpec, TopologySpec
from tests.kernels.object_code import read_functions
from tests.kernels.static_rules import STACK_LIMIT_BYTES, back_edges, deepest_chain

KEPT: Final = Path(__file__).with_name("budgets.json")
PROGRAMS: Final = ("forward", "emit", "load", "nic", "rc")


def _shaped(**nic: Any) -> TopologySpec:
    return TopologySpec(port_rate=100_000_000, nic=NicSpec(**nic))


SPECS: Final = {
    "unshaped": TopologySpec(),
    "shaped": TopologySpec(port_rate=100_000_000),
    "structured EVs": TopologySpec(port_rate=100_000_000, forwarding="stev"),
    "ECMP": TopologySpec(port_rate=100_000_000, forwarding="ecmp"),
    **{f"cc {name}": _shaped(cc=name) for name in names_of(CC)[1:]},
    **{f"ev {name}": _shaped(ev_selector=name) for name in names_of(EV)[1:]},
}
KERNEL_LIMIT: Final = 1_000_000
SHARE_MAX: Final = 0.75
BUDGET: Final = round(SHARE_MAX * KERNEL_LIMIT)
"""Instructions that a verifier may go through in one program: the rest is for what is to come."""
STACK_BUDGET_BYTES: Final = STACK_LIMIT_BYTES - 64
GROWTH_MAX: Final = 0.05

Costs = dict[str, dict[str, int]]


def object_costs() -> Costs:
    """For each program: instructions of its object, and stack bytes of its deepest chain by 6.1's rule."""
    costs = {}
    for program in PROGRAMS:
        functions = read_functions(OBJECTS_DIR / f"{program}.bpf.o").values()
        costs[program] = {
            "instructions": sum(len(function.code) for function in functions),
            "stack_bytes": deepest_chain(functions)[0],
        }
    return costs


def broken_rules(kept: dict[str, Any]) -> list[str]:
    """Rules of Linux 6.1 that are broken, or nearly; empty with another compiler than *kept*'s."""
    found: list[str] = []
    if kept["compiler"] != compiler():
        return found
    for program in PROGRAMS:
        functions = read_functions(OBJECTS_DIR / f"{program}.bpf.o").values()
        stack_bytes, chain = deepest_chain(functions)
        if stack_bytes > STACK_BUDGET_BYTES:
            found.append(
                f"{program}: {stack_bytes} bytes of stack, {STACK_BUDGET_BYTES} allowed: {' > '.join(chain)}"
            )
        found += [
            f"{program}: {function.name} falls through from instruction {start} into the loop at {end}: "
            "see LOOP_ENDS() in mrc/verifier.h"
            for function in functions
            for start, end in back_edges(function.code)
        ]
    return found


def verified_instructions(program: str, kind: str) -> int:
    """Instructions that the kernel verifies in an object's largest program, in SPECS[kind]. Needs root.

    Raises:
        ObjectRefusedError: it does not accept the program.
    """
    rodata = fabric_rodata(resolve_topology(SPECS[kind]))
    with BpfObject(OBJECTS_DIR / f"{program}.bpf.o", rodata=rodata) as loaded:
        return loaded.verified_instructions()


def verifier_costs() -> Costs:
    """`verified_instructions` of all programs in all kinds of labs that differ for them."""
    return {
        program: {kind: verified_instructions(program, kind) for kind in _kinds(program)}
        for program in PROGRAMS
    }


def _kinds(program: str) -> list[str]:
    """Those of SPECS but for algorithms, where the object includes none."""
    has_algorithms = "cc_algorithms.h" in (OBJECTS_DIR / f"{program}.bpf.d").read_text()
    return [kind for kind in SPECS if has_algorithms or not kind.startswith(("cc ", "ev "))]


def beyond_budget(verified: Costs) -> list[str]:
    """Which of *verified*, `verifier_costs`, is more than the project allows itself."""
    return [
        f"{program}, {kind}: {count} instructions, {BUDGET} allowed"
        for program, kinds in verified.items()
        for kind, count in kinds.items()
        if count >= BUDGET
    ]


def growth(kept: dict[str, Any], compiler: str, objects: Costs, series: str, verified: Costs) -> list[str]:
    """Figures that have grown by more than GROWTH_MAX since *kept*; empty with another compiler than its.

    Args:
        kept: as `read_kept` gives it.
        compiler: that made the objects.
        objects: `object_costs`.
        series: of the kernel that *verified* is of.
        verified: `verifier_costs`; empty if it was not measured.
    """
    if kept["compiler"] != compiler:
        return []
    found = []
    for program, costs in objects.items():
        before, now = kept["objects"][program]["instructions"], costs["instructions"]
        if now > before * (1 + GROWTH_MAX):
            found.append(f"{program}: {now} instructions, {before} when budgets.json was written")
    known = kept["kernels"].get(series, {}).get("verified", {})
    for program, kinds in verified.items():
        for kind, now in kinds.items():
            before = known.get(program, {}).get(kind)
            if before is not None and now > before + GROWTH_MAX * BUDGET:
                found.append(
                    f"{program}, {kind}: Linux {series} goes through {now} instructions, {before} before"
                )
    return found


def read_kept() -> dict[str, Any]:
    """The content of budgets.json: `compiler`, `objects`, and by series `kernels`, of `trial.try_kernel`."""
    kept: dict[str, Any] = json.loads(KEPT.read_text())
    return kept


def write_kept(trials: dict[str, Any]) -> dict[str, Any]:
    """Writes *trials*, by series, and the objects' costs into budgets.json; the rest stays. Returns all."""
    kept = read_kept() if KEPT.exists() else {"kernels": {}}
    kept = {
        "compiler": compiler(),
        "objects": object_costs(),
        "kernels": dict(sorted((kept["kernels"] | trials).items(), key=lambda item: _by_number(item[0]))),
    }
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return kept


def compiler() -> str:
    """The major version of clang."""
    said = subprocess.run(
        [os.environ.get("CLANG", "clang"), "--version"], capture_output=True, text=True, check=True
    )
    major: str = re.findall(r"clang version (\d+)", said.stdout)[0]
    return major


def running_series() -> str:
    return ".".join(os.uname().release.split(".")[:2])


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def _by_number(series: str) -> list[int]:
    return [int(number) for number in series.split(".")]
