"""The connection of a head to its scheduler: versions, machines, and what becomes of them."""

import logging
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from importlib.metadata import version
from traceback import walk_stack
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from mrc_agents.clock import machine_ns
from mrc_agents.closing import Closing
from mrc_testbed.cluster.preload import MACHINES, VERSION
from mrc_testbed.errors import PreflightError, TestbedError, UsageError
from mrc_testbed.extras import from_extra

_HARMLESS: Final = {("builtins", "bytes"), ("builtins", "str")}
REFUSED: Final[list["RefusedError"]] = []
"""Errors of messages to the client: after one, distributed may listen to no other."""

with from_extra("cluster"):
    from distributed import Client, Security

LOOK_S: Final = 2
"""Time between two looks at the scheduler and its workers."""

_CONNECT_S: Final = 10
_ANSWER_S: Final = 5

Progress = Callable[[str], None]
Resource = Literal["virtual", "lab"]

logger = logging.getLogger(__name__)


class RefusedError(TestbedError, TypeError):
    """An object came where a cluster sends data.

    It is a TypeError because distributed passes over a traceback that raises one.
    """

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the cluster sent an object, {name!r}, which is not unpickled here",
            hint="somebody else reaches its scheduler, or its versions of dask differ: docs/guide/cluster.md",
        )


@cache
def refuse_objects() -> None:
    """Let distributed unpickle nothing but bytes and text, until this process ends.

    It unpickles what an answer, an exception, an event or a message asks it to, whatever its `deserializers`
    are. A pickle acts through the names that it looks up. Python reports each before the look-up, as audit
    event pickle.find_class, and an exception of the hook ends it.
    """
    sys.addaudithook(_look)


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "pickle.find_class" or arguments in _HARMLESS:
        return
    frames = [frame for frame, _ in walk_stack(sys._getframe(1))]  # noqa: SLF001 - who unpickles
    modules = [str(frame.f_globals.get("__name__")) for frame in frames]
    is_own = modules[0] == "dask.tokenize"  # what it has pickled itself
    if is_own or not any(name.partition(".")[0] == "distributed" for name in modules):
        return
    refused = RefusedError(".".join(arguments))
    if "clean_exception" not in {frame.f_code.co_name for frame in frames}:  # which gives it to a future
        REFUSED.append(refused)
    raise refused


class _Machine(TypedDict):
    cpu: str
    kernel: str
    virtual: float
    lab: float


_MACHINES: Final = TypeAdapter(dict[str, _Machine])


class Cluster(Closing):
    """A scheduler and its workers; leaving the context disconnects, and gives back what is not finished.

    Args:
        address: of the scheduler, such as tcp://head:8786.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.client = _connected(address)
        self._rooms: dict[str, float] = {}
        self._looked_ns: int | None = None

    def close(self) -> None:
        _close(self.client)

    def room(self, resource: Resource, progress: Progress) -> int:
        """Return the number of tasks that the workers carry out at a time, looked at every two seconds.

        Args:
            resource: that a task takes up one of.
            progress: called with workers that have come.
        """
        if self._looked_ns is None or machine_ns() - self._looked_ns > LOOK_S * 10**9:
            self.look(resource, progress)
        return int(sum(self._rooms.values()))

    def look(self, resource: Resource, progress: Progress) -> None:
        """Look at the scheduler and its workers, and say what has changed; see `room`."""
        self.require_scheduler()
        try:
            found = _MACHINES.validate_python(_ask(self.client, MACHINES))
        except OSError:
            self.require_scheduler()
            logger.warning("the scheduler %s has not answered for %d s", self.address, _ANSWER_S)
            return
        except ValidationError as error:
            raise TestbedError(f"the scheduler {self.address} does not list machines as ours does") from error
        is_first, self._looked_ns = self._looked_ns is None, machine_ns()
        rooms = {name: each[resource] for name, each in found.items() if each[resource] > 0}
        for name in rooms.keys() - self._rooms.keys():
            about = f"{found[name]['cpu']}, Linux {found[name]['kernel']}"
            progress(f"worker {name}: {rooms[name]:.0f} runs at a time; {about}")
        for name in self._rooms.keys() - rooms.keys():
            logger.warning("worker %s is gone", name)
        if not rooms and (self._rooms or is_first):
            logger.warning("no worker at %s has %s: waiting for one", self.address, resource)
        self._rooms = rooms

    def require_scheduler(self) -> None:
        """Return if the scheduler is there."""
        if REFUSED:
            raise REFUSED[0]
        if self.client.status != "running":
            raise self.gone()

    def gone(self) -> TestbedError:
        """Return the error of a scheduler that does not respond any more."""
        return TestbedError(
            f"the scheduler {self.address} is gone, and with it what its workers had begun",
            hint="start it and its workers again, then `mrc-testbed campaign resume` what is a campaign",
        )


def _close(client: Client) -> None:
    if REFUSED:
        client.status = "closed"  # its end would be awaited in vain
    client.close(timeout=_ANSWER_S)


def _ask(client: Client, handler: str) -> Any:
    try:
        return client.sync(getattr(client.scheduler, handler), callback_timeout=_ANSWER_S)
    except (OSError, TestbedError):
        raise
    except Exception as error:
        raise TestbedError(f"the scheduler failed to answer {handler}") from error


def _connected(address: str) -> Client:
    for name in list(logging.root.manager.loggerDict):
        if name.partition(".")[0] in {"distributed", "tornado", "asyncio"}:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # what matters of it is said here
    if address.startswith("tls:") and Security().get_connection_args("client").get("ssl_context") is None:
        raise UsageError(
            f"--cluster {address}: Dask's configuration names no certificate for TLS",
            hint="docs/guide/cluster.md shows how to set it",
        )
    hint, own = "start it as docs/guide/cluster.md shows", version("mrc-testbed")
    refuse_objects()
    with ExitStack() as undo:
        try:
            client = Client(address, timeout=_CONNECT_S, set_as_default=False)
            undo.callback(_close, client)
            for topic in ("print", "warn"):  # whoever sends these would write on this terminal
                client.unsubscribe_topic(topic)
            found = _ask(client, VERSION)
        except OSError as error:
            raise PreflightError(f"no scheduler answers at {address}: {error}", hint=hint) from error
        if found is None:  # how Dask replies to what it does not know
            raise PreflightError(f"the scheduler {address} was started without our preload", hint=hint)
        if found != own:
            raise PreflightError(
                f"this is mrc-testbed {own}, and the scheduler {address} has {found}", hint="install the same"
            )
        undo.pop_all()
    return client
