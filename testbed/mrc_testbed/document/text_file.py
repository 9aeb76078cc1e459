"""Reads a file that anybody may have named: a regular one, and no more of it than a file of ours has."""

import csv
import errno
import io
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from mrc_testbed.errors import UsageError
from mrc_testbed.printable import printable

TEXT_BYTES_MAX: Final = 256 * 1024
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_text(path: Path) -> str:
    """The text of *path*; of a larger file only a little more than is accepted."""
    shown = printable(str(path))
    try:
        with open_regular(path) as stream:
            content = stream.read(TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror}") from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        if len(content) > TEXT_BYTES_MAX and error.reason == "unexpected end of data":
            return content[: error.start].decode() + " " * (len(content) - error.start)
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{shown}:{line}: not UTF-8 text") from error


def open_regular(path: Path) -> BinaryIO:
    """*path*, to be read."""
    try:
        return _opened(path, 0)
    except OSError as error:
        raise UsageError(f"{printable(str(path))}: cannot be read: {error.strerror}") from error


def open_result(path: Path) -> BinaryIO:
    """*path*, a file of a result folder that anybody may have filled, to be read.

    Raises:
        OSError: it cannot be opened.
        UsageError: it is a link, or something else that is not a regular file.
    """
    return _opened(path, os.O_NOFOLLOW)


def read_result(path: Path) -> bytes:
    """Content of a file of a result folder; see `open_result`."""
    with open_result(path) as stream:
        return stream.read()


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file of a result folder; see `open_result`."""
    with io.TextIOWrapper(open_result(path), encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


def _opened(path: Path, flags: int) -> BinaryIO:
    try:
        # Without O_NONBLOCK a FIFO would wait for a writer, and a device has no end.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | flags)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # a link, or a socket
            raise _refusal(path, path.lstat().st_mode) from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise _refusal(path, mode)
    return os.fdopen(descriptor, "rb")


def _refusal(path: Path, mode: int) -> UsageError:
    return UsageError(f"{printable(str(path))}: is {_KINDS[stat.S_IFMT(mode)]}, not a regular file")


def write_files(folder: Path, files: Mapping[str, bytes], *, replace: bool) -> list[Path]:
    """The files that were written; what is there already with the same content counts.

    Args:
        folder: is made if it does not exist.
        replace: whether files of other content are replaced.
    """
    changed = [name for name, content in files.items() if not replace and _differs(folder / name, content)]
    if changed:
        raise UsageError(
            f"{folder} has other files of these names: {', '.join(changed)}",
            hint="give another folder, or replace them with --force",
        )
    written = []
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            written.append(path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return written


def _differs(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() != content
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
