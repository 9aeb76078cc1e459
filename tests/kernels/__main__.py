"""Programs and kernels: python -m tests.kernels {check,record,try,run}.

check    what has grown since budgets.json was written, and what Linux 6.1 would refuse; as root by loading
         too
record   budgets.json again, for the objects and, as root, for the running kernel
try      tries the running kernel and prints what came of it (JSON)
run      tries several kernels, and writes budgets.json and docs/reference/kernels.md
"""

import argparse
import json
import os
import sys
from contextlib import redirect_stdout

from mrc_testbed.errors import TestbedError
from tests.kernels import budget
from tests.kernels.guest import find_kernel, run_in_guest
from tests.kernels.page import PAGE, render
from tests.kernels.trial import PARTS, TESTS, try_kernel

RUNNING = "running"
TRIED_BY_DEFAULT = ("6.1", "6.12", RUNNING)
GUEST_S = 6 * 3600


def check() -> None:
    """Exits with 1 if a rule is broken, a cost is beyond the budget or has grown."""
    verified = budget.verifier_costs() if os.geteuid() == 0 else {}
    kept, compiler, series = budget.read_kept(), budget.compiler(), budget.running_series()
    found = budget.broken_rules(kept) + budget.beyond_budget(verified)
    found += budget.growth(kept, compiler, budget.object_costs(), series, verified)
    if found:
        print(*found, sep="\n", file=sys.stderr)
        sys.exit("if it is meant: `sudo make budgets`; `sudo make kernels` tries the other kernels too")


def record() -> None:
    """Writes what the objects cost, and what the running kernel goes through."""
    trials = {}
    if os.geteuid() == 0:
        series = budget.running_series()
        known = budget.read_kept()["kernels"].get(series, {})
        trials[series] = known | try_kernel(["load"], [])
    PAGE.write_text(render(budget.write_kept(trials)))


def run(kernels: list[str], parts: list[str], tests: list[str], *, is_kept: bool) -> None:
    """Tries *kernels* one after the other; what each one does is written at once."""
    for name in kernels:
        print(f"== {name}", flush=True)
        if name == RUNNING:
            with redirect_stdout(sys.stderr):
                found = try_kernel(parts, tests)
        else:
            arguments = ["-m", "tests.kernels", "try", "--parts", *parts, "--tests", *tests]
            found = run_in_guest(find_kernel(name), arguments, timeout_s=GUEST_S)
        print(json.dumps(found, indent=1), flush=True)
        series = ".".join(found["release"].split(".")[:2])
        verified = found.get("verified", {})
        over = budget.beyond_budget(verified)
        if not is_kept:
            over += budget.growth(budget.read_kept(), budget.compiler(), {}, series, verified)
        if over:
            sys.exit("\n".join(over))
        if is_kept:
            known = budget.read_kept()["kernels"].get(series, {})
            PAGE.write_text(render(budget.write_kept({series: known | found})))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=("check", "record", "try", "run"))
    parser.add_argument(
        "--kernels", nargs="+", default=TRIED_BY_DEFAULT, help="series, `running`, or paths of bzImages"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--tests", nargs="*", default=TESTS, help="files and folders for pytest")
    parser.add_argument("--keep", action="store_true", help="run: write what came of it")
    arguments = parser.parse_args()
    try:
        if arguments.what == "check":
            check()
        elif arguments.what == "record":
            record()
        elif arguments.what == "try":
            with redirect_stdout(sys.stderr):
                found = try_kernel(arguments.parts, arguments.tests)
            print(json.dumps(found))
        else:
            run(arguments.kernels, arguments.parts, arguments.tests, is_kept=arguments.keep)
    except (AssertionError, TestbedError) as error:
        sys.exit(str(error))


main()
