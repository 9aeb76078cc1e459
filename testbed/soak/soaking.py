"""Universes of one number after another, in processes of their own, for as long as one likes."""

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from mrc_testbed.campaign.workers import begin_process
from mrc_testbed.soak.judging import Judged, judge_seed
from mrc_testbed.soak.violation import Violation, keep_violation

_LOOK_EVERY_S: Final = 0.5
"""Time from one look at the end to the next."""


@dataclass(slots=True)
class Soak:
    """The state of a soak.

    Attributes:
        universes: how many were judged.
        bad: how many of them failed.
        time_ns: simulated.
        events: of the simulation.
        violations: those that failed, once they are kept.
    """

    universes: int = 0
    bad: int = 0
    time_ns: int = 0
    events: int = 0
    violations: list[Violation] = field(default_factory=list)

    def count(self, judged: Judged) -> None:
        """Add a universe."""
        self.universes += 1
        self.bad += bool(judged.failures)
        self.time_ns += judged.time_ns
        self.events += judged.events


def soak(
    seeds: Iterable[int],
    into: Path,
    *,
    jobs: int = 1,
    is_over: Callable[[], bool] = lambda: False,
    is_stopped: Callable[[], bool] = lambda: False,
    say: Callable[[Soak], object] = lambda _: None,
) -> Soak:
    """Judge the universes of numbers, and keep those that fail.

    Args:
        seeds: the numbers.
        into: folder for what fails; made when something does.
        jobs: number of processes.
        is_over: asked again and again; no universe begins once it is so.
        is_stopped: likewise; and then violations are kept as they are, without shrinking them further.
        say: called again and again with the state.

    Raises:
        TestbedError: virtual time is not built, or a violation cannot be written.
    """
    found, numbers = Soak(), iter(seeds)
    # not by fork: the library keeps its lab in globals
    context = multiprocessing.get_context("spawn")
    hurry = context.Event()
    with ProcessPoolExecutor(jobs, context, _begin, (hurry,)) as pool:
        begun: set[Future[Judged | Violation]] = set()
        try:
            while True:
                if is_stopped():
                    hurry.set()
                while len(begun) < 2 * jobs and not hurry.is_set() and not is_over():
                    if (seed := next(numbers, None)) is None:
                        break
                    begun.add(pool.submit(_judge, seed))
                if not begun:
                    return found
                done, begun = wait(begun, _LOOK_EVERY_S, FIRST_COMPLETED)
                for future in done:
                    match future.result():
                        case Judged() as judged:
                            found.count(judged)
                            if judged.failures:
                                begun.add(pool.submit(_keep, judged, into))
                        case Violation() as violation:
                            found.violations.append(violation)
                say(found)
        finally:
            hurry.set()


_HURRY: list[Event] = []
"""In a process that carries universes out: set once it is to shrink nothing more."""


def _begin(hurry: Event) -> None:
    begin_process()
    _HURRY[:] = [hurry]


def _judge(seed: int) -> Judged | Violation:
    return judge_seed(seed)


def _keep(judged: Judged, into: Path) -> Judged | Violation:
    return keep_violation(judged, into, lambda: any(each.is_set() for each in _HURRY))
