"""The process that makes the background traffic of one congestion fault, as long as the ledger wants it.

    python -m mrc_testbed.faults.raw_load LAB FAULT [OWNER-PID OWNER-START]

In the ledger's folder `loads`, FAULT.plan says what to send and FAULT.json is there while it flows; at the
end it holds what was sent. Started for an owner, before its time, the process waits for the fault to act; it
ends with the fault, with its owner, or with the lab, and at the end of the fault's time by itself.
"""

import json
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pydantic import ConfigDict, TypeAdapter

from mrc_agents.bpf.libbpf import open_pinned, run_once
from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FaultError
from mrc_testbed.fabric.data_plane import fabric_rodata, load_object
from mrc_testbed.fabric.folder_watch import FolderWatch
from mrc_testbed.fabric.paths import LabPaths, lab_paths
from mrc_testbed.fabric.process import (
    ProcessIdentity,
    command_line,
    find_marked,
    is_alive,
    kill_processes,
    start_detached,
)
from mrc_testbed.fabric.state import read_state
from mrc_testbed.fabric.state_file import PRIVATE_FILE, PRIVATE_FOLDER, write_private
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.ledger import Entry, Ledger
from mrc_testbed.faults.traffic import RawLoad, frame_of
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology

START_TIMEOUT_NS: Final = 60_000_000_000
_END_TIMEOUT_NS: Final = 5_000_000_000
_TICK_NS: Final = 2_000_000
_BEHIND_MAX_NS: Final = 20_000_000  # a machine that was busy for longer has not sent what was due then
_FOLDER: Final = "loads"
_LOADS: Final = TypeAdapter(tuple[RawLoad, ...], config=ConfigDict(defer_build=True))
_MODULE: Final = "mrc_testbed.faults.raw_load"
_PROGRAM: Final = "load"


def prepare_load(lab: str, fault: ScheduledFault, owner: ProcessIdentity) -> None:
    """Start the process of a fault that *owner* is going to inject: its traffic flows at once then."""
    stop_load(lab, fault.fault_id, at_once=True)
    arguments = (owner.to_text(),)
    _start(lab, fault, arguments, lab_paths(lab).faults / _FOLDER / f"{fault.fault_id}.ready")


def start_load(lab: str, fault: ScheduledFault) -> None:
    """Lets the traffic of a fault flow that is in the ledger; returns when it does."""
    file = _file(lab_paths(lab), fault.fault_id)
    prepared = _processes(lab, fault.fault_id)
    if prepared:
        _await_file(file, prepared[0], file.with_suffix(".log"))
    else:
        _start(lab, fault, (), file)


def _start(lab: str, fault: ScheduledFault, arguments: tuple[str, ...], sign: Path) -> None:
    """Returns when the process has made the file *sign*."""
    file = _file(lab_paths(lab), fault.fault_id)
    file.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
    for old in (file, sign):
        old.unlink(missing_ok=True)
    write_private(file.with_suffix(".plan"), _LOADS.dump_json(fault.loads).decode())
    command = [sys.executable, "-m", _MODULE, lab, fault.fault_id, *arguments]
    _await_file(sign, start_detached(lab, command, file.with_suffix(".log")), file.with_suffix(".log"))


def _await_file(file: Path, process: ProcessIdentity, log: Path) -> None:
    deadline_ns = monotonic_ns() + START_TIMEOUT_NS
    with FolderWatch((file.parent,)) as watch:
        while not file.exists():
            if monotonic_ns() >= deadline_ns or not is_alive(process):
                raise FaultError(f"background traffic does not start; its log is {log}")
            watch.wait((process,), deadline_ns)


def stop_load(lab: str, fault_id: str, *, at_once: bool = False) -> dict[int, int]:
    """Packets sent by port id, once the traffic of a fault that the ledger wants no more has ended.

    Args:
        at_once: do not wait for it to end by itself; it never began.
    """
    file = _file(lab_paths(lab), fault_id)
    processes = _processes(lab, fault_id)
    deadline_ns = monotonic_ns() + _END_TIMEOUT_NS
    if file.parent.is_dir() and not at_once:
        with FolderWatch((file.parent,)) as watch:
            while any(map(is_alive, processes)) and monotonic_ns() < deadline_ns:
                watch.wait([each for each in processes if is_alive(each)], deadline_ns)
    kill_processes(processes)
    for suffix in (".log", ".plan", ".ready"):
        file.with_suffix(suffix).unlink(missing_ok=True)
    if not file.exists():
        return {}
    sent = {int(port_id): count for port_id, count in json.loads(file.read_text() or "{}").items()}
    file.unlink()
    return sent


def _processes(lab: str, fault_id: str) -> list[ProcessIdentity]:
    words = ["-m", _MODULE, lab, fault_id]
    return [process for process in find_marked(lab) if command_line(process.pid)[1:5] == words]


def _file(paths: LabPaths, fault_id: str) -> Path:
    return paths.faults / _FOLDER / f"{fault_id}.json"


class _Sender:
    """The frames of one load, and how many were due."""

    def __init__(self, program_fd: int, clos: Clos, load: RawLoad) -> None:
        self._program_fd = program_fd
        self._frame = frame_of(clos, load)
        self._metadata = load.port_id.to_bytes(4, sys.byteorder) + bytes(4)
        self._frame_ns = len(self._frame) * 8 * 10**9 / load.rate_bps
        self._due_ns = float(monotonic_ns())
        self.port_id = load.port_id
        self.sent = 0

    def send_due(self, now_ns: int) -> None:
        """Sends what the rate has brought up to now."""
        self._due_ns = max(self._due_ns, now_ns - _BEHIND_MAX_NS)
        count = max(0, int((now_ns - self._due_ns) / self._frame_ns))
        if count:
            # one by one: a call that repeats costs a program that is attached nowhere 24 ms
            for _ in range(count):
                run_once(self._program_fd, self._frame, metadata=self._metadata)
            self._due_ns += count * self._frame_ns
            self.sent += count


def _run(lab: str, fault_id: str, owner: ProcessIdentity | None) -> None:
    paths = lab_paths(lab)
    state = read_state(paths)
    if state is None:
        raise FaultError(f"there is no lab {lab!r}")
    clos = resolve_topology(state.spec)
    ledger = Ledger(paths.faults)
    file = _file(paths, fault_id)
    loads = _LOADS.validate_json(file.with_suffix(".plan").read_bytes())
    with ExitStack() as stack:
        shared = {}
        for pin in paths.fabric_pins.iterdir():
            shared[pin.name] = open_pinned(pin)
            stack.callback(os.close, shared[pin.name])
        loaded = stack.enter_context(
            load_object(paths, "load.bpf.o", rodata=fabric_rodata(clos), reuse=shared)
        )
        watch = stack.enter_context(FolderWatch((ledger.active_folder,)))
        if owner is not None:
            file.with_suffix(".ready").touch(PRIVATE_FILE)
            while not _is_wanted(ledger, fault_id):
                if not is_alive(owner):
                    return
                watch.wait((owner,), monotonic_ns() + START_TIMEOUT_NS)
        senders = [_Sender(loaded.program_fd(_PROGRAM), clos, load) for load in loads]
        file.touch(PRIVATE_FILE)
        _send_while_wanted(ledger, fault_id, senders, watch)
        write_private(file, json.dumps({sender.port_id: sender.sent for sender in senders}))


def _send_while_wanted(ledger: Ledger, fault_id: str, senders: Iterable[_Sender], watch: FolderWatch) -> None:
    entry_path = ledger.entry_path(fault_id)
    stamp: tuple[int, int] | None = None
    entry: Entry | None = None
    while True:
        before, stamp = stamp, _stamp(entry_path)
        if stamp != before:
            entry = ledger.entries().get(fault_id)
        now_ns = monotonic_ns()
        if entry is None or not entry.is_acting(now_ns):
            return
        for sender in senders:
            sender.send_due(now_ns)
        watch.wait((), now_ns + _TICK_NS)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Distinguishes one version of a ledger entry from the next."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def _is_wanted(ledger: Ledger, fault_id: str) -> bool:
    entry = ledger.entries().get(fault_id)
    return entry is not None and entry.is_acting(monotonic_ns())


def main(arguments: list[str]) -> None:
    lab, fault_id, *owner = arguments
    os.chdir("/")
    _run(lab, fault_id, ProcessIdentity.from_text(*owner) if owner else None)


if __name__ == "__main__":
    main(sys.argv[1:])
