"""Parts of the stack that are containers: in the machine's own network, without capabilities."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mrc_testbed.errors import CleanupError, FabricError, PreflightError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.docker_engine import ENGINE_ERRORS, Engine, explain
from mrc_testbed.fabric.engine_socket import is_engine_listening
from mrc_testbed.fabric.process import ProcessIdentity, observe_process
from mrc_testbed.observe.account import Account

with from_extra("lab"):
    from docker.errors import NotFound
    from docker.types import LogConfig, Mount

STACK_LABEL: Final = "mrc-testbed.observe"
_LOG: Final = logging.getLogger(__name__)
_LOG_BYTES: Final = "5m"
_LOG_TAIL_LINES: Final = 5


def engine_with_image(image: str) -> Engine:
    """A Docker Engine that has *image*, which is pulled if it must be.

    Raises:
        PreflightError: no engine answers, or no registry has the image.
    """
    if not is_engine_listening():
        raise PreflightError("no Docker Engine listens")
    engine = Engine()
    try:
        with engine.connected() as api:
            if not api.images(name=image):
                name, _, tag = image.rpartition(":")
                for step in api.pull(name, tag=tag, stream=True, decode=True):
                    _LOG.debug("%s", step)  # the stream ends with the pull
    except ENGINE_ERRORS as error:
        raise PreflightError(f"image {image} cannot be pulled: {explain(error)}") from error
    return engine


def start_container(
    engine: Engine,
    image: str,
    arguments: Sequence[str],
    *,
    mark: str,
    name: str,
    account: Account,
    environment: Mapping[str, str],
    read_only: Sequence[Path],
    writable: Sequence[Path],
) -> tuple[str, ProcessIdentity]:
    """Starts a container in the machine's network namespace.

    Args:
        engine: runs it.
        image: of what.
        arguments: of the image's own program.
        mark: value of STACK_LABEL.
        name: of the container.
        account: whom it runs as.
        environment: additions to that of the image.
        read_only: paths that are the same inside, for reading.
        writable: paths that are the same inside.

    Returns:
        Its id, and its first process.

    Raises:
        FabricError: it did not start.
    """
    mounts = [Mount(str(path), str(path), type="bind", read_only=True) for path in read_only]
    mounts += [Mount(str(path), str(path), type="bind") for path in writable]
    remove_container(name)  # one that died keeps its name
    try:
        with engine.connected() as api:
            config = api.create_host_config(
                network_mode="host",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mounts=mounts,
                log_config=LogConfig(type=LogConfig.types.JSON, config={"max-size": _LOG_BYTES}),
            )
            created = api.create_container(
                image,
                command=list(arguments),
                name=name,
                environment=dict(environment),
                user=f"{account.uid}:{account.gid}",
                labels={STACK_LABEL: mark},
                host_config=config,
            )
            container_id = str(created["Id"])
            api.start(container_id)
            process = observe_process(int(api.inspect_container(container_id)["State"]["Pid"]))
    except ENGINE_ERRORS as error:
        raise FabricError(f"container {name} cannot be started: {explain(error)}") from error
    if process is None:
        raise FabricError(f"container {name} ended at once", hint=f"see: docker logs {name}")
    return container_id, process


def stack_containers(mark: str) -> tuple[str, ...]:
    """Ids of the stack's containers, stopped ones too.

    Raises:
        FabricError: the engine does not report it.
    """
    try:
        with Engine().connected() as api:
            found = api.containers(all=True, filters={"label": f"{STACK_LABEL}={mark}"})
    except ENGINE_ERRORS as error:
        raise FabricError(f"Docker does not list its containers: {explain(error)}") from error
    return tuple(str(container["Id"]) for container in found)


def remove_container(container: str) -> None:
    """Removes the container of that id or name, running or not; one that is gone is a success.

    Raises:
        CleanupError: the engine does not remove it.
    """
    try:
        with Engine().connected() as api:
            api.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except ENGINE_ERRORS as error:
        raise CleanupError(f"container {container} cannot be removed: {explain(error)}") from error


def container_log(container_id: str) -> str:
    """The end of what a container said, for an error message."""
    try:
        with Engine().connected() as api:
            said: bytes = api.logs(container_id, tail=_LOG_TAIL_LINES)
    except (*ENGINE_ERRORS, PreflightError) as error:
        return f"; its log cannot be read: {error}"
    return f"; its log ends:\n{said.decode(errors='replace').rstrip()}"
