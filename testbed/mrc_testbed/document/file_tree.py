"""Files below a folder of the user's: theirs are not replaced unless that is asked for."""

from collections.abc import Mapping
from pathlib import Path

from mrc_testbed.errors import UsageError


def write_files(folder: Path, files: Mapping[str, str], *, replace: bool) -> list[Path]:
    """The files that were written; what is there already with the same content counts.

    Args:
        folder: is made if it does not exist.
        replace: whether files of other content are replaced.
    """
    changed = [name for name, text in files.items() if not replace and _differs(folder / name, text)]
    if changed:
        raise UsageError(
            f"{folder} has other files of these names: {', '.join(changed)}",
            hint="give another folder, or replace them with --force",
        )
    written = []
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from error
    return written


def _differs(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() != text.encode()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
