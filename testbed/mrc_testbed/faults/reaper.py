"""The reaper of a lab's faults: a detached process, alive while a fault or a lease needs it.

It clears faults whose time or whose lease is over. The rules of links end by themselves, in the kernel; a
stopped host, a dead agent, a carrier, a forwarding table and denied paths need the reaper. Should it be
killed, the next command or scrape that looks at the lab's faults clears what is stale and starts another one,
and `down` removes the lab with everything in it (docs/decisions/0009).

    python -m mrc_testbed.faults.reaper LAB
"""

import fcntl
import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TextIO

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FaultError, TestbedError
from mrc_testbed.fabric.folder_watch import FolderWatch
from mrc_testbed.fabric.lock import is_held
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import ProcessIdentity, is_alive, own_identity, start_detached
from mrc_testbed.fabric.state_file import append_private
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.lab_target import LabTarget
from mrc_testbed.faults.ledger import Entry, Ledger

START_TIMEOUT_NS: Final = 60_000_000_000
_RETRY_NS: Final = 1_000_000_000
_LOCK_RETRY_S: Final = 0.01
_LOOK_NS: Final = 3600 * 1_000_000_000  # nothing depends on it: every change of the ledger wakes the reaper
_LOG: Final = "reaper.log"
_HOSTS: Final = "hosts to ask again"

logger = logging.getLogger(__name__)


def ensure_reaper(lab: str) -> None:
    """Starts the reaper of a lab unless it runs; returns when it watches the ledger.

    Call it after the entry or the lease that it is to look after has been written: a reaper that ends because
    there was nothing left to do has released its lock before that could be written.
    """
    ledger = Ledger(lab_paths(lab).faults)
    ledger.create()
    if reaper_process(ledger) is not None:
        return
    log_path = ledger.folder / _LOG
    deadline_ns = monotonic_ns() + START_TIMEOUT_NS
    with FolderWatch((ledger.folder,)) as watch:
        reaper = start_detached(lab, [sys.executable, "-m", "mrc_testbed.faults.reaper", lab], log_path)
        while reaper_process(ledger) is None:
            started = [reaper] if is_alive(reaper) else []  # one that finds another at work ends at once
            if monotonic_ns() >= deadline_ns or not (started or is_held(ledger.reaper_lock)):
                raise FaultError(f"the fault reaper did not start; its log is {log_path}")
            watch.wait(started, deadline_ns)


def reaper_process(ledger: Ledger) -> ProcessIdentity | None:
    """The reaper that watches the ledger; None when there is none."""
    try:
        text = ledger.reaper_lock.read_text()
    except FileNotFoundError:
        return None
    if not text or not is_held(ledger.reaper_lock):
        return None
    process = ProcessIdentity.from_text(text)
    return process if not process.is_local or is_alive(process) else None


def _try_lock(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Reaper:
    """Looks after the ledger of one lab."""

    def __init__(
        self, ledger: Ledger, controller: FaultController, *, clock_ns: Callable[[], int] = monotonic_ns
    ) -> None:
        self._ledger = ledger
        self._controller = controller
        self._clock_ns = clock_ns
        self._threads: dict[str, threading.Thread] = {}
        self._retry_ns: dict[str, int] = {}

    def reap(self, watch: FolderWatch) -> None:
        """Returns when the ledger is empty and no lease is left, or the lab is gone.

        The caller holds the reaper's lock file. It is deleted at the end, while the ledger is locked: who
        writes an entry afterwards finds no reaper and starts one.
        """
        while self._ledger.active_folder.is_dir():
            # Asked before reverting: a process that dies in between is watched, which ends the wait at once.
            watched = [process for process in self._leases() if is_alive(process)]
            looked_ns = self._clock_ns()
            self._revert_stale()
            with self._ledger.locked():
                if not self._ledger.entries() and not self._ledger.leases():
                    self._ledger.reaper_lock.unlink()
                    return
            ends_ns = [entry.schedule.end_ns for entry in self._ledger.entries().values()]
            deadlines = [end_ns for end_ns in ends_ns if end_ns is not None and end_ns > looked_ns]
            watch.wait(watched, min((looked_ns + _LOOK_NS, *deadlines, *self._retry_ns.values())))

    def _leases(self) -> set[ProcessIdentity]:
        """Processes whose end matters."""
        entries = self._ledger.entries().values()
        return {*self._ledger.leases(), *(entry.lease for entry in entries if entry.lease is not None)}

    def _revert_stale(self) -> None:
        for process in self._ledger.leases():
            if not is_alive(process):
                self._ledger.end_lease(process)
        self._retry_ns = {key: due_ns for key, due_ns in self._retry_ns.items() if due_ns > self._clock_ns()}
        for entry in reversed(self._controller.stale_entries()):
            if entry.fault.asks_hosts:
                self._in_thread(entry.fault.fault_id, partial(self._revert, entry))
            elif entry.fault.fault_id not in self._retry_ns:
                self._revert(entry)
        if self._controller.entries_to_ask_again():
            self._in_thread(_HOSTS, self._ask_again)

    def _in_thread(self, key: str, work: Callable[[], None]) -> None:
        """Hosts are asked in threads: one that does not answer delays no other fault's end."""
        thread = self._threads.get(key)
        if key in self._retry_ns or (thread is not None and thread.is_alive()):
            return
        self._threads[key] = threading.Thread(target=work, name=f"revert {key}", daemon=True)
        self._threads[key].start()

    def _revert(self, entry: Entry) -> None:
        fault_id = entry.fault.fault_id
        try:
            self._controller.clear(fault_id, wait_ns=0)
            logger.info("reverted %s", fault_id)
        except FaultError:
            return  # another process has cleared it, or is about to
        except (TestbedError, OSError) as error:
            if not self._ledger.active_folder.is_dir():
                return  # the lab is gone
            logger.warning("%s; trying again", error)
            self._retry_ns[fault_id] = self._clock_ns() + _RETRY_NS

    def _ask_again(self) -> None:
        try:
            self._controller.ask_again()
        except (TestbedError, OSError) as error:
            logger.warning("%s; trying again", error)
        self._retry_ns[_HOSTS] = self._clock_ns() + _RETRY_NS


def main(arguments: list[str]) -> int:
    """Runs as the reaper of the lab that *arguments* name, or stands by for the one that runs."""
    [lab] = arguments
    os.chdir("/")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    ledger = Ledger(lab_paths(lab).faults)
    with append_private(ledger.reaper_lock) as lock:
        while not _try_lock(lock):
            if reaper_process(ledger) is not None:
                return 0
            threading.Event().wait(_LOCK_RETRY_S)  # a command that looks at a lock holds it for a moment
        with FolderWatch((ledger.active_folder, ledger.leases_folder)) as watch:
            controller = FaultController(ledger, LabTarget(lab))
            lock.truncate(0)
            lock.write(own_identity().to_text())
            lock.flush()
            os.utime(ledger.reaper_lock)  # wakes who waits for it
            try:
                Reaper(ledger, controller).reap(watch)
            except (TestbedError, OSError):
                if ledger.active_folder.is_dir():
                    raise
                logger.info("the lab is gone")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
