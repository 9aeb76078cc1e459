"""The keeper of a lab's faults: a detached process, alive while a fault or a runner needs looking after.

It reverts faults whose time is over or whose runner died, and switches flaps added by hand. It is not
the only safety: a stale entry that no keeper reverted is reverted by the next command that looks at the lab's
faults, and `down` removes the lab with everything in it.

    python -m testbed.faults.keeper LAB
"""

import fcntl
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol, TextIO

from testbed.errors import CleanupError, FaultError, TestbedError
from testbed.fabric.folder_watch import FolderWatch
from testbed.fabric.process import ProcessIdentity, is_alive, start_detached
from testbed.fabric.state import lab_paths
from testbed.faults.injector import Injector
from testbed.faults.lab_target import LabTarget
from testbed.faults.ledger import Entry, Ledger, Phase

START_TIMEOUT_NS: Final = 20_000_000_000
_RETRY_NS: Final = 1_000_000_000
_LOOK_NS: Final = 3600 * 1_000_000_000  # nothing depends on it: every change of the ledger wakes the keeper

logger = logging.getLogger(__name__)


def ensure_keeper(lab: str) -> None:
    """Starts the keeper of a lab unless it runs; returns when it watches the ledger.

    Call it after the entry or the owner that it is to look after has been written: a keeper that ends because
    there was nothing left to do has let go of its lock before that could be written.

    Raises:
        FaultError: it did not start within START_TIMEOUT_NS.
    """
    ledger = Ledger(lab_paths(lab).faults)
    ledger.create()
    if _is_watched(ledger):
        return
    log_path = ledger.folder / "keeper.log"
    deadline_ns = time.monotonic_ns() + START_TIMEOUT_NS
    with FolderWatch((ledger.folder,)) as watch:
        command = [sys.executable, "-m", "testbed.faults.keeper", lab]
        keeper = start_detached(lab, command, log_path)
        while not _is_watched(ledger):
            started = [keeper] if is_alive(keeper) else []  # one that finds another at work ends at once
            if time.monotonic_ns() >= deadline_ns or not (started or _is_locked(ledger)):
                raise FaultError(f"the fault keeper did not start; its log is {log_path}")
            watch.wait(started, deadline_ns)


def _try_lock(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(ledger: Ledger) -> bool:
    """Whether a keeper runs."""
    with ledger.keeper_lock.open("a") as lock:
        return not _try_lock(lock)


def _is_watched(ledger: Ledger) -> bool:
    """Whether a keeper runs and has said in its lock file that it watches the ledger."""
    with ledger.keeper_lock.open("a") as lock:
        return not _try_lock(lock) and os.fstat(lock.fileno()).st_size > 0


class Watch(Protocol):
    """How the keeper waits; `FolderWatch` on the ledger's folders."""

    def wait(self, processes: Iterable[ProcessIdentity], deadline_ns: int) -> None:
        """Returns when the ledger changed, a process ended, or *deadline_ns* (CLOCK_MONOTONIC) came."""


def keep(
    ledger: Ledger, injector: Injector, watch: Watch, clock_ns: Callable[[], int] = time.monotonic_ns
) -> None:
    """Looks after the ledger until it is empty and no runner is announced, or the lab is gone.

    The caller holds the keeper's lock file. It is deleted at the end, while the ledger is locked: who writes
    an entry afterwards finds no keeper and starts one.
    """
    rhythms: dict[tuple[str, int], _Rhythm] = {}
    while ledger.active_folder.is_dir():
        # Asked before tidying: who dies in between is watched, and that ends the wait at once.
        alive = [owner for owner in _owners(ledger) if is_alive(owner)]
        deadlines = [_tidy(ledger, injector, clock_ns)]
        entries = injector.entries()
        for entry in entries:
            deadlines.append(entry.expires_ns)
            if entry.flap is not None:
                key = entry.fault.fault_id, entry.added_ns
                if key not in rhythms:
                    rhythms[key] = _Rhythm(entry)
                deadlines.append(rhythms[key].follow(injector, clock_ns()))
        with ledger.locked():
            if not ledger.entries() and not ledger.owners():
                ledger.keeper_lock.unlink()
                return
        deadline_ns = min(ns for ns in (*deadlines, clock_ns() + _LOOK_NS) if ns is not None)
        watch.wait(alive, deadline_ns)


def _owners(ledger: Ledger) -> set[ProcessIdentity]:
    """Processes whose end matters: announced, or owner of a fault."""
    return {
        *ledger.owners(),
        *(entry.owner for entry in ledger.entries().values() if entry.owner is not None),
    }


def _tidy(ledger: Ledger, injector: Injector, clock_ns: Callable[[], int]) -> int | None:
    """Reverts what is stale and forgets dead runners; when to try again, None when all went well."""
    for owner in ledger.owners():
        if not is_alive(owner):
            ledger.unregister(owner)
    try:
        for event in injector.clear_stale():
            logger.info("reverted %s", event.fault_id)
    except CleanupError as error:
        logger.warning("%s; trying again", error)
        return clock_ns() + _RETRY_NS
    return None


class _Rhythm:
    """Where a flap is in its sequence of outages."""

    def __init__(self, entry: Entry) -> None:
        if entry.flap is None:
            raise ValueError(entry.fault.fault_id)
        length_ns = None if entry.expires_ns is None else entry.expires_ns - entry.added_ns
        self._fault_id = entry.fault.fault_id
        self._began_ns = entry.added_ns
        self._outages = entry.flap.outages(length_ns)
        self._outage: tuple[int, int] | None = next(self._outages, None)

    def follow(self, injector: Injector, time_ns: int) -> int | None:
        """Switches the flap to what it should be now; when it has to be switched next, None for never."""
        now_ns = time_ns - self._began_ns
        while self._outage is not None and self._outage[1] <= now_ns:
            self._outage = next(self._outages, None)
        is_down = self._outage is not None and self._outage[0] <= now_ns
        injector.switch(self._fault_id, Phase.ON if is_down else Phase.OFF)
        if self._outage is None:
            return None
        return self._began_ns + self._outage[1 if is_down else 0]


def main(arguments: list[str]) -> int:
    """Runs as the keeper of the lab that *arguments* name."""
    [lab] = arguments
    os.chdir("/")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    ledger = Ledger(lab_paths(lab).faults)
    with ledger.keeper_lock.open("a") as lock:
        if not _try_lock(lock):
            return 0  # another one was faster, which is as good
        lock.truncate(0)
        with FolderWatch((ledger.active_folder, ledger.owners_folder)) as watch:
            injector = Injector(ledger, LabTarget(lab))
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            os.utime(ledger.keeper_lock)  # wakes who waits for it
            try:
                keep(ledger, injector, watch)
            except (TestbedError, OSError):
                if ledger.active_folder.is_dir():
                    raise
                logger.info("the lab is gone")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
