"""Which runtime a lab gets, and which one an existing lab has. Docker's SDK is imported only where Docker is
meant.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

from testbed.errors import PreflightError, UsageError, did_you_mean
from testbed.fabric.netns_runtime import NetnsRuntime
from testbed.fabric.runtime import Runtime
from testbed.fabric.state import LabPaths, LabState, RuntimeName

_DEFAULT_ENGINE_SOCKET: Final = Path("/var/run/docker.sock")


class Choice(NamedTuple):
    """A runtime, and why it was chosen if the user left it open."""

    runtime: Runtime
    note: str | None


def choose_runtime(paths: LabPaths, wanted: str | None) -> Choice:
    """The runtime asked for; without a wish docker if it is ready to be used, else netns.

    Raises:
        UsageError: there is no such runtime.
        PreflightError: docker is asked for and not ready.
    """
    if wanted is None:
        if not _may_have_engine():
            return Choice(NetnsRuntime(paths), "runtime netns: there is no Docker Engine")
        try:
            return Choice(_docker_runtime(paths), "runtime docker: its engine answers")
        except PreflightError as error:
            return Choice(NetnsRuntime(paths), f"runtime netns: {error.message}")
    try:
        name = RuntimeName(wanted)
    except ValueError as error:
        known = [runtime.value for runtime in RuntimeName]
        raise UsageError(
            f"unknown runtime {wanted!r}{did_you_mean(wanted, known)}; use docker or netns"
        ) from error
    return Choice(_docker_runtime(paths) if name is RuntimeName.DOCKER else NetnsRuntime(paths), None)


def known_runtime(paths: LabPaths, state: LabState | None) -> Runtime:
    """The runtime of an existing lab; without a state the one that finds most.

    Raises:
        PreflightError: it is docker, and no engine answers.
    """
    if state is not None and state.runtime is RuntimeName.NETNS:
        return NetnsRuntime(paths)
    if state is None and not _may_have_engine():
        return NetnsRuntime(paths)
    # The SDK takes a third of a second to import.
    from testbed.fabric.docker_engine import Engine  # noqa: PLC0415
    from testbed.fabric.docker_runtime import DockerRuntime  # noqa: PLC0415

    try:
        return DockerRuntime(paths, Engine(), image="")
    except PreflightError:
        if state is None:
            return NetnsRuntime(paths)
        raise


def engine_labs() -> frozenset[str]:
    """Labs that own a container; none if no Docker Engine answers."""
    if not _may_have_engine():
        return frozenset()
    from testbed.fabric.docker_engine import Engine  # noqa: PLC0415

    try:
        engine = Engine()
    except PreflightError:
        return frozenset()
    return engine.labs()


def _docker_runtime(paths: LabPaths) -> Runtime:
    from testbed.fabric.docker_engine import Engine  # noqa: PLC0415
    from testbed.fabric.docker_runtime import DockerRuntime, require_node_image  # noqa: PLC0415

    return DockerRuntime(paths, Engine(), require_node_image())


def _may_have_engine() -> bool:
    return bool(os.environ.get("DOCKER_HOST")) or _DEFAULT_ENGINE_SOCKET.exists()
