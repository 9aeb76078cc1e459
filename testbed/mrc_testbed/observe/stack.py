"""The stack as a whole: up, down, status."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

import yaml

from mrc_agents.clock import epoch_ns, monotonic_ns
from mrc_testbed.errors import CleanupError, FabricError, PreflightError, TestbedError, UsageError
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.runtime import is_engine_listening
from mrc_testbed.observe import grafana_server, machine, prometheus
from mrc_testbed.observe.run_reports import forget_runs
from mrc_testbed.observe.service import TITLES, Progress, Service, ServiceRunner, exporter
from mrc_testbed.observe.stack_state import (
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
_DESCRIBED: Final = {
    ServiceName.EXPORTER: exporter,
    ServiceName.PROMETHEUS: prometheus.service,
    ServiceName.GRAFANA: grafana_server.service,
}
_ROOM_MIN_BYTES: Final = 64 << 20
_CLOCK_TOLERANCE_S: Final = 5.0
_LATE_SCRAPES_NS: Final = 5_000_000_000
"""A busy machine misses a scrape now and then, but not all of this time."""

_LOOK_S: Final = 0.25


def up(settings: StackSettings, *, progress: Progress) -> StackState:
    """The stack as *settings* want it; parts that run are left alone, parts that died are started again."""
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
    """
    paths = stack_paths()
    existed = paths.folder.exists() or any(runner.holds(paths) for runner in _runners())
    if existed:
        progress("removing Prometheus, Grafana and what they stored")
        with exclusive(paths.lock_file, "observe down", subject=_SUBJECT):
            _take_away(paths)
    forget_runs(paths.root)
    return existed


def start(paths: StackPaths, service: Service, progress: Progress) -> ServiceRecord:
    """Start a service and return when it answers; the user's own is only asked."""
    if service.is_own:
        progress(f"asking {TITLES[service.name]} at {service.url}")
        if machine.answer_of(service.url + service.ready) is None:
            raise FabricError(
                f"no {TITLES[service.name]} answers at {service.url}{service.ready}",
                hint="give the address that its web page has, with any path prefix",
            )
        return ServiceRecord(name=service.name, kind="own", url=service.url)
    kind: Literal["process", "container"] = "process" if service.command else "container"
    runner = runner_of(kind)
    try:
        process, container_id = runner.start(paths, service, progress)
    except PreflightError as error:
        raise PreflightError(
            f"there is no program {service.wants!r} on this machine, nor a container: {error.message}",
            hint="install it: mrc-testbed setup host --with-observability;"
            f" or give one of your own with --{service.name}-url",
        ) from error
    record = ServiceRecord(
        name=service.name,
        kind=kind,
        url=service.url,
        pid=process.pid,
        start_ticks=process.start_ticks,
        namespaces=process.namespaces,
        container_id=container_id,
        log=None if container_id else str(paths.log(service.name)),
    )
    try:
        quote = partial(runner.log_end, record)
        machine.await_answer(service.url + service.ready, process, TITLES[service.name], quote)
    except FabricError:
        runner.stop(record)
        raise
    return record


def runner_of(kind: str) -> ServiceRunner:
    """Return what carries out a `process` or a `container`, whose SDK takes half a second to import."""
    if kind == "process":
        return machine
    from mrc_testbed.observe import container  # noqa: PLC0415

    return container


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
    state = StackState(
        settings=settings,
        services=tuple(each for each in (known.services if known else ()) if each.is_running),
    )
    missing = [name for name in ServiceName if state.service(name) is None]
    if missing:  # what a killed `up` has started and nobody has recorded holds the ports
        for runner in _runners():
            runner.end_others(paths, state.services)
    for name in missing:
        if not settings.is_own(name):
            machine.require_free_port(settings, name)
    try:
        for name in missing:
            try:
                record = start(paths, _DESCRIBED[name](paths, settings), progress)
            except PreflightError as error:
                if name is not ServiceName.GRAFANA:
                    raise
                state = state.model_copy(update={"without": {name: error.message}})
            else:
                state = state.model_copy(update={"services": (*state.services, record)})
    except BaseException:
        if known is not None:
            write_stack(paths, state)
        raise
    write_stack(paths, state)
    return state


def _differences(known: StackSettings, wanted: StackSettings) -> str:
    before, after = known.model_dump(), wanted.model_dump()
    return ", ".join(
        f"--{key.removesuffix('_ns').removesuffix('_bytes').replace('_', '-')}"
        f" {_text(key, before[key])}, not {_text(key, after[key])}"
        for key in before
        if before[key] != after[key]
    )


def _text(key: str, value: int | str | None) -> str:
    """A setting as one types it."""
    if isinstance(value, int) and key.endswith("_ns"):
        return format_duration_ns(value)
    if isinstance(value, int) and key.endswith("_bytes"):
        return format_size_bytes(value)
    return "none" if value is None else str(value)


def _require_room(paths: StackPaths, settings: StackSettings) -> None:
    """Raise PreflightError if the disk cannot hold what Prometheus may store."""
    paths.data.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(paths.data).free
    if settings.prometheus_url is None and free_bytes < settings.disk_bytes:
        raise PreflightError(
            f"{paths.data} has {format_size_bytes(free_bytes)} free, Prometheus may store"
            f" {format_size_bytes(settings.disk_bytes)}",
            hint="make room, or give it less with --disk",
        )


def _runners() -> list[ServiceRunner]:
    """Those that may have started something."""
    runners: list[ServiceRunner] = [machine]
    if is_engine_listening():
        with suppress(PreflightError):  # without the SDK none was started
            runners.append(runner_of("container"))
    return runners


def _take_away(paths: StackPaths) -> None:
    failures = []
    steps: list[Callable[[], None]] = [partial(each.end_others, paths, ()) for each in _runners()]
    steps.append(partial(_remove, paths))
    for step in steps:
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


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    record: ServiceRecord  # what was started
    version: str | None  # what it says it is; None when it does not answer


@dataclass(frozen=True, slots=True)
class StackStatus:
    state: StackState | None  # what was started; None when there is no stack
    services: tuple[ServiceStatus, ...]  # its parts
    problems: tuple[str, ...]  # one sentence each; empty when all is well


def status() -> StackStatus:
    paths = stack_paths()
    state = read_stack(paths)
    if state is None:
        return StackStatus(None, (), ())
    services = tuple(ServiceStatus(record, _version(record)) for record in state.services)
    return StackStatus(state, services, tuple(_problems(paths, state, services)))


def _version(record: ServiceRecord) -> str | None:
    if not record.is_running:
        return None
    match record.name:
        case ServiceName.EXPORTER:
            return None if machine.answer_of(record.url) is None else ""
        case ServiceName.PROMETHEUS:
            reply = machine.json_of(f"{record.url}/api/v1/status/buildinfo")
            return None if reply is None else str(reply.get("data", {}).get("version", ""))
        case ServiceName.GRAFANA:
            reply = machine.json_of(f"{record.url}/api/health")
            return None if reply is None else str(reply.get("version", ""))


def _problems(paths: StackPaths, state: StackState, services: tuple[ServiceStatus, ...]) -> Iterator[str]:
    for service in services:
        record = service.record
        if service.version is None:
            end = "" if record.kind == "own" else runner_of(record.kind).log_end(record)
            what = f"does not answer at {record.url}" if record.is_running else "has ended"
            yield f"{TITLES[record.name]} {what}{end}"
    for name in ServiceName:
        if state.service(name) is None and name not in state.without:
            yield f"{TITLES[name]} was never started; `mrc-testbed observe up` starts it"
    answering = {service.record.name for service in services if service.version is not None}
    server = state.service(ServiceName.PROMETHEUS)
    if server is not None and ServiceName.PROMETHEUS in answering:
        yield from _scrape_problems(server.url)
    free_bytes = shutil.disk_usage(paths.data).free if paths.data.is_dir() else _ROOM_MIN_BYTES
    if server is not None and server.kind != "own" and free_bytes < _ROOM_MIN_BYTES:
        yield (
            f"{paths.data} has only {format_size_bytes(free_bytes)} free: Prometheus stops storing when it is"
            " full; runs and their results do not need it"
        )


def _down_targets(url: str) -> list[dict[str, Any]]:
    reply = machine.json_of(f"{url}/api/v1/targets", state="active")
    targets = reply["data"]["activeTargets"] if reply else []
    return [
        each for each in targets if each["labels"].get("job") == prometheus.JOB and each["health"] == "down"
    ]


def _scrape_problems(url: str) -> Iterator[str]:
    config = machine.json_of(f"{url}/api/v1/status/config")
    jobs = yaml.safe_load(config["data"]["yaml"]).get("scrape_configs", []) if config else []
    if all(job["job_name"] != prometheus.JOB for job in jobs):
        yield f"Prometheus at {url} has no job {prometheus.JOB!r}: `mrc-testbed observe export DIR` writes it"
    end_ns = monotonic_ns() + _LATE_SCRAPES_NS
    while (down := _down_targets(url)) and monotonic_ns() < end_ns:
        threading.Event().wait(_LOOK_S)
    for target in down:
        yield f"Prometheus cannot scrape {target['scrapeUrl']}: {target['lastError']}"
    newest = machine.json_of(f"{url}/api/v1/query", query=f'timestamp(up{{job="{prometheus.JOB}"}})')
    for element in [] if newest is None else newest["data"]["result"]:
        behind_s = epoch_ns() / 1e9 - float(element["value"][1])
        if abs(behind_s) > _CLOCK_TOLERANCE_S:
            yield (
                f"the newest sample is {behind_s:.0f} s from this machine's clock: was the clock set?"
                " Panels show the present again when time has caught up"
            )
