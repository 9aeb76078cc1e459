"""Files that come with mrc-testbed besides its code: in a clone of the repository, or in a wheel."""

import os
import sys
from pathlib import Path
from typing import Final

import mrc_testbed
from mrc_agents.objects import IS_CLONE
from mrc_testbed.errors import PreflightError

PACKAGE: Final = Path(mrc_testbed.__file__).resolve().parent
"""Folder of the code."""

ROOT: Final = PACKAGE.parents[1] if IS_CLONE else PACKAGE / "_shipped"
"""Folder of scenarios/, playbooks/, dashboards/ and so on: the clone, or what hatch_build.py copies."""


def shipped(relative: str) -> Path:
    """Path of a file or folder that comes with mrc-testbed."""
    path = ROOT / relative
    if not path.exists():
        raise PreflightError(f"{path} is missing: this installation is damaged", hint="install it again")
    return path


def state_home() -> Path:
    """Folder of logs of this user that outlive a command (XDG_STATE_HOME)."""
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser() / "mrc-testbed"


def as_root(arguments: str) -> str:
    """The command that runs mrc-testbed as root, by its path: sudo does not search the user's PATH."""
    return f"sudo {Path(sys.executable).parent / 'mrc-testbed'} {arguments}"
