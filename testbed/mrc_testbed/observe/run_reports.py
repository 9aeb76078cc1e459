"""Reports of runs, served by the exporter as long as the state folder records where the results are.

<root>/.reports/<run>       Place as JSON; the newest KEPT of them, until `observe down`

The exporter is root, and whoever reaches it may ask. The user in whose folder the results are may put links
in the place of files and folders. So only the recorded folder is opened, and in it only a file of its owner.
"""

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ValidationError

from mrc_testbed.fabric.state_file import PRIVATE_FOLDER, write_record
from mrc_testbed.metrics.exporter import Page
from mrc_testbed.report.page import SERVED_POLICY

KEPT: Final = 200
REPORT_BYTES_MAX: Final = 16 << 20
"""Reports of the ready scenarios have half a MiB."""

_FOLDER: Final = ".reports"
_REPORT: Final = "report.html"
_RUN: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4,16}")
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # the open of a FIFO does not wait
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Place(BaseModel):
    """The result folder of a run, by its path and, since the path may come to name another, by its inode."""

    folder: str
    device: int
    inode: int


def record_run(root: Path, folder: Path) -> None:
    """Records the result folder of a run, whose name is the run's id, and forgets all but the newest runs.

    Raises:
        OSError: it cannot be recorded.
        ValueError: its path is no UTF-8.
    """
    found = folder.lstat()
    place = Place(folder=str(folder.absolute()), device=found.st_dev, inode=found.st_ino)
    (root / _FOLDER).mkdir(PRIVATE_FOLDER, exist_ok=True)
    with _opened_own(root / _FOLDER) as descriptor:
        records = Path(f"/proc/self/fd/{descriptor}")
        write_record(records / folder.name, place)
        for old in sorted(records.iterdir())[:-KEPT]:
            old.unlink(missing_ok=True)


def forget_runs(root: Path) -> None:
    """Removes what `record_run` has recorded; the results stay."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(root / _FOLDER)


def report_page(root: Path, run: str) -> Page:
    """The report of a run, or the reason why there is none."""
    place = _recorded(root, run) if _RUN.fullmatch(run) else None
    if place is None:
        return _none("no such run is known; an address is /runs/ and the name of a run's result folder")
    try:
        with _opened(Path(place.folder)) as folder:
            found = os.fstat(folder)
            if (found.st_dev, found.st_ino) != (place.device, place.inode):
                raise FileNotFoundError
            try:
                report = _read(folder, _REPORT)
            except FileNotFoundError:
                return _none(f"run {run} has no report: it is still going on, or it was killed")
            except OSError:
                return _none(f"run {run} has no report that can be shown")
    except OSError:
        return _none(f"the results of run {run} are gone from {place.folder}")
    return Page(HTTPStatus.OK, report, "text/html; charset=utf-8", SERVED_POLICY)


def _recorded(root: Path, run: str) -> Place | None:
    """The record of a run; None without one."""
    try:
        with _opened_own(root / _FOLDER) as records:
            return Place.model_validate_json(_read(records, run))
    except (OSError, ValidationError):
        return None


@contextmanager
def _opened(path: Path | str, kind: int = os.O_DIRECTORY, folder: int | None = None) -> Iterator[int]:
    """A descriptor of a folder, or of what else *kind* admits, which is no link."""
    descriptor = os.open(path, _FLAGS | kind, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened_own(folder: Path) -> Iterator[int]:
    """The same of a folder that only this process's user can write.

    Raises:
        OSError: others can write it, or there is none.
    """
    with _opened(folder) as descriptor:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
            raise PermissionError(errno.EPERM, "others can write it", str(folder))
        yield descriptor


def _read(folder: int, name: str) -> bytes:
    """The content of a regular file of *folder*, by its one name, that belongs to whom the folder belongs.

    Raises:
        OSError: there is no such file, or it is another kind of thing.
    """
    with _opened(name, 0, folder) as descriptor:
        found = os.fstat(descriptor)
        is_own = found.st_uid == os.fstat(folder).st_uid and found.st_nlink == 1
        if not (stat.S_ISREG(found.st_mode) and is_own and found.st_size <= REPORT_BYTES_MAX):
            raise PermissionError(name)
        with open(descriptor, "rb", closefd=False) as stream:
            return stream.read(REPORT_BYTES_MAX)


def _none(reason: str) -> Page:
    return Page(HTTPStatus.NOT_FOUND, f"{reason}\n".encode())
