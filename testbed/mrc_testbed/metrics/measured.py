"""The measurements of commands that the exporter shows: collectives, training steps, recovery from faults.

    <lab state>/measured/collective.all-reduce   times and bytes, in the layout below
    <lab state>/measured/step.all-reduce.job    the job's name last
    <lab state>/measured/recovery.json           of the last run

A file of times is struct mrc_histogram and a count of bytes behind it, so that the exporter reads it like a
map. Files go with the lab; counts survive the commands that made them.
"""

import fcntl
import json
import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from mrc_agents.closing import Closing
from mrc_agents.nic.histogram import bucket_index
from mrc_testbed.fabric.state_file import PRIVATE_FILE, PRIVATE_FOLDER, write_private
from mrc_testbed.metrics.histogram import VALUE_BYTES, Histogram

COLLECTIVE: Final = "collective"
STEP: Final = "step"

_FOLDER: Final = "measured"
_RECOVERY: Final = "recovery.json"
_NUMBER: Final = struct.Struct("<Q")
_HEAD_BYTES: Final = 2 * _NUMBER.size
_FILE_BYTES: Final = VALUE_BYTES + _NUMBER.size


class MeasuredTimes(Closing):
    """Times that a command adds to; several commands may at once.

    Args:
        state_dir: state folder of the lab.
        what: COLLECTIVE or STEP.
        kind: such as `all-reduce`.
        workload: the job, for STEP; empty for COLLECTIVE.

    Raises:
        OSError: the lab is gone, or the disk is full.
    """

    def __init__(self, state_dir: Path, what: str, kind: str, workload: str = "") -> None:
        folder = state_dir / _FOLDER
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        path = folder / ".".join(part for part in (what, kind, workload) if part)
        path.touch(PRIVATE_FILE)
        self._file = path.open("r+b")
        try:
            # a page that finds the disk full when it is first written would kill the process
            os.posix_fallocate(self._file.fileno(), 0, _FILE_BYTES)
            self._content = mmap.mmap(self._file.fileno(), _FILE_BYTES)
        except OSError:
            self._file.close()
            raise

    def add(self, time_ns: int, size_bytes: int = 0) -> None:
        """Counts one time, and bytes that were moved in it."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._raise(0, time_ns)
            (max_ns,) = _NUMBER.unpack_from(self._content, _NUMBER.size)
            _NUMBER.pack_into(self._content, _NUMBER.size, max(max_ns, time_ns))
            self._raise(_HEAD_BYTES + _NUMBER.size * bucket_index(time_ns), 1)
            self._raise(VALUE_BYTES, size_bytes)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file; the counts stay."""
        self._content.close()
        self._file.close()

    def _raise(self, offset: int, amount: int) -> None:
        (value,) = _NUMBER.unpack_from(self._content, offset)
        _NUMBER.pack_into(self._content, offset, value + amount)


@dataclass(frozen=True, slots=True)
class TimesFile:
    # what, kind, workload: as it was written
    what: str
    kind: str
    workload: str
    times: Histogram  # all that were added
    size_bytes: int  # all bytes that were moved


def read_measured(state_dir: Path) -> Iterator[TimesFile]:
    """The measurements in the lab so far, in the order of names."""
    for path in sorted((state_dir / _FOLDER).glob("*.*")):
        if path.name.startswith(_RECOVERY):
            continue
        content = path.read_bytes()
        if len(content) == _FILE_BYTES:  # else it is being made
            what, kind, workload = (*path.name.split(".", 2), "")[:3]
            times = Histogram.from_map_values(content[:VALUE_BYTES])
            yield TimesFile(what, kind, workload, times, _NUMBER.unpack_from(content, VALUE_BYTES)[0])


class RecoveryTime(NamedTuple):
    """Duration of one phase of the recovery from a fault: `detect`, `avoid` or `restore`."""

    fault_id: str
    phase: str
    time_ns: int


def write_recovery(state_dir: Path, times: Iterable[RecoveryTime]) -> None:
    """Replaces what is shown of the recovery from faults; does nothing when the lab is gone.

    Raises:
        OSError: the disk is full.
    """
    if not state_dir.is_dir():
        return
    folder = state_dir / _FOLDER
    folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
    write_private(folder / _RECOVERY, json.dumps(list(times)))


def read_recovery(state_dir: Path) -> list[RecoveryTime]:
    """The recovery times of the last run that had faults; none before it."""
    try:
        content = json.loads((state_dir / _FOLDER / _RECOVERY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [RecoveryTime(*entry) for entry in content]
