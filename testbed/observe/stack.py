"""The stack as a whole: up, down."""

import shutil
from functools import partial
from typing import Final

from mrc_testbed.errors import CleanupError, PreflightError, TestbedError, UsageError
from mrc_testbed.fabric.engine_socket import is_engine_listening
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.process import find_marked, session
from mrc_testbed.fabric.process import stop_processes as end_processes
from mrc_testbed.observe.launch import Progress, is_running
from mrc_testbed.observe.local_service import GRACE_NS
from mrc_testbed.observe.run_reports import forget_runs
from mrc_testbed.observe.server import start_exporter, start_grafana, start_prometheus
from mrc_testbed.observe.state import (
    ServiceName,
    ServiceRecord,
    StackPaths,
    StackSettings,
    StackState,
    read_stack,
    stack_paths,
    write_stack,
)
from mrc_testbed.units import format_duration_ns, format_size_bytes

_SUBJECT: Final = "the observability stack"


def up(settings: StackSettings, *, progress: Progress) -> StackState:
    """The stack as *settings* want it; parts that run are left alone, parts that died are started again.

    Args:
        settings: how it is to be.
        progress: called with the present step.

    Raises:
        UsageError: it runs with other settings.
        PreflightError: a port is in use, Prometheus is missing, or the disk is full.
        FabricError: a part did not start; a stack that this call began is taken away again.
    """
    paths = stack_paths()
    paths.folder.mkdir(parents=True, exist_ok=True)  # open to others: Prometheus is not root
    with exclusive(paths.lock_file, "observe up", subject=_SUBJECT):
        try:
            return _bring_up(paths, read_stack(paths), settings, progress)
        except BaseException:
            if not paths.state_file.exists():
                _take_away(paths)
            raise


def down(*, progress: Progress) -> bool:
    """Remove the stack, stored samples included; False if there was none.

    Finds processes and containers by their marks, so it works on a half-built stack and without its state.

    Raises:
        CleanupError: something stays.
    """
    paths = stack_paths()
    existed = bool(find_marked(paths.mark) or _containers(paths) or paths.folder.exists())
    if existed:
        progress("removing Prometheus, Grafana and what they stored")
        with exclusive(paths.lock_file, "observe down", subject=_SUBJECT):
            _take_away(paths)
    forget_runs(paths.root)
    return existed


def _bring_up(
    paths: StackPaths, known: StackState | None, settings: StackSettings, progress: Progress
) -> StackState:
    if known is None:
        _require_room(paths, settings)
    elif known.settings != settings:
        raise UsageError(
            f"the stack runs with other settings: {_differences(known.settings, settings)}",
            hint="take it down first: mrc-testbed observe down",
        )
    alive = tuple(service for service in known.services if is_running(service)) if known else ()
    if known is None or len(alive) < len(known.services):
        _end_strays(paths, alive)
    state = StackState(settings=settings, services=alive)
    try:
        for name, start in (
            (ServiceName.EXPORTER, start_exporter),
            (ServiceName.PROMETHEUS, start_prometheus),
        ):
            if state.service(name) is None:
                state = _with(state, start(paths, settings, progress))
        prometheus = state.service(ServiceName.PROMETHEUS)
        if state.service(ServiceName.GRAFANA) is None and prometheus is not None:
            try:
                state = _with(state, start_grafana(paths, settings, prometheus.url, progress))
            except PreflightError as error:
                # Grafana is the one part that need not be there
                state = state.model_copy(update={"without": {ServiceName.GRAFANA: error.message}})
    except BaseException:
        if known is not None:
            write_stack(paths, state)
        raise
    write_stack(paths, state)
    return state


def _end_strays(paths: StackPaths, recorded: tuple[ServiceRecord, ...]) -> None:
    """Ends what a killed `up` has started and nobody has recorded: it holds the ports."""
    sessions = {service.pid for service in recorded}
    end_processes([each for each in find_marked(paths.mark) if session(each.pid) not in sessions], GRACE_NS)
    known = {service.container_id for service in recorded}
    for container_id in set(_containers(paths)) - known:
        from mrc_testbed.observe.container import remove_container  # noqa: PLC0415 - see _containers

        remove_container(container_id)


def _with(state: StackState, service: ServiceRecord) -> StackState:
    return state.model_copy(update={"services": (*state.services, service)})


def _differences(known: StackSettings, wanted: StackSettings) -> str:
    before, after = known.model_dump(), wanted.model_dump()
    differing = [key for key in before if before[key] != after[key]]
    return ", ".join(
        f"{_flag(key)} {_text(key, before[key])}, not {_text(key, after[key])}" for key in differing
    )


def _flag(key: str) -> str:
    """The option that sets it."""
    return "--" + key.removesuffix("_ns").removesuffix("_bytes").replace("_", "-")


def _text(key: str, value: int | str | None) -> str:
    """A setting as one types it."""
    if isinstance(value, int) and key.endswith("_ns"):
        return format_duration_ns(value)
    if isinstance(value, int) and key.endswith("_bytes"):
        return format_size_bytes(value)
    return "none" if value is None else str(value)


def _require_room(paths: StackPaths, settings: StackSettings) -> None:
    """Raises PreflightError when the disk cannot hold what Prometheus may store."""
    paths.data.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(paths.data).free
    if settings.prometheus_url is None and free_bytes < settings.disk_bytes:
        raise PreflightError(
            f"{paths.data} has {format_size_bytes(free_bytes)} free, Prometheus may store"
            f" {format_size_bytes(settings.disk_bytes)}",
            hint="make room, or give it less with --disk",
        )


def _containers(paths: StackPaths) -> tuple[str, ...]:
    """Ids of the stack's containers; without a Docker Engine its SDK, which takes long, is not imported."""
    if not is_engine_listening():
        return ()
    try:
        from mrc_testbed.observe.container import stack_containers  # noqa: PLC0415
    except PreflightError:  # none was started without it
        return ()
    return stack_containers(paths.mark)


def _take_away(paths: StackPaths) -> None:
    def stop() -> None:
        end_processes(find_marked(paths.mark), GRACE_NS)

    def remove_containers() -> None:
        for container_id in _containers(paths):
            from mrc_testbed.observe.container import remove_container  # noqa: PLC0415 - see _containers

            remove_container(container_id)

    failures = []
    for step in (stop, remove_containers, partial(_remove, paths)):
        try:
            step()
        except (TestbedError, OSError) as error:
            failures.append(str(error))
    if failures:
        raise CleanupError(f"{_SUBJECT} is not removed completely: {'; '.join(failures)}")


def _remove(paths: StackPaths) -> None:
    for folder in (paths.data, paths.folder):
        if folder.exists():
            shutil.rmtree(folder)
    above = paths.data.parent
    if above.is_dir() and not any(above.iterdir()):
        above.rmdir()
