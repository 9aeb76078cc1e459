"""The status of the stack: processes, servers, scrapes, and problems."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from mrc_agents.clock import epoch_ns, monotonic_ns
from mrc_testbed.observe.machine import answer_of, json_of
from mrc_testbed.observe.prometheus import JOB
from mrc_testbed.observe.service import TITLES
from mrc_testbed.observe.stack import runner_of
from mrc_testbed.observe.stack_state import (
    ServiceName,
    ServiceRecord,
    StackPaths,
    StackState,
    read_stack,
    stack_paths,
)
from mrc_testbed.units import format_size_bytes

_ROOM_MIN_BYTES: Final = 64 << 20
_CLOCK_TOLERANCE_S: Final = 5.0
_LATE_SCRAPES_NS: Final = 5_000_000_000
"""A busy machine misses a scrape now and then, but not all of this time."""

_LOOK_S: Final = 0.25


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One part of the stack."""

    record: ServiceRecord  # what was started
    version: str | None  # what it says it is; None when it does not answer


@dataclass(frozen=True, slots=True)
class StackStatus:
    """The stack."""

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
            return None if answer_of(record.url) is None else ""
        case ServiceName.PROMETHEUS:
            reply = json_of(f"{record.url}/api/v1/status/buildinfo")
            return None if reply is None else str(reply.get("data", {}).get("version", ""))
        case ServiceName.GRAFANA:
            reply = json_of(f"{record.url}/api/health")
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
    prometheus = state.service(ServiceName.PROMETHEUS)
    if prometheus is not None and ServiceName.PROMETHEUS in answering:
        yield from _scrape_problems(prometheus.url)
    free_bytes = shutil.disk_usage(paths.data).free if paths.data.is_dir() else _ROOM_MIN_BYTES
    if prometheus is not None and prometheus.kind != "own" and free_bytes < _ROOM_MIN_BYTES:
        yield (
            f"{paths.data} has only {format_size_bytes(free_bytes)} free: Prometheus stops storing when it is"
            " full; runs and their results do not need it"
        )


def _down_targets(url: str) -> list[dict[str, Any]]:
    reply = json_of(f"{url}/api/v1/targets", state="active")
    targets = reply["data"]["activeTargets"] if reply else []
    return [each for each in targets if each["labels"].get("job") == JOB and each["health"] == "down"]


def _scrape_problems(url: str) -> Iterator[str]:
    config = json_of(f"{url}/api/v1/status/config")
    jobs = yaml.safe_load(config["data"]["yaml"]).get("scrape_configs", []) if config else []
    if all(job["job_name"] != JOB for job in jobs):
        yield f"Prometheus at {url} has no job {JOB!r}: `mrc-testbed observe export DIR` writes it"
    end_ns = monotonic_ns() + _LATE_SCRAPES_NS
    while (down := _down_targets(url)) and monotonic_ns() < end_ns:
        threading.Event().wait(_LOOK_S)
    for target in down:
        yield f"Prometheus cannot scrape {target['scrapeUrl']}: {target['lastError']}"
    newest = json_of(f"{url}/api/v1/query", query=f'timestamp(up{{job="{JOB}"}})')
    for element in [] if newest is None else newest["data"]["result"]:
        behind_s = epoch_ns() / 1e9 - float(element["value"][1])
        if abs(behind_s) > _CLOCK_TOLERANCE_S:
            yield (
                f"the newest sample is {behind_s:.0f} s from this machine's clock: was the clock set?"
                " Panels show the present again when time has caught up"
            )
