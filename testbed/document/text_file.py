"""Reads a file that anybody may have named: a regular one, and no more of it than a file of ours has."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from mrc_testbed.document.yaml_tree import TEXT_BYTES_MAX
from mrc_testbed.errors import UsageError
from mrc_testbed.printable import printable


def read_text(path: Path) -> str:
    """The text of *path*; of a larger file only a little more than is accepted.

    Raises:
        UsageError: it cannot be read, is not a regular file, or not UTF-8.
    """
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
    """*path*, to be read.

    Raises:
        UsageError: it cannot be opened, or is not a regular file.
    """
    shown = printable(str(path))
    try:
        # Without O_NONBLOCK a FIFO would wait for a writer, and a device has no end.
        stream = open(path, "rb", opener=_open_without_waiting)  # noqa: SIM115 - the caller closes it
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise UsageError(f"{shown}: not a regular file")
    return stream


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
