"""Services as containers: in the machine's own network, without capabilities."""

import logging
from collections.abc import Sequence
from typing import Final

from mrc_testbed.errors import CleanupError, FabricError, PreflightError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.docker_engine import ENGINE_ERRORS, DockerEngine, explain
from mrc_testbed.fabric.process import ProcessIdentity, observe_process
from mrc_testbed.fabric.runtime import is_engine_listening
from mrc_testbed.observe.service import TITLES, Progress, Service
from mrc_testbed.observe.stack_state import ServiceRecord, StackPaths

with from_extra("lab"):
    from docker.errors import NotFound
    from docker.types import LogConfig, Mount

STACK_LABEL: Final = "mrc-testbed.observe"
_LOG: Final = logging.getLogger(__name__)
_LOG_BYTES: Final = "5m"
_LOG_TAIL_LINES: Final = 5


def start(paths: StackPaths, service: Service, progress: Progress) -> tuple[ProcessIdentity, str]:
    """Start a service's image, which is pulled if it must be; its folders have the same paths inside."""
    if not is_engine_listening():
        raise PreflightError("no Docker Engine listens")
    engine = DockerEngine()
    progress(f"pulling {service.image} unless it is here")
    _pull(engine, service.image)
    progress(f"starting {TITLES[service.name]} in a container")
    name = f"{paths.mark.removeprefix('.').replace(':', '-')}-{service.name}"
    _remove(name)  # one that died keeps its name
    folders = ((service.config, True), (service.data, False))
    try:
        with engine.connected() as api:
            config = api.create_host_config(
                network_mode="host",
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                mounts=[
                    Mount(str(path), str(path), type="bind", read_only=is_read_only)
                    for path, is_read_only in folders
                    if path is not None
                ],
                log_config=LogConfig(type=LogConfig.types.JSON, config={"max-size": _LOG_BYTES}),
            )
            created = api.create_container(
                service.image,
                command=list(service.arguments),
                name=name,
                environment=dict(service.environment),
                user=f"{service.account.uid}:{service.account.gid}",
                labels={STACK_LABEL: paths.mark},
                host_config=config,
            )
            container_id = str(created["Id"])
            api.start(container_id)
            process = observe_process(int(api.inspect_container(container_id)["State"]["Pid"]))
    except ENGINE_ERRORS as error:
        raise FabricError(f"container {name} cannot be started: {explain(error)}") from error
    if process is None:
        raise FabricError(f"container {name} ended at once", hint=f"see: docker logs {name}")
    return process, container_id


def stop(record: ServiceRecord) -> None:
    """Remove the container that was started."""
    _remove(record.container_id)


def holds(paths: StackPaths) -> bool:
    return bool(stack_containers(paths.mark))


def end_others(paths: StackPaths, known: Sequence[ServiceRecord]) -> None:
    """Remove containers of the stack that are not among *known*."""
    for container_id in set(stack_containers(paths.mark)) - {record.container_id for record in known}:
        _remove(container_id)


def stack_containers(mark: str) -> tuple[str, ...]:
    """Return the ids of a stack's containers, stopped ones too."""
    try:
        with DockerEngine().connected() as api:
            found = api.containers(all=True, filters={"label": f"{STACK_LABEL}={mark}"})
    except ENGINE_ERRORS as error:
        raise FabricError(f"Docker does not list its containers: {explain(error)}") from error
    return tuple(str(container["Id"]) for container in found)


def log_end(record: ServiceRecord) -> str:
    """Return the end of what a container said, as the rest of a sentence."""
    try:
        with DockerEngine().connected() as api:
            said: bytes = api.logs(record.container_id, tail=_LOG_TAIL_LINES)
    except (*ENGINE_ERRORS, PreflightError) as error:
        return f"; its log cannot be read: {error}"
    return f"; its log ends:\n{said.decode(errors='replace').rstrip()}"


def _pull(engine: DockerEngine, image: str) -> None:
    try:
        with engine.connected() as api:
            if not api.images(name=image):
                name, _, tag = image.rpartition(":")
                for step in api.pull(name, tag=tag, stream=True, decode=True):
                    _LOG.debug("%s", step)  # the stream ends with the pull
    except ENGINE_ERRORS as error:
        raise PreflightError(f"image {image} cannot be pulled: {explain(error)}") from error


def _remove(container: str) -> None:
    try:
        with DockerEngine().connected() as api:
            api.remove_container(container, force=True, v=True)
    except NotFound:
        return
    except ENGINE_ERRORS as error:
        raise CleanupError(f"container {container} cannot be removed: {explain(error)}") from error
