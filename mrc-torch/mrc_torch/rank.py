"""This process as a rank of mrc-testbed. Its children are none, and have nothing of it. Needs no torch."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

HOSTS_VARIABLE: Final = "RANK_HOSTS"  # of all ranks, with commas in between

FILES_VARIABLE: Final = "MRC_TESTBED_RANK_FILES"
"""Files that a rank inherits, as /proc/self/fd shows them; the process that takes it is the rank."""

CHANNEL_VARIABLE: Final = "MRC_TESTBED_VIRTUAL_FD"
"""Number of a rank's descriptor of its channel to the simulation."""

_FILES: Final = os.environ.pop(FILES_VARIABLE, None)  # children do not see it
_PID: Final = os.getpid()


def is_rank() -> bool:
    """Return True if this process was started as a rank; False for its children, forked ones too."""
    return _FILES is not None and os.getpid() == _PID


def inherited(variable: str) -> int | None:
    """The descriptor that a variable names; None: the rank has none, or it is another file by now.

    A child keeps the variable but not the descriptor: the number is then its own next file.
    """
    number = os.environ.get(variable)
    with suppress(OSError):
        if is_rank() and number and str(Path(f"/proc/self/fd/{number}").readlink()) in (_FILES or "").split():
            os.set_inheritable(int(number), False)
            return int(number)
    return None


_CHANNEL: Final = inherited(CHANNEL_VARIABLE)


def channel() -> int | None:
    """The descriptor of this rank's channel to the simulation; None: it is no rank in virtual time."""
    return _CHANNEL if is_rank() else None


def is_virtual() -> bool:
    """Return True if this process is a rank in virtual time."""
    return channel() is not None


def has_nic() -> bool:
    """Return True unless this process is a child of a rank in virtual time."""
    return is_virtual() or CHANNEL_VARIABLE not in os.environ
