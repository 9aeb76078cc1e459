"""A run on a worker: in a process of its own, in a folder of its own, which goes back to the head whole."""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeVar, cast

from mrc_testbed.bundle.bundle import write_bundle
from mrc_testbed.campaign.execution import error_entry, finished_entry, live_stage, virtual_stage
from mrc_testbed.campaign.folder import RunEntry, runs_of
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.workers import run_processes
from mrc_testbed.document.one_step import lacks_room
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import Interrupted, TestbedError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.state import RuntimeName

with from_extra("cluster"):
    from distributed import Reschedule, Worker, WorkerPlugin, get_worker

Result = TypeVar("Result")

PLUGIN: Final = "mrc-testbed"
_LEVEL: Final = 1
"""Compression: a run of a second does not wait for a better one."""
_PID: Final = "pid"
_STOP: Final = "stop"
"""File in a run's folder: it is to end early. Until its lab is up, a signal does nothing."""


@dataclass(frozen=True, slots=True)
class RunAssignment:
    run: PlannedRun  # the run
    campaign: str  # token of the campaign's execution by one head
    lab: str | None = None  # name of the lab for it; None in virtual time
    runtime: RuntimeName | None = None  # of this lab; None: as `up` chooses


class DiskFullError(Exception):
    """The disk of the worker is full."""


class RunPlugin(WorkerPlugin):
    """The processes of a worker, and the runs in them."""

    name = PLUGIN

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = run_processes(count)
        self._folders: dict[Path, str] = {}
        self._interrupted: set[str] = set()

    def setup(self, worker: Worker) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()

    def teardown(self, worker: Worker) -> None:
        del worker
        self._pool.shutdown(wait=False, cancel_futures=True)

    def carry_out(self, job: RunAssignment) -> bytes:
        """Carry a job out and return its `delivery`; called in a thread of the worker.

        Raises:
            Reschedule: it has to go to another worker, as this one's disk is full.
        """
        try:
            with tempfile.TemporaryDirectory(
                prefix="mrc-testbed-run-", dir=self._worker.local_directory, ignore_cleanup_errors=True
            ) as name:
                folder = Path(name)
                self._folders[folder] = job.campaign
                try:
                    if job.campaign in self._interrupted:
                        return delivery(error_entry(job.run, Interrupted("it had not begun")))
                    return self.call(carry_out, job, folder)
                finally:
                    del self._folders[folder]
        except BrokenProcessPool:
            killed = TestbedError(f"its process on worker {self._worker.name} was killed")
            return delivery(error_entry(job.run, killed))
        except (DiskFullError, OSError) as error:
            if not isinstance(error, DiskFullError) and not lacks_room(error):
                raise
            self._withdraw(f"{self._worker.local_directory}: no space left")
            raise Reschedule from error

    def call(self, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a function in a process of its own; called in a thread of the worker.

        Raises:
            BrokenProcessPool: a process was killed; the next call gets new ones.
        """
        pool = self._pool
        try:
            return pool.submit(function, *arguments).result()
        except BrokenProcessPool:
            if pool is self._pool:
                self._pool = run_processes(self._count)
            raise

    def interrupt(self, campaign: str) -> None:
        """End the runs of a campaign early; called in the worker's event loop."""
        self._interrupted.add(campaign)
        for folder in [folder for folder, of in list(self._folders.items()) if of == campaign]:
            with contextlib.suppress(FileNotFoundError, ValueError):  # it ends, or begins and looks at _STOP
                (folder / _STOP).touch()
                os.kill(int((folder / _PID).read_text(encoding="ascii")), signal.SIGINT)

    def _withdraw(self, reason: str) -> None:
        """End the worker, which gives back the runs that it has not begun."""
        sys.stderr.write(f"{self._worker.name}: {reason}; it ends\n")
        asyncio.run_coroutine_threadsafe(self._worker.close_gracefully(restart=False), self._loop)


def carry_out_here(job: RunAssignment) -> bytes | str:
    """Carry a job out on the worker that Dask has given it to; see `RunPlugin.carry_out` and `_in_words`."""
    return _in_words(cast("RunPlugin", get_worker().plugins[PLUGIN]).carry_out, job)


def call_here(function: Callable[..., bytes], *arguments: object) -> bytes | str:
    """Call a function in a process of the worker that Dask has given the call to; see `_in_words`."""
    return _in_words(cast("RunPlugin", get_worker().plugins[PLUGIN]).call, function, *arguments)


def _in_words(call: Callable[..., bytes], *arguments: object) -> bytes | str:
    """Result of a call, or its exception as text: the head takes no object of a worker."""
    try:
        return call(*arguments)
    except Reschedule:
        raise
    except Exception as error:  # noqa: BLE001 - the head ends with it
        return f"{type(error).__name__}: {error}"


def interrupt_here(campaign: str, dask_worker: Worker) -> None:
    """End the runs of a campaign on a worker early; Dask passes the worker."""
    cast("RunPlugin", dask_worker.plugins[PLUGIN]).interrupt(campaign)


def delivery(entry: RunEntry, bundle: bytes = b"") -> bytes:
    """A run as it comes back: its entry as a line of JSON, then the bundle of its results if it has some."""
    return json.dumps(asdict(entry)).encode() + b"\n" + bundle


def carry_out(job: RunAssignment, folder: Path) -> bytes:
    """Carry a job out in this process, its results below *folder*, and return its `delivery`."""
    (folder / _PID).write_text(str(os.getpid()), encoding="ascii")
    stage = (
        virtual_stage(None)
        if job.lab is None
        else live_stage(name=job.lab, runtime=job.runtime, force=None, progress=lambda _: None)
    )
    try:
        _require_wanted(folder)
        with stage(job.run.plan.topology) as run_on_lab:
            _require_wanted(folder)
            finished = run_on_lab(job.run, runs_of(folder), lambda _: None)
        bundle = write_bundle(finished.folder, folder / "bundle", level=_LEVEL)
        return delivery(finished_entry(job.run, finished, folder), read_result(bundle))
    except TestbedError as error:
        if lacks_room(error.__cause__):
            raise DiskFullError(str(error)) from error
        return delivery(error_entry(job.run, error))
    finally:
        (folder / _PID).unlink()


def _require_wanted(folder: Path) -> None:
    if (folder / _STOP).exists():
        raise Interrupted("it had not begun")
