"""docs/reference/kernels.md, of what budgets.json holds."""

from pathlib import Path
from typing import Any, Final

from tests.kernels.budget import BUDGET, STACK_BUDGET_BYTES
from tests.kernels.static_rules import STACK_LIMIT_BYTES

PAGE: Final = Path(__file__).parents[2] / "docs/reference/kernels.md"

_TEXT: Final = """\
# Kernels

This page lists the kernels on which the project has been tried. `sudo make kernels` boots Debian's kernels in
QEMU, on Debian 12 and without KVM, and writes this page: do not edit it. `KERNELS="6.1 running"` selects
kernels; `KERNELS=path/to/bzImage` boots another one (with virtio-blk, ext4 and veth built in).

On each kernel it loads all programs in all forwarding modes. It runs labs with and without a port rate:
`up`, a write compared byte for byte, a flapping link, a capture, `down`. It runs tests/bpf. A guest without
KVM is tens of times slower than the machine, so it measures no times.

{kernels}

Ubuntu 24.04's 6.8 is between two of these kernels: it should work, but has not been tried.

## Instructions

Instructions that the verifier processes in each program, maximum over all kinds of labs. A kernel allows a
million, the project {budget:,}. `python -m benchmarks verifier` prints them for the running kernel.

{verified}

## Objects

The compiler is clang {compiler}. Linux 6.1 limits the stack of a call chain to {limit} bytes and rounds every
function's stack up to units of 32; the project allows {stack}. `make check` reports an object that grows by
more than 5 %, and a program whose verified instructions grow by more than 5 % of the project's budget.

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
