"""Files that change in one step: a reader sees the old content or the new, and a failure leaves the old.

`latest`, the link beside result folders to the last one, is a convenience, which no result depends on.
"""

import contextlib
import errno
import logging
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


_LATEST: Final = "latest"

logger = logging.getLogger(__name__)


def point_latest(folder: Path) -> None:
    """Makes `latest` beside *folder* a symbolic link to it, in one step; says so where it cannot.

    A copy without links has a folder in its place, and some file systems have no links.
    """
    link = folder.with_name(_LATEST)
    draft = folder.with_name(f".{_LATEST}.{folder.name}")
    try:
        draft.symlink_to(folder.name)
        draft.replace(link)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        logger.warning("%s does not name this one (%s): give its path, %s", link, error.strerror, folder)


def latest_of(folder: Path) -> Path:
    """The last of the result folders in *folder*: what `latest` names, or where it is no link the newest."""
    link = folder / _LATEST
    if link.is_symlink() or not folder.is_dir():
        return link
    results = [each for each in folder.iterdir() if each.is_dir() and each.name[0].isdecimal()]
    return max(results, default=link)
