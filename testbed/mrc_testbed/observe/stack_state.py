"""The record of the stack between two commands, and its files.

<root>/.observe/            no lab can have this name
    stack.json              StackState
    lock                    held by the command that changes the stack
    exporter.log
    prometheus/             prometheus.yml, rules.yaml, prometheus.log
    grafana/                grafana.ini, admin-password (0600), provisioning/, grafana.log
<data>/prometheus, grafana  what they store; /var/lib/mrc-testbed/observe, for /run is memory
"""

import hashlib
import socket
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from mrc_testbed.fabric.paths import state_root
from mrc_testbed.fabric.process import ProcessIdentity, is_alive
from mrc_testbed.fabric.state_file import read_record, write_record
from mrc_testbed.metrics.exporter import DEFAULT_PORT
from mrc_testbed.metrics.local_server import DEFAULT_ADDRESS, url_host

DEFAULT_PROMETHEUS_PORT: Final = 9848
DEFAULT_GRAFANA_PORT: Final = 9849
DEFAULT_RETENTION_NS: Final = 6 * 3600 * 10**9
DEFAULT_DISK_BYTES: Final = 1 << 30
DEFAULT_OBJECTIVE_NS: Final = 100_000_000

_FOLDER: Final = ".observe"
_USUAL_ROOT: Final = Path("/run/mrc-testbed")
_USUAL_DATA: Final = Path("/var/lib/mrc-testbed/observe")


class ServiceName(StrEnum):
    """The parts of the stack, in the order in which they start."""

    EXPORTER = "exporter"
    PROMETHEUS = "prometheus"
    GRAFANA = "grafana"


class StackSettings(BaseModel):
    """The settings of a stack."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    address: str = DEFAULT_ADDRESS  # where all of it listens, an IP address of this machine
    known_as: tuple[str, ...] = ()  # names in lower case by which the exporter is reached besides its own
    # exporter_port, prometheus_port, grafana_port: TCP ports
    exporter_port: int = DEFAULT_PORT
    prometheus_port: int = DEFAULT_PROMETHEUS_PORT
    grafana_port: int = DEFAULT_GRAFANA_PORT
    # prometheus_url, grafana_url: servers of the user's own, which are then not started; None to start one
    prometheus_url: str | None = None
    grafana_url: str | None = None
    retention_ns: int = DEFAULT_RETENTION_NS  # how long samples are kept
    disk_bytes: int = DEFAULT_DISK_BYTES  # how much of the disk they may take
    p99_objective_ns: int = DEFAULT_OBJECTIVE_NS  # message completion p99 above which an alert fires

    @property
    def listen_host(self) -> str:
        """The address as it stands before a port."""
        return url_host(self.address)

    @property
    def local_host(self) -> str:
        """Where programs of this machine find what listens at the address."""
        address = ip_address(self.address)
        if not address.is_unspecified:
            return self.listen_host
        return "[::1]" if address.version == 6 else DEFAULT_ADDRESS

    @property
    def remote_host(self) -> str:
        """Where other machines find it; of this one only if the address is a loopback address."""
        if not ip_address(self.address).is_unspecified:
            return self.listen_host
        return self.known_as[0] if self.known_as else socket.gethostname()

    @property
    def exporter_target(self) -> str:
        """Host and port of the exporter, for programs of this machine."""
        return f"{self.local_host}:{self.exporter_port}"

    def is_own(self, name: ServiceName) -> bool:
        """Return True if the user has a server of their own in place of the part *name*."""
        return getattr(self, f"{name}_url", None) is not None

    @property
    def prometheus_address(self) -> str:
        """Where programs of this machine find Prometheus, the user's own if there is one."""
        return (self.prometheus_url or f"http://{self.local_host}:{self.prometheus_port}").rstrip("/")

    @property
    def grafana_address(self) -> str:
        """Where people of this machine find Grafana, the user's own if there is one."""
        return (self.grafana_url or f"http://{self.local_host}:{self.grafana_port}").rstrip("/")

    @property
    def is_local_only(self) -> bool:
        """Return True if no other machine reaches it."""
        return ip_address(self.address).is_loopback


class ServiceRecord(BaseModel):
    """One running part of the stack."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: ServiceName  # which
    # a process of this machine, a container, or a server of the user's own
    kind: Literal["process", "container", "own"]
    url: str  # where people find it
    # pid, start_ticks, namespaces: of a process
    pid: int = 0
    start_ticks: int = 0
    namespaces: str = ""
    container_id: str = ""  # of a container
    log: str | None = None  # what it says; None for a server of the user's own

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_ticks, self.namespaces)

    @property
    def is_running(self) -> bool:
        """Return True if it is still the process that was started; also for a server of the user's own."""
        return self.kind == "own" or is_alive(self.identity)


class StackState(BaseModel):
    """The content of stack.json."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    format_version: Literal[1] = 1
    settings: StackSettings  # what was asked for
    services: tuple[ServiceRecord, ...] = ()  # what was started, in order
    without: dict[ServiceName, str] = {}  # part of the stack that is not there -> why

    def service(self, name: ServiceName) -> ServiceRecord | None:
        """The part *name*; None when it is not there."""
        return next((service for service in self.services if service.name is name), None)


@dataclass(frozen=True, slots=True)
class StackPaths:
    root: Path

    @property
    def folder(self) -> Path:
        """State, configuration and logs."""
        return self.root / _FOLDER

    @property
    def state_file(self) -> Path:
        """StackState as JSON."""
        return self.folder / "stack.json"

    @property
    def lock_file(self) -> Path:
        """Locked by the command that changes the stack."""
        return self.folder / "lock"

    @property
    def data(self) -> Path:
        """Folder of Prometheus's and Grafana's data; beside the labs if those are in no usual place."""
        return _USUAL_DATA if self.root == _USUAL_ROOT else self.folder / "data"

    @property
    def mark(self) -> str:
        """The mark of the stack's processes and containers; no lab can have this name."""
        return f"{_FOLDER}:{hashlib.sha256(str(self.root.resolve()).encode()).hexdigest()[:12]}"

    def config(self, name: ServiceName) -> Path:
        return self.folder / name

    def log(self, name: ServiceName) -> Path:
        return self.folder / f"{name}.log"

    @property
    def password_file(self) -> Path:
        """The password of Grafana's user `admin`."""
        return self.config(ServiceName.GRAFANA) / "admin-password"


def stack_paths() -> StackPaths:
    """The paths of the stack of this machine, or of the state folder that is set."""
    return StackPaths(state_root())


def write_stack(paths: StackPaths, state: StackState) -> None:
    """Replaces stack.json in one step."""
    write_record(paths.state_file, state)


def read_stack(paths: StackPaths) -> StackState | None:
    """The recorded state; None if there is no stack."""
    what, remedy = "the state of the observability stack", "remove the stack: mrc-testbed observe down"
    return read_record(paths.state_file, StackState, what=what, remedy=remedy)
