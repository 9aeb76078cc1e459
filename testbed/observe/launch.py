"""Starting a server of the stack: the program of this machine where there is one, else a container.

mrc_testbed.observe.container is imported where it is needed: the SDK of Docker would take half a second of
every command.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Literal

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.process import ProcessIdentity, is_alive, stop_processes
from mrc_testbed.observe.account import Account
from mrc_testbed.observe.local_service import GRACE_NS, await_answer, log_tail, start_service
from mrc_testbed.observe.state import ServiceName, ServiceRecord, StackPaths

Progress = Callable[[str], None]

_TITLES: Final = {
    ServiceName.EXPORTER: "the exporter",
    ServiceName.PROMETHEUS: "Prometheus",
    ServiceName.GRAFANA: "Grafana",
}


@dataclass(frozen=True, slots=True)
class Server:
    """A server to be started."""

    name: ServiceName  # which part of the stack
    url: str  # where people find it
    ready_path: str  # path below it that answers when it is ready
    account: Account  # whom it runs as
    program: Sequence[str] = ()  # the program of this machine with its arguments; empty for none
    image: str = ""  # the container image that takes its place
    image_arguments: Sequence[str] = ()  # of the image's own program
    image_environment: Mapping[str, str] = field(default_factory=dict)  # of the container
    config: Path | None = None  # folder with its configuration
    data: Path | None = None  # folder for what it stores


def title(name: ServiceName) -> str:
    return _TITLES[name]


def is_running(service: ServiceRecord) -> bool:
    """Return True if the part is still the process that was started; also for a server of the user's own."""
    return service.kind == "own" or is_alive(service.identity)


def launch(paths: StackPaths, server: Server, progress: Progress) -> ServiceRecord:
    """The server, started and answering.

    Raises:
        PreflightError: it is not installed, and no container can take its place.
        FabricError: it did not start.
    """
    if server.program:
        progress(f"starting {title(server.name)}")
        command = [*server.account.command_prefix(), *server.program]
        return _answering(paths, server, "process", start_service(paths, server.name, command))
    from mrc_testbed.observe.container import engine_with_image, start_container  # noqa: PLC0415

    progress(f"pulling {server.image} unless it is here")
    engine = engine_with_image(server.image)
    progress(f"starting {title(server.name)} in a container")
    container_id, process = start_container(
        engine,
        server.image,
        server.image_arguments,
        mark=paths.mark,
        name=f"{paths.mark.removeprefix('.').replace(':', '-')}-{server.name}",
        account=server.account,
        environment=server.image_environment,
        read_only=[server.config] if server.config else [],
        writable=[server.data] if server.data else [],
    )
    return _answering(paths, server, "container", process, container_id)


def log_end(service: ServiceRecord) -> str:
    """The end of what a part of the stack said, as the rest of a sentence."""
    if service.kind == "container":
        from mrc_testbed.observe.container import container_log  # noqa: PLC0415

        return container_log(service.container_id)
    return log_tail(Path(service.log)) if service.log else ""


def _answering(
    paths: StackPaths,
    server: Server,
    kind: Literal["process", "container"],
    process: ProcessIdentity,
    container_id: str = "",
) -> ServiceRecord:
    """The record of what was started, once it answers; it is stopped when it does not."""
    record = ServiceRecord(
        name=server.name,
        kind=kind,
        url=server.url,
        pid=process.pid,
        start_ticks=process.start_ticks,
        namespaces=process.namespaces,
        container_id=container_id,
        log=str(paths.log(server.name)) if kind == "process" else None,
    )
    try:
        await_answer(server.url + server.ready_path, process, title(server.name), partial(log_end, record))
    except FabricError:
        if container_id:
            from mrc_testbed.observe.container import remove_container  # noqa: PLC0415

            remove_container(container_id)
        else:
            stop_processes([process], GRACE_NS)
        raise
    return record
