"""docs/reference/kernels.md, of what budgets.json holds."""

from pathlib import Path
from typing import Any, Final

from tests.kernels.budget import BUDGET, STACK_BUDGET_BYTES
from tests.kernels.static_rules import STACK_LIMIT_BYTES

PAGE: Final = Path(__file__).parents[2] / "docs/reference/kernels.md"

_TEXT: Final = """\
# Kernels

Written by `sudo make kernels`, which boots Debian's kernels in QEMU, on Debian 12 and without KVM: do not
edit. `KERNELS="6.1 running"` chooses, `KERNELS=path/to/bzImage` boots another (virtio-blk, ext4 and veth
built in).

Under each kernel all programs are loaded in all forwarding modes; a lab without and one with a port rate
goes through `up`, a write compared byte for byte, a flapping link, a capture, and `down`; tests/bpf run. A
guest without KVM is tens of times slower than the machine, so nothing in it is about time.

{kernels}

Ubuntu 24.04's 6.8 lies between two of them: it is expected to work and has not been tried.

## Instructions

What the verifier goes through in each program, the most of all kinds of labs. A kernel allows a million,
the project {budget:,}. `python -m benchmarks verifier` prints them for the running kernel.

{verified}

## Objects

Made by clang {compiler}. Linux 6.1 lets a chain of calls have {limit} bytes of stack and counts every
function's in units of 32; the project allows {stack}. `make check` says when an object grows by more than 5
%, or what the verifier goes through by more than 5 % of the project's budget.

{objects}
"""


def render(kept: dict[str, Any]) -> str:
    """The page of *kept*, which is as budgets.json holds it."""
    kernels = kept["kernels"]
    programs = kept["objects"]
    return _TEXT.format(
        budget=BUDGET,
        compiler=kept["compiler"],
        limit=STACK_LIMIT_BYTES,
        stack=STACK_BUDGET_BYTES,
        kernels=_table(
            ["kernel", "tried on", "programs", "lab", "tests"],
            [[trial["release"], trial["date"], *_outcome(trial)] for trial in kernels.values()],
        ),
        verified=_table(
            ["program", *kernels],
            [[program, *(_most(trial, program) for trial in kernels.values())] for program in programs],
        ),
        objects=_table(
            ["program", "instructions", "stack, bytes"],
            [
                [name, f"{costs['instructions']:,}", str(costs["stack_bytes"])]
                for name, costs in programs.items()
            ],
        ),
    )


def _outcome(trial: dict[str, Any]) -> list[str]:
    tests = trial.get("tests")
    return [
        f"all {len(trial['verified'])} load" if "verified" in trial else "not tried",
        "; ".join(f"{kind}: {steps}" for kind, steps in trial.get("smoke", {}).items()) or "not tried",
        f"{tests['of']}: {tests['result']}" if tests else "not run",
    ]


def _most(trial: dict[str, Any], program: str) -> str:
    counts = trial.get("verified", {}).get(program)
    return f"{max(counts.values()):,}" if counts else "-"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
