"""Random universes in virtual time; docs/explanation/simulation-testing.md.

    python -m tests.universes --seeds 1000 [--from 1] [--jobs 2]   so many; a failure is a number
    python -m tests.universes --plan FILE ...                      plans of the corpus, or any scenario file

What fails is shrunk and kept in the corpus, which `make test` runs.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tests.universes.judging import CORPUS, judge_plan, judge_seed


def main() -> int:
    """Exit status: 1 when a universe was bad."""
    arguments = _parser().parse_args()
    judge_one = judge_plan if arguments.plan else partial(judge_seed, arguments.corpus)
    of = arguments.plan or range(arguments.first, arguments.first + arguments.seeds)
    count, bad, time_ns, events = 0, 0, 0, 0
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        for name, outcome, kept in pool.map(judge_one, of):
            count, time_ns, events = count + 1, time_ns + outcome.time_ns, events + outcome.events
            if outcome.failures:
                bad += 1
                where = f"; shrunk: {kept}" if kept else ""
                sys.stdout.write(f"{name}: {'; '.join(map(str, outcome.failures))}{where}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{count} universes, {bad} bad, {time_ns / 1e9:.1f} s simulated, {events} events\n")
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.universes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: %(default)s)")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: %(default)s)")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="where shrunk plans go")
    parser.add_argument("--plan", type=Path, nargs="+", help="scenario files in place of numbers")
    return parser


if __name__ == "__main__":
    sys.exit(main())
