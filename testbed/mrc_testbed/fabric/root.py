"""The state folder: where this user's labs are, as far as this machine's commands know them."""

import os
from pathlib import Path
from typing import Final

STATE_DIR_VARIABLE: Final = "MRC_TESTBED_STATE_DIR"
_DEFAULT_ROOT: Final = Path("/run/mrc-testbed")


def state_root() -> Path:
    """The folder of all labs that commands in this environment know."""
    return Path(os.environ.get(STATE_DIR_VARIABLE) or _DEFAULT_ROOT).absolute()


def folder_id(root: Path) -> str:
    """Device and inode of a state folder; empty: there is none.

    Its path says less: in two mount namespaces two folders may have the same one.
    """
    try:
        found = root.stat()
    except FileNotFoundError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"
