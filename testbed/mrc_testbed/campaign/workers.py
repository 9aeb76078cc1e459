"""Workers that carry out the runs of a campaign side by side; those of this machine are processes."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection
from pathlib import Path
from typing import Final, Protocol

from mrc_agents.closing import Closing
from mrc_testbed.campaign.folder import RunEntry
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.errors import TestbedError

SPAWN: Final = multiprocessing.get_context("spawn")
"""Start of processes for runs, and what they share. They are not forked: the library of virtual time keeps
its lab in globals, and threads of this process may hold locks.
"""

CarryOut = Callable[[PlannedRun, Path], RunEntry]
"""Carries out a run of the campaign in a folder, in a process of its own; returns the journal's entry."""


class Workers(Protocol):
    """Places for runs; results are in the campaign's folder when `wait` returns their entries."""

    def room(self) -> int:
        """Return the number of runs that they carry out at a time, which may change."""

    def begin(self, run: PlannedRun) -> None:
        """Begin a run."""

    def wait(self) -> Sequence[RunEntry]:
        """Wait until a run has ended, or for some seconds, and return the entries of runs that have ended."""

    def interrupt(self) -> None:
        """End begun runs early; `wait` returns their entries too."""


class LocalWorkers(Closing):
    """Processes of this machine; leaving the context waits for their runs."""

    def __init__(self, campaign: Path, jobs: int, carry_out: CarryOut) -> None:
        self._campaign = campaign
        self._jobs = jobs
        self._carry_out = carry_out
        self._pool = run_processes(jobs)
        self._begun: set[Future[RunEntry]] = set()

    def close(self) -> None:
        self._pool.shutdown()

    def room(self) -> int:
        return self._jobs

    def begin(self, run: PlannedRun) -> None:
        with kills_in_words():
            self._begun.add(self._pool.submit(self._carry_out, run, self._campaign))

    def wait(self) -> Sequence[RunEntry]:
        done, self._begun = wait(self._begun, return_when=FIRST_COMPLETED)
        with kills_in_words():
            return [future.result() for future in done]

    def interrupt(self) -> None:
        """Do nothing: the terminal's signal reaches the processes too."""


@contextmanager
def kills_in_words(
    hint: str = "`mrc-testbed campaign resume`, with fewer --jobs",
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Raise TestbedError if a process was killed, unless all is stopped, by a signal that it got too."""
    try:
        yield
    except BrokenProcessPool as error:
        if not is_stopped():
            why = "a process that carried out a run was killed, perhaps for want of memory"
            raise TestbedError(why, hint=hint) from error


def begin_process() -> None:
    """Prepare a process that carries out runs: between two of them only its parent ends it."""
    for number in (signal.SIGINT, signal.SIGQUIT):  # of a terminal
        signal.signal(number, signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored, it would be ignored during runs too
        signal.signal(signal.SIGHUP, lambda *_: None)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent is killed, which leaves the queue between them open."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)


def run_processes(
    count: int, begin: Callable[..., None] = begin_process, *arguments: object
) -> ProcessPoolExecutor:
    """Return *count* processes for runs, which end with this one, however it ends.

    Args:
        begin: called in each of them with *arguments* first; calls `begin_process`.
    """
    return ProcessPoolExecutor(count, SPAWN, begin, arguments)
