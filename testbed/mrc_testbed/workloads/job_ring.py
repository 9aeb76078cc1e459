"""The latest steps of jobs that run now, for those who watch a lab live.

    <lab state>/jobs/<name>.<process number>    held by the process that runs the job, with a lock

A file has a head (count of steps, length of the description), a description as JSON, and a ring of the
latest RING_STEPS steps. The kernel gives the lock up when the process dies, however it dies, so that
a dead job is not shown.
"""

import fcntl
import json
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mrc_testbed.fabric.state_file import PRIVATE_FOLDER, private_descriptor
from mrc_testbed.workloads.job import Step, step_word
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import SharedWork

RING_STEPS: Final = 4096
_SPARE_STEPS: Final = 64
"""The oldest ones are left out by readers: new ones may just be taking their places."""

_FOLDER: Final = "jobs"
_HEAD: Final = struct.Struct("<QQ")
_STEP: Final = struct.Struct("<QQQ")


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job of a lab."""

    name: str  # of the workload
    word: str  # what its steps are called
    ranks: tuple[str, ...]  # its hosts
    steps: tuple[Step, ...]  # the latest, oldest first


class JobRing:
    """The file of one job, written by the process that runs it.

    Raises:
        OSError: the lab is gone, or the disk is full.
    """

    def __init__(self, state_dir: Path, name: str, work: SharedWork) -> None:
        folder = state_dir / _FOLDER
        folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
        described = json.dumps({"name": name, "word": step_word(work), "ranks": work.ranks})
        description = described.encode()
        self._ranks = {rank: at for at, rank in enumerate(work.ranks)}
        self._first = _HEAD.size + len(description)
        self._count = 0
        self._path = folder / f"{name}.{os.getpid()}"
        self._file = os.fdopen(private_descriptor(self._path, os.O_RDWR | os.O_TRUNC), "r+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            size = self._first + RING_STEPS * _STEP.size
            # a page that finds the disk full when it is first written would kill the process
            os.posix_fallocate(self._file.fileno(), 0, size)
            self._content = mmap.mmap(self._file.fileno(), size)
        except OSError:
            self._file.close()
            self._path.unlink()
            raise
        self._content[_HEAD.size : self._first] = description
        _HEAD.pack_into(self._content, 0, 0, len(description))

    def add(self, record: OperationRecord) -> None:
        """Adds a step; the oldest goes when there are RING_STEPS."""
        place = self._first + self._count % RING_STEPS * _STEP.size
        rank = self._ranks[record.last_rank]
        _STEP.pack_into(self._content, place, record.step_begin_ns, record.end_ns, rank)
        self._count += 1
        _HEAD.pack_into(self._content, 0, self._count, self._first - _HEAD.size)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        self._content.close()
        self._file.close()


def running_jobs(state_dir: Path) -> list[RunningJob]:
    """The jobs that run in the lab now, in the order of their names."""
    found = []
    for path in sorted((state_dir / _FOLDER).glob("*")):
        try:
            with path.open("rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)  # nobody holds it: the process is dead
        except BlockingIOError:
            content = path.read_bytes()
        except FileNotFoundError:
            continue  # it ended since the listing
        else:
            continue
        if len(content) > _HEAD.size and (job := _decode(content)) is not None:
            found.append(job)
    return found


def _decode(content: bytes) -> RunningJob | None:
    """The job in a file; None while it is being made."""
    count, length = _HEAD.unpack_from(content, 0)
    if not length:
        return None
    first = _HEAD.size + length
    described = json.loads(content[_HEAD.size : first])
    ranks = tuple(described["ranks"])
    steps = []
    for index in range(max(0, count - RING_STEPS + _SPARE_STEPS), count):
        begin_ns, end_ns, rank = _STEP.unpack_from(content, first + index % RING_STEPS * _STEP.size)
        steps.append(Step(begin_ns, end_ns, ranks[rank]))
    return RunningJob(described["name"], described["word"], ranks, tuple(steps))
