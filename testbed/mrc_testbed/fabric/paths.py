"""Where the files of labs are: one folder per lab.

<root>/                     /run/mrc-testbed, or MRC_TESTBED_STATE_DIR
bpffs/<lab>/fabric/       pins of the maps the whole fabric shares, and of the switch program
bpffs/<lab>/nodes/<host>/ pins of one NIC
<lab>/lab.json            LabState
<lab>/ledger.jsonl        what was done to the machine (plan.py)
<lab>/lock                held by the command that changes the lab (lock.py)
<lab>/bpf                 symbolic link to bpffs/<lab>
<lab>/agents/<host>/      agent.json, which the host reads and only this machine writes
<lab>/nodes/<host>/       agent.sock, agent.log: a process in the host may write them (mrc_agents.node_file)
<lab>/faults/             the ledger of faults, which belongs to mrc_testbed.faults
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from mrc_testbed.errors import UsageError

if TYPE_CHECKING:
    from mrc_agents.bpf.libbpf import Pins

STATE_DIR_VARIABLE: Final = "MRC_TESTBED_STATE_DIR"
_DEFAULT_ROOT: Final = Path("/run/mrc-testbed")


def state_root() -> Path:
    """The folder of all labs that commands in this environment know."""
    return Path(os.environ.get(STATE_DIR_VARIABLE) or _DEFAULT_ROOT).absolute()


def folder_id(root: Path) -> str:
    """Device and inode of a state folder; empty: there is none.

    Its path says less: in two mount namespaces two folders may have the same one.
    """
    try:
        found = root.stat()
    except FileNotFoundError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


DEFAULT_LAB: Final = "default"

_BPFFS: Final = "bpffs"
_FABRIC, _NODES = "fabric", "nodes"
LAB_PINS: Final = frozenset({_FABRIC, _NODES})
"""Folders in a lab's folder of the BPF file system."""

LAB_NAME_LENGTH_MAX: Final = 32
_LAB_NAME: Final = re.compile(rf"[a-z0-9]([a-z0-9-]{{0,{LAB_NAME_LENGTH_MAX - 2}}}[a-z0-9])?")
_SOCKET_PATH_BYTES_MAX: Final = 107  # sun_path less its closing zero


class MapPins(Protocol):
    """Where the maps of one lab are found."""

    @property
    def fabric_pins(self) -> "Pins":
        """Those that the whole fabric shares."""

    def node_pins(self, host: str) -> "Pins":
        """Those of one NIC."""


@dataclass(frozen=True, slots=True)
class LabPaths:
    root: Path
    lab: str

    @property
    def folder(self) -> Path:
        return self.root / self.lab

    @property
    def state_file(self) -> Path:
        """LabState as JSON."""
        return self.folder / "lab.json"

    @property
    def ledger_file(self) -> Path:
        """One line per operation."""
        return self.folder / "ledger.jsonl"

    @property
    def lock_file(self) -> Path:
        """Locked by the command that changes the lab."""
        return self.folder / "lock"

    @property
    def faults(self) -> Path:
        return self.folder / "faults"

    @property
    def bpffs(self) -> Path:
        """Mount point of the BPF file system that all labs share."""
        return self.root / _BPFFS

    @property
    def pins(self) -> Path:
        return self.bpffs / self.lab

    @property
    def pins_link(self) -> Path:
        """Symbolic link to `pins` inside the lab's folder."""
        return self.folder / "bpf"

    @property
    def fabric_pins(self) -> Path:
        return self.pins / _FABRIC

    def node_pins(self, host: str) -> Path:
        return self.pins / _NODES / host

    @property
    def nodes_folder(self) -> Path:
        """Folder of the folders that nodes write."""
        return self.folder / "nodes"

    def node_folder(self, host: str) -> Path:
        """Folder that the agent of one host writes; whoever is root in the host may put anything there."""
        return self.nodes_folder / host

    def agent_folder(self, host: str) -> Path:
        """Folder that the agent of one host reads."""
        return self.folder / "agents" / host

    def agent_socket(self, host: str) -> Path:
        return self.node_folder(host) / "agent.sock"

    def agent_log(self, host: str) -> Path:
        return self.node_folder(host) / "agent.log"

    @property
    def drainer_log(self) -> Path:
        return self.folder / "drainer.log"

    @property
    def verifier_log(self) -> Path:
        """Where a refusal of the BPF verifier is kept; outside the folder, which a roll-back removes."""
        return self.root / f"{self.lab}-verifier.log"


def lab_paths(name: str) -> LabPaths:
    if not _LAB_NAME.fullmatch(name) or name == _BPFFS:
        raise UsageError(
            f"{name!r} is no name for a lab", hint="use 1 to 32 small letters, digits and inner hyphens"
        )
    paths = LabPaths(state_root(), name)
    longest_bytes = len(os.fsencode(paths.agent_socket("h00000")))
    if longest_bytes > _SOCKET_PATH_BYTES_MAX:
        raise UsageError(
            f"the state folder {paths.root} makes the sockets' paths {longest_bytes} bytes long, "
            f"{_SOCKET_PATH_BYTES_MAX} are possible",
            hint=f"set {STATE_DIR_VARIABLE} to a shorter path",
        )
    return paths


def lab_folders() -> tuple[str, ...]:
    """Names of the labs that have a folder, sorted, whatever state they are in."""
    root = state_root()
    if not root.is_dir():
        return ()
    return tuple(
        sorted(
            entry.name
            for entry in root.iterdir()
            if entry.is_dir() and entry.name != _BPFFS and _LAB_NAME.fullmatch(entry.name)
        )
    )
