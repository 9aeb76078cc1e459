"""Files that change in one step: a reader sees the old content or the new, and a failure leaves the old."""

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from mrc_testbed.errors import TestbedError

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def in_one_step(path: Path, draft: Path | None = None, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file for the new content of *path*, which it becomes when the context ends.

    Args:
        draft: where it is written first, on the same file system; None: `.<name>.draft` beside it.
        mode: permissions of a new file, less the umask.

    Raises:
        OSError: it cannot be written; *path* is as before, and the draft is gone. So it is after any other
            exception of the block.
    """
    draft = draft or path.with_name(f".{path.name}.draft")
    try:
        with os.fdopen(os.open(draft, _FLAGS, mode), "wb") as stream:
            yield stream
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def write_in_one_step(
    path: Path, content: str | bytes, draft: Path | None = None, *, mode: int = 0o666
) -> None:
    """Replaces the content of *path*, by a text as UTF-8; see `in_one_step`."""
    with in_one_step(path, draft, mode=mode) as stream:
        stream.write(content if isinstance(content, bytes) else content.encode())


@contextlib.contextmanager
def writing(path: Path, otherwise: str | None = None) -> Iterator[None]:
    """Turn an OSError of the block, which writes *path*, into a TestbedError that says so.

    Args:
        otherwise: what to do where room does not help, for a hint.
    """
    try:
        yield
    except OSError as error:
        hint = None if otherwise is None else room_hint(error) + otherwise
        raise TestbedError(f"{path} cannot be written: {error.strerror or error}", hint=hint) from error


@contextlib.contextmanager
def scratch_near(folder: Path) -> Iterator[Path]:
    """A scratch folder from which results go to *folder* by a rename; *folder* need not exist.

    Raises:
        OSError: it cannot be made.
    """
    base = folder.absolute()
    nearest = next(each for each in (base, *base.parents) if each.is_dir())
    with tempfile.TemporaryDirectory(prefix=".mrc-testbed-", dir=nearest) as scratch:
        yield Path(scratch)


def lacks_room(error: BaseException | None) -> bool:
    """Return True if a full disk or quota is the reason of an error."""
    return isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}


def room_hint(error: OSError) -> str:
    """The first words of a hint for what cannot be written; none where room would not help."""
    return "free some space or " if lacks_room(error) else ""
