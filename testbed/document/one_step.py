"""Files that change in one step: a reader sees the old content or the new, and a failure leaves the old."""

import contextlib
import os
from pathlib import Path
from typing import Final

_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def write_in_one_step(path: Path, text: str, draft: Path | None = None, *, mode: int = 0o666) -> None:
    """Replaces the content of *path* by *text*.

    Args:
        path: what is written.
        text: as UTF-8.
        draft: where it is written first, on the same file system; None: `.<name>.draft` beside it.
        mode: permissions of a new file, less the umask.

    Raises:
        OSError: it cannot be written; *path* is as before, and the draft is gone.
    """
    draft = draft or path.with_name(f".{path.name}.draft")
    try:
        with os.fdopen(os.open(draft, _FLAGS, mode), "w", encoding="utf-8") as stream:
            stream.write(text)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
