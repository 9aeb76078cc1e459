"""The description of a service of the stack, which this machine or a Docker Engine carries out."""

import os
import pwd
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.observe.stack_state import ServiceName, ServiceRecord, StackPaths, StackSettings

Progress = Callable[[str], None]

TITLES: Final = {
    ServiceName.EXPORTER: "the exporter",
    ServiceName.PROMETHEUS: "Prometheus",
    ServiceName.GRAFANA: "Grafana",
}
_NOBODY: Final = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine, by numbers."""

    uid: int = 0
    gid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A server to be started, or one of the user's own."""

    name: ServiceName
    url: str  # where people find it
    ready: str = ""  # path below it that answers when it is ready
    is_own: bool = False  # it is the user's, and only asked
    wants: str = ""  # program that it is on this machine
    command: Sequence[str] = ()  # that program with its arguments; empty where it is not installed
    image: str = ""  # of the container that takes its place
    arguments: Sequence[str] = ()  # of the image's own program
    environment: Mapping[str, str] = field(default_factory=dict)  # of the container
    config: Path | None = None  # folder that it reads
    data: Path | None = None  # folder that it writes
    account: Account = Account()  # not root, unless it needs it


class ServiceRunner(Protocol):
    """A way to carry services out: mrc_testbed.observe.machine and mrc_testbed.observe.container."""

    def start(self, paths: StackPaths, service: Service, progress: Progress) -> tuple[ProcessIdentity, str]:
        """Start a service that outlives this process; return its process, and its container if it is one."""

    def stop(self, record: ServiceRecord) -> None:
        """End what was started; success if it is gone."""

    def holds(self, paths: StackPaths) -> bool:
        """Return True if something of the stack is there, recorded or not."""

    def end_others(self, paths: StackPaths, known: Sequence[ServiceRecord]) -> None:
        """End everything of the stack that is not among *known*."""

    def log_end(self, record: ServiceRecord) -> str:
        """Return the end of what it said, as the rest of a sentence."""


def exporter(_: StackPaths, settings: StackSettings) -> Service:
    """Describe the exporter of all labs; it stays root, as it reads BPF maps."""
    command = [sys.executable, "-m", "mrc_testbed.cli", "observe", "metrics", f"--address={settings.address}"]
    options = [f"--port={settings.exporter_port}", *(f"--known-as={name}" for name in settings.known_as)]
    return Service(
        name=ServiceName.EXPORTER,
        url=f"http://{settings.exporter_target}/metrics",
        command=[*command, *options],
    )


def account_for(names: Sequence[str], config: Path, data: Path) -> Account:
    """Return the first of *names* that is a user here, else nobody, and give it the *data* folder.

    Root, if others could not enter the folders.
    """
    data.mkdir(parents=True, exist_ok=True)
    found = Account()
    above = (*config.resolve().parents, *data.resolve().parents)
    if all(folder.stat().st_mode & stat.S_IXOTH for folder in above):
        entries = [entry for entry in pwd.getpwall() if entry.pw_name in (*names, _NOBODY)]
        entries.sort(key=lambda entry: entry.pw_name == _NOBODY)
        found = next((Account(entry.pw_uid, entry.pw_gid) for entry in entries), found)
    for path in (data, *data.rglob("*")):
        os.chown(path, found.uid, found.gid, follow_symlinks=False)
    return found
