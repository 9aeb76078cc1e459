"""Reads logs of a lab; those of agents are written inside nodes, which may write anything."""

from pathlib import Path
from typing import Final

from mrc_agents.node_file import read_tail

_READ_BYTES_MAX: Final = 1 << 20


def log_lines(path: Path) -> list[str]:
    """The last lines of a log, as far as they lie in its last mebibyte.

    Raises:
        FileNotFoundError: there is none.
        AgentError: it is no regular file of ours.
    """
    return read_tail(path, _READ_BYTES_MAX).decode(errors="replace").splitlines()
