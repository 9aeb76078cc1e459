"""The verifier's instructions for each program, by kind of fabric, and the budget left.

It does not depend on the machine, only on the kernel and the compiler. Beside it is what other kernels went
through when they were last tried (`make kernels`).
"""

from collections.abc import Iterator

from benchmarks.figure import Figure
from tests.kernels import budget


def run() -> Iterator[Figure]:
    target = f"< {budget.BUDGET:,}"
    running = budget.running_series()
    tried = {series: trial for series, trial in budget.read_kept()["kernels"].items() if series != running}
    for program in budget.PROGRAMS:
        for kind in budget.SPECS:
            count = budget.verified_instructions(program, kind)
            yield Figure("verifier", f"{running}: {program}, {kind}", "instruction", (count,), target)
            for series, trial in tried.items():
                count = trial["verified"][program][kind]
                title = f"{series} on {trial['date']}: {program}, {kind}"
                yield Figure("verifier", title, "instruction", (count,), target)
