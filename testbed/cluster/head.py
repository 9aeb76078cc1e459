"""The head of a cluster: sends runs to its workers, takes what comes back into the campaign's folder."""

import logging
import queue
import re
import secrets
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Self

from pydantic import TypeAdapter

from mrc_testbed.agents.clock import machine_ns
from mrc_testbed.campaign.execution import error_entry
from mrc_testbed.campaign.folder import CampaignFolder, RunEntry
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.cluster.preload import MACHINES, VERSION
from mrc_testbed.cluster.worker import Delivery, Job, carry_out_here, interrupt_here
from mrc_testbed.document.latest import point_latest
from mrc_testbed.document.one_step import room_hint
from mrc_testbed.errors import PreflightError, TestbedError, UsageError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.state import RuntimeName
from mrc_testbed.metrics.capacity import Capacity

with from_extra("cluster"):
    from distributed import Client, Future, KilledWorker, Security

_CONNECT_S: Final = 10
_LOOK_S: Final = 2
"""Time between two looks at the scheduler and its workers."""

_ANSWER_S: Final = 5
_ID_BYTES: Final = 4
_ADDRESS: Final = re.compile(r"(?:tcp|tls)://[^\s/]+:\d{1,5}")
_AHEAD: Final = 2
"""Runs at a worker per run that it carries out: the way there and back takes as long as a short run."""

Progress = Callable[[str], None]

logger = logging.getLogger(__name__)


class ClusterWorkers:
    """Workers of a Dask cluster; leaving the context gives back what they have not finished.

    Args:
        client: connected to the scheduler.
        address: of the scheduler, such as tcp://head:8786.
        campaign: to which results come back.
        is_virtual: whether runs take place in virtual time.
        runtime: of labs; None: as `up` chooses on the worker.
        progress: called with what happens to the cluster.
    """

    def __init__(
        self,
        client: Client,
        address: str,
        campaign: CampaignFolder,
        *,
        is_virtual: bool,
        runtime: RuntimeName | None,
        progress: Progress,
    ) -> None:
        self._client = client
        self._address = address
        self._campaign = campaign
        self._lab = None if is_virtual else campaign.lab
        self._runtime = runtime
        self._progress = progress
        self._token = secrets.token_hex(_ID_BYTES)
        self._begun: dict[Future[Delivery], PlannedRun] = {}
        self._ended: queue.SimpleQueue[Future[Delivery]] = queue.SimpleQueue()
        self._machines: dict[str, float] = {}
        self._looked_ns: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close(timeout=_ANSWER_S)

    def room(self) -> int:
        """Return the number of runs to begin: in virtual time one more waits for each that is carried out."""
        if self._looked_ns is None or machine_ns() - self._looked_ns > _LOOK_S * 10**9:
            self._look()
        return int(sum(self._machines.values())) * (_AHEAD if self._lab is None else 1)

    def begin(self, run: PlannedRun) -> None:
        job = Job(run, self._token, self._lab, self._runtime)
        future = self._client.submit(
            carry_out_here,
            job,
            key=f"{self._token}-{run.index}-{secrets.token_hex(_ID_BYTES)}",
            pure=False,
            resources={job.resource: 1},
        )
        self._begun[future] = run
        future.add_done_callback(self._ended.put)

    def wait(self) -> Sequence[RunEntry]:
        """Wait until a run has ended, or for two seconds, and return the entries of runs that have ended.

        Raises:
            TestbedError: the scheduler is gone, or results cannot be written.
        """
        try:
            future = self._ended.get(timeout=_LOOK_S)
        except queue.Empty:
            self._look()
            return ()
        self._require_scheduler()
        run = self._begun.pop(future)
        error = future.exception()
        if isinstance(error, KilledWorker):
            lost = TestbedError(f"{error.allowed_failures + 1} workers died while they carried it out")
            return (error_entry(run, lost),)
        if error is not None:
            raise TestbedError(f"{run.key}: the worker failed: {type(error).__name__}: {error}") from error
        return (self._take(future.result()),)

    def interrupt(self) -> None:
        self._client.run(interrupt_here, self._token, on_error="ignore")

    def _look(self) -> None:
        """Look at the scheduler and its workers, and say what has changed."""
        self._require_scheduler()
        try:
            found = machines_of(self._client)
        except OSError:
            self._require_scheduler()
            logger.warning("the scheduler %s has not answered for %d s", self._address, _ANSWER_S)
            return
        is_first, self._looked_ns = self._looked_ns is None, machine_ns()
        resource = "virtual" if self._lab is None else "lab"
        machines = {name: able[resource] for name, able in found.items() if able[resource] > 0}
        for name in machines.keys() - self._machines.keys():
            about = f"{found[name]['cpu']}, Linux {found[name]['kernel']}"
            self._progress(f"worker {name}: {machines[name]:.0f} runs at a time; {about}")
        for name in self._machines.keys() - machines.keys():
            logger.warning("worker %s is gone", name)
        if not machines and (self._machines or is_first):
            logger.warning("no worker at %s has %s: waiting for one", self._address, resource)
        self._machines = machines

    def _require_scheduler(self) -> None:
        if self._client.status != "running":
            raise TestbedError(
                f"the scheduler {self._address} is gone; {len(self._begun)} begun runs are lost",
                hint="start it and its workers again, then `mrc-testbed campaign resume`",
            )

    def _take(self, delivery: Delivery) -> RunEntry:
        """Write the results of a run into the campaign's folder in one step, and return its entry."""
        entry = delivery.entry
        if entry.folder is None:
            return entry
        target = self._campaign.path / entry.folder
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as scratch:
                draft = Path(scratch) / target.name
                draft.mkdir()
                for name, content in delivery.files.items():
                    (draft / Path(name).name).write_bytes(content)
                draft.rename(target)
        except OSError as error:
            raise TestbedError(
                f"{target} cannot be written: {error.strerror}",
                hint=f"{room_hint(error)}then `mrc-testbed campaign resume` repeats it",
            ) from error
        point_latest(target)
        return entry


def machines_of(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """Return the machines of a cluster: name of the worker -> facts and resources; see `preload`.

    Raises:
        OSError: the scheduler does not answer.
    """
    found: Mapping[str, Mapping[str, Any]] = client.sync(
        getattr(client.scheduler, MACHINES), callback_timeout=_ANSWER_S
    )
    return found


def slowest_capacity(client: Client) -> Capacity | None:
    """Return the capacity of the slowest machine that has labs; None where one is not calibrated."""
    measured = [each["capacity"] for each in machines_of(client).values() if each["lab"]]
    if not measured or None in measured:
        return None
    found = [TypeAdapter(Capacity).validate_python(each) for each in measured]
    return min(found, key=lambda each: each.frame_hops_per_s)


def connect(address: str) -> Client:
    """Connect to a scheduler.

    Args:
        address: such as tcp://head:8786.

    Raises:
        UsageError: the address is none.
        PreflightError: no scheduler answers there, or one of another version.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters of it is said here
    if not _ADDRESS.fullmatch(address):
        raise UsageError(
            f"--cluster {address}: not the address of a scheduler", hint="such as tcp://head:8786"
        )
    if address.startswith("tls:") and Security().get_connection_args("client").get("ssl_context") is None:
        raise UsageError(
            f"--cluster {address}: Dask's configuration names no certificate for TLS",
            hint="docs/guide/cluster.md shows how to set it",
        )
    try:
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)
    except OSError as error:
        raise PreflightError(
            f"no scheduler answers at {address}: {error}",
            hint="start it: dask scheduler --preload mrc_testbed.cluster",
        ) from error
    own = version("mrc-testbed")
    try:
        found = client.sync(getattr(client.scheduler, VERSION), callback_timeout=_ANSWER_S)
    except AttributeError as error:
        client.close()
        raise PreflightError(
            f"the scheduler {address} was started without our preload",
            hint="start it: dask scheduler --preload mrc_testbed.cluster",
        ) from error
    if found != own:
        client.close()
        raise PreflightError(
            f"this is mrc-testbed {own}, and the scheduler {address} has {found}", hint="install the same"
        )
    return client
