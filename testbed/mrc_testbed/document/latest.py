"""`latest`, the link beside result folders to the last one: a convenience, which no result depends on."""

import contextlib
import logging
from pathlib import Path
from typing import Final

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
