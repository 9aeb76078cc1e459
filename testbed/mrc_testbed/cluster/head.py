"""The head of a cluster: sends runs to its workers, takes what comes back into the campaign's folder."""

import queue
import secrets
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from mrc_testbed.bundle.bundle import HEADER, read_bundle
from mrc_testbed.campaign.execution import error_entry
from mrc_testbed.campaign.folder import CampaignFolder, RunEntry, require_inside
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.cluster.connection import LOOK_S, Cluster, Progress, Resource
from mrc_testbed.cluster.worker import RunAssignment, call_here, carry_out_here, interrupt_here
from mrc_testbed.document.one_step import point_latest, writing
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.state import RuntimeName
from mrc_testbed.scenario.measure.verdict import Status

with from_extra("cluster"):
    import distributed

_ID_BYTES: Final = 4
_ENTRY: Final = TypeAdapter(RunEntry)
_AHEAD: Final = 2
"""Tasks at a worker per task that it carries out: the way there and back takes as long as a short run."""


class ClusterWorkers:
    """Workers of a cluster, for the runs of a campaign.

    Args:
        runtime: of labs; None: as `up` chooses on the worker.
    """

    def __init__(
        self,
        cluster: Cluster,
        campaign: CampaignFolder,
        *,
        is_virtual: bool,
        runtime: RuntimeName | None,
        progress: Progress,
    ) -> None:
        self._cluster = cluster
        self._campaign = campaign
        self._lab = None if is_virtual else campaign.lab
        self._resource: Resource = "virtual" if is_virtual else "lab"
        self._runtime = runtime
        self._progress = progress
        self._token = secrets.token_hex(_ID_BYTES)
        self._begun: dict[distributed.Future[bytes | str], PlannedRun] = {}
        self._ended: queue.SimpleQueue[distributed.Future[bytes | str]] = queue.SimpleQueue()

    def room(self) -> int:
        """Return the number of runs to begin: in virtual time one more waits for each that is carried out."""
        return self._cluster.room(self._resource, self._progress) * (_AHEAD if self._lab is None else 1)

    def begin(self, run: PlannedRun) -> None:
        future = self._cluster.client.submit(
            carry_out_here,
            RunAssignment(run, self._token, self._lab, self._runtime),
            key=f"{self._token}-{run.index}-{secrets.token_hex(_ID_BYTES)}",
            pure=False,
            resources={self._resource: 1},
        )
        self._begun[future] = run
        future.add_done_callback(self._ended.put)

    def wait(self) -> Sequence[RunEntry]:
        """Wait until a run has ended, or for two seconds, and return the entries of runs that have ended."""
        try:
            future = self._ended.get(timeout=LOOK_S)
        except queue.Empty:
            self._cluster.look(self._resource, self._progress)
            return ()
        self._cluster.require_scheduler()
        run = self._begun.pop(future)
        try:
            error = future.exception()
            answer = future.result() if error is None else None
        except (OSError, CancelledError) as gone:  # on the way to its result
            raise self._cluster.gone() from gone
        if error is not None:  # Dask's own, as ours come as text: the pickle, not loaded
            if "KilledWorker" in str(error):
                return (error_entry(run, TestbedError("the workers died that carried it out")),)
            raise TestbedError(f"{run.key}: the worker failed; its log says why")
        if not isinstance(answer, bytes):
            raise TestbedError(f"{run.key}: the worker failed: {answer}")
        try:
            return (self._take(run, answer),)
        except (UsageError, ValueError) as error:
            raise TestbedError(
                f"{run.key}: what came back is refused: {str(error).splitlines()[0]}"
            ) from error

    def interrupt(self) -> None:
        try:
            self._cluster.client.run(interrupt_here, self._token, on_error="ignore")
        except Exception as error:
            raise TestbedError(f"the runs on the workers cannot be ended: {error}") from error

    def _take(self, run: PlannedRun, delivery: bytes) -> RunEntry:
        """Write the results of a run into the campaign's folder in one step, and return its entry.

        Raises:
            UsageError, ValueError: it is no delivery of this run.
        """
        line, _, bundle = delivery.partition(b"\n")
        entry = _ENTRY.validate_json(line)
        if entry.key != run.key:
            raise UsageError(f"the results of {entry.key!r}")
        Status(entry.status)
        if entry.folder is None:
            return entry
        require_inside(self._campaign.path, entry)
        target = self._campaign.path / entry.folder
        with writing(target, "then `mrc-testbed campaign resume` repeats it"):
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as scratch:
                packed = Path(scratch) / "bundle"
                packed.write_bytes(bundle)
                found = read_bundle(packed, Path(scratch))
                if found.header.holds != "run":
                    raise UsageError("a bundle of a campaign")
                (found.folder / HEADER).unlink()
                found.folder.rename(target)
        point_latest(target)
        return entry


class ClusterCalls:
    """Workers of a cluster, for calls in virtual time whose results are small."""

    def __init__(self, cluster: Cluster, progress: Progress) -> None:
        self._cluster = cluster
        self._progress = progress
        self._executor = cluster.client.get_executor(pure=False, resources={"virtual": 1})

    def room(self) -> int:
        """Return the number of calls to begin."""
        return self._cluster.room("virtual", self._progress) * _AHEAD

    def submit(self, function: Callable[..., Any], *arguments: object) -> Future[Any]:
        """Begin a call in a process of a worker; it is cancelled when the scheduler is gone."""
        found: Future[Any] = self._executor.submit(call_here, function, *arguments)
        return found
