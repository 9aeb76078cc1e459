"""Universes of one number after another, in processes of their own, for as long as one likes."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final, Protocol

from pydantic import ConfigDict, TypeAdapter

from mrc_testbed.campaign.workers import SPAWN, begin_process, kills_in_words, run_processes
from mrc_testbed.errors import TestbedError
from mrc_testbed.soak.universe import Judged, judge_seed
from mrc_testbed.soak.violation import Violation, keep_violation

_LOOK_EVERY_S: Final = 0.5
"""Time from one look at the end to the next."""

_JUDGED: Final = TypeAdapter(list[Judged], config=ConfigDict(defer_build=True))
_SHOWN: Final = 500
_AT_ONCE: Final = 4
"""Universes of one call to another machine: the way there and back takes as long as one."""


@dataclass(slots=True)
class Soak:
    universes: int = 0  # how many were judged
    time_ns: int = 0  # simulated
    events: int = 0  # of the simulation
    failed: list[Judged] = field(default_factory=list)  # those in which an invariant does not hold
    violations: list[Violation] = field(default_factory=list)  # the same, once they are shrunk and kept

    def count(self, judged: Judged) -> None:
        self.universes += 1
        self.time_ns += judged.time_ns
        self.events += judged.events
        if judged.failures:
            self.failed.append(judged)


@dataclass(frozen=True, slots=True)
class Control:
    """The caller's hold on a soak: functions that it calls again and again."""

    is_over: Callable[[], bool] = lambda: False  # returns True once nothing more is to begin
    is_stopped: Callable[[], bool] = lambda: False  # returns True once what is under way is to end too
    report: Callable[[], object] = lambda: None  # shows the state


UNLIMITED: Final = Control()


class Judges(Protocol):
    """Processes of other machines."""

    def room(self) -> int:
        """Return the number of calls to begin."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Begin a call that returns bytes, or text if it fails; it is cancelled when they are gone."""


def soak(
    found: Soak,
    seeds: Iterable[int],
    into: Path,
    control: Control = UNLIMITED,
    *,
    jobs: int = 1,
    judges: Judges | None = None,
) -> None:
    """Judge the universes of numbers, and keep those that fail.

    Args:
        found: the state, which says what was found also after an error.
        into: folder for what fails; made when something does.
        control: of the search; once it is stopped, violations are shrunk no further.
        jobs: number of processes of this machine.
        judges: judge in their place; those of this machine only shrink and keep what fails.
    """
    numbers, at_once = iter(seeds), 1 if judges is None else _AT_ONCE
    hurry = SPAWN.Event()
    with kills_in_words("fewer --jobs", control.is_stopped), run_processes(jobs, _begin, hurry) as pool:
        begun: set[Future[bytes | str | Violation]] = set()
        try:
            while True:
                if control.is_stopped():
                    hurry.set()
                room = 2 * jobs if judges is None else judges.room()
                is_ended = hurry.is_set() or (not room and control.is_over())
                while not is_ended and len(begun) < room:
                    chosen = () if control.is_over() else tuple(islice(numbers, at_once))
                    if chosen:
                        begun.add((judges or pool).submit(judge_seeds, chosen))
                    is_ended = not chosen
                if is_ended and not begun:
                    return
                if not begun:
                    hurry.wait(_LOOK_EVERY_S)  # there is no judge yet
                done, begun = wait(begun, _LOOK_EVERY_S, FIRST_COMPLETED)
                for future in done:
                    match future.result():
                        case Violation() as violation:
                            found.violations.append(violation)
                        case sent:
                            judged = _load_judged(sent)
                            for each in judged:
                                found.count(each)
                            begun |= {pool.submit(_keep, each, into) for each in judged if each.failures}
                control.report()
        except CancelledError as error:
            raise TestbedError("the cluster is gone, and with it the universes that it had begun") from error
        finally:
            hurry.set()


_HURRY: list[Event] = []
"""In a process that carries universes out: set once it is to shrink nothing more."""


def _begin(hurry: Event) -> None:
    begin_process()
    _HURRY[:] = [hurry]


def judge_seeds(seeds: Sequence[int]) -> bytes:
    """Judge the universes of numbers; return the verdicts as JSON, which other machines read."""
    return _JUDGED.dump_json([judge_seed(seed) for seed in seeds])


def _load_judged(sent: bytes | str) -> list[Judged]:
    try:
        return _JUDGED.validate_json(sent)
    except ValueError as error:
        raise TestbedError(f"no verdicts on universes: {str(sent)[:_SHOWN]}") from error


def _keep(judged: Judged, into: Path) -> Violation:
    return keep_violation(judged, into, lambda: any(each.is_set() for each in _HURRY))
