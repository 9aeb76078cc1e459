"""The log of an agent: a file that stays small, however long the agent runs and whatever its clients do."""

import logging
import os
from pathlib import Path
from typing import Final

LOG_BYTES_MAX: Final = 1 << 20
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class BoundedLog(logging.Handler):
    """Appends records to a file; when that is full, its older half goes.

    What else appends to the file, such as a standard stream, counts as well.

    Args:
        path: made if need be, for its owner only.
        bytes_max: above it the file is shortened.

    Raises:
        OSError: the file cannot be opened, or is a symbolic link.
    """

    def __init__(self, path: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
        super().__init__()
        self._descriptor = os.open(path, _FLAGS, 0o600)
        self._bytes_max = bytes_max

    def emit(self, record: logging.LogRecord) -> None:
        try:
            os.write(self._descriptor, f"{self.format(record)}\n".encode(errors="backslashreplace"))
            if os.fstat(self._descriptor).st_size > self._bytes_max:
                kept_bytes = self._bytes_max // 2
                size_bytes = os.fstat(self._descriptor).st_size
                tail = os.pread(self._descriptor, kept_bytes, size_bytes - kept_bytes)
                os.ftruncate(self._descriptor, 0)
                os.write(self._descriptor, tail.partition(b"\n")[2])
        except OSError:
            self.handleError(record)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        super().close()
