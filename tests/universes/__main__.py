"""Random universes: python -m tests.universes --seeds 100 [--first 1] [--jobs 2]. A failure is a number."""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.universes.universe import run_universe


def main() -> int:
    """Exit status: 1 when a universe was bad."""
    parser = argparse.ArgumentParser(prog="python -m tests.universes", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first number")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    bad, time_ns, events = 0, 0, 0
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        for seed, outcome in zip(seeds, pool.map(run_universe, seeds), strict=True):
            time_ns += outcome.time_ns
            events += outcome.events
            if outcome.failures:
                bad += 1
                sys.stdout.write(f"universe {seed}: {'; '.join(outcome.failures)}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{len(seeds)} universes, {bad} bad, {time_ns / 1e9:.1f} s simulated, {events} events\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
