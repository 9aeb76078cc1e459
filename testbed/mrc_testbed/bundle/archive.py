"""A tar.zst file as ours are: the same content gives the same bytes, and reading one from anybody is safe.

All members are regular files of the ustar format below one folder. The reader takes no other kind of member
(links, devices, extended headers), no name that the caller does not accept, and no more bytes than an honest
file of that size holds. Nothing that it has not checked reaches the file system.
"""

import io
import os
import sys
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Final

from mrc_testbed.document.text_file import open_regular
from mrc_testbed.errors import UsageError
from mrc_testbed.printable import printable

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MEMBERS_MAX: Final = 100_000
UNPACKED_BYTES_MAX: Final = 8 << 30
UNPACKED_RATIO_MAX: Final = 100
"""By which a file may grow beyond UNPACKED_FREE_BYTES; results grow by 5 to 30."""
UNPACKED_FREE_BYTES: Final = 256 << 20

LEVEL: Final = 12
_WINDOW_LOG_MAX: Final = 24
"""Memory for reading: 16 MiB; what `LEVEL` writes needs 4."""
_BLOCK: Final = 512
_CHUNK_BYTES: Final = 1 << 20


def unpacked_bytes_max(packed_bytes: int) -> int:
    """Maximum size of an archive's content, headers included, from its packed size."""
    return min(UNPACKED_FREE_BYTES + UNPACKED_RATIO_MAX * packed_bytes, UNPACKED_BYTES_MAX)


def write_archive(stream: BinaryIO, members: Iterable[tuple[str, bytes]], level: int = LEVEL) -> None:
    """Writes an archive; names and contents alone decide its bytes.

    Args:
        members: name and content of each file, in order.

    Raises:
        UsageError: it would hold more than `read_archive` takes.
        OSError: it cannot be written.
    """
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: level,
        zstd.CompressionParameter.checksum_flag: 1,
    }
    with zstd.ZstdFile(stream, "wb", options=options) as packed:
        with tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
            for count, (name, content) in enumerate(members):
                if count == MEMBERS_MAX:
                    raise UsageError(f"more than {MEMBERS_MAX} files: a bundle holds no more")
                entry = tarfile.TarInfo(name)  # time and owner are 0: they would differ each time
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
        unpacked_bytes = packed.tell()
    if unpacked_bytes > unpacked_bytes_max(stream.tell()):
        raise UsageError(f"{unpacked_bytes} bytes of results: more than is read from a bundle")


def read_archive(path: Path, into: Path, accepts: Callable[[str], bool]) -> None:
    """Writes the members of an archive below a folder.

    Args:
        into: an empty folder; what was written to it before an error stays.
        accepts: asked with each name before anything is written; may read what was written before.

    Raises:
        UsageError: it cannot be read, is damaged or cut short, or holds what no archive of ours does.
        OSError: a file cannot be written.
    """
    shown = printable(str(path))
    try:
        with open_regular(path) as raw:
            limit = unpacked_bytes_max(os.fstat(raw.fileno()).st_size)
            options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
            _Reader(_Frame(raw, options), limit).read_into(into, accepts)
    except EOFError as error:
        raise UsageError(f"{shown}: cut short") from error
    except zstd.ZstdError as error:
        raise UsageError(f"{shown}: damaged, or no zstd file: {error}") from error
    except _Refused as error:
        raise UsageError(f"{shown}: {error}") from error


class _Refused(Exception):  # noqa: N818 - becomes a UsageError once the file's name is known
    """The error of an archive."""


class _Frame:
    """The one zstd frame that an archive of ours is: many empty ones would cost time, and hold nothing."""

    def __init__(self, raw: BinaryIO, options: dict[int, int]) -> None:
        self._raw = raw
        self._decompressor = zstd.ZstdDecompressor(options=options)

    def read(self, count: int) -> bytes:
        """Up to *count* bytes; none at the end.

        Raises:
            EOFError: the file ends within the frame.
        """
        found = b""
        while not found and not self._decompressor.eof:
            packed = self._raw.read(_CHUNK_BYTES) if self._decompressor.needs_input else b""
            if self._decompressor.needs_input and not packed:
                raise EOFError
            found = self._decompressor.decompress(packed, count)
        if not found and (self._decompressor.unused_data or self._raw.read(1)):
            raise _Refused("holds something after its end")
        return found


class _Reader:
    """Takes an archive apart, and counts."""

    def __init__(self, stream: _Frame, limit: int) -> None:
        self._stream = stream
        self._left = limit

    def read_into(self, into: Path, accepts: Callable[[str], bool]) -> None:
        """Writes each member below *into*."""
        for _ in range(MEMBERS_MAX):
            block = self._take(_BLOCK)
            if not any(block):
                # Only zeros may follow; reading them to their end finds a file that was cut short
                while chunk := self._stream.read(_CHUNK_BYTES):
                    self._count(len(chunk))
                    if any(chunk):
                        raise _Refused("holds something after its end")
                return
            name, size = _parse_header(block)
            if size > self._left:
                raise _Refused(f"{name!r} would take {size} bytes: more than a bundle of this size holds")
            if not accepts(name):
                raise _Refused(f"holds {name!r}, which is no file of a bundle")
            self._write(into / name, size)
            self._take(-size % _BLOCK)
        raise _Refused(f"holds more than {MEMBERS_MAX} files")

    def _write(self, path: Path, size: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("xb") as file:
                while size:
                    chunk = self._take(min(size, _CHUNK_BYTES))
                    file.write(chunk)
                    size -= len(chunk)
        except FileExistsError as error:
            raise _Refused(f"holds {path.name!r} twice") from error

    def _take(self, count: int) -> bytes:
        self._count(count)
        found = b""
        while len(found) < count:
            chunk = self._stream.read(count - len(found))
            if not chunk:
                raise EOFError
            found += chunk
        return found

    def _count(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise _Refused("holds more than a bundle of this size can")


def _parse_header(block: bytes) -> tuple[str, int]:
    """Name and size of the regular file that follows."""
    try:
        entry = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.TarError, ValueError) as error:
        raise _Refused(f"not an archive of mrc-testbed: {error}") from error
    if entry.type != tarfile.REGTYPE or entry.size < 0:
        raise _Refused(f"holds {entry.name!r}, which is no regular file")
    return entry.name, entry.size
