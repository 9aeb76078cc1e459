"""Obstacles in the way of an agent's files are not followed, and `restart` gets the agent back."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from mrc_testbed.errors import AgentError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.agent_process import log_lines

CONTENT: Final = "of the machine\n"
PUT: Final[dict[str, Callable[[Path, Path], None]]] = {
    "symbolic link": lambda path, target: path.symlink_to(target),
    "hard link": lambda path, target: path.hardlink_to(target),
    "FIFO": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: (path / "in" / "it").mkdir(parents=True),
}


def test_agent_comes_back_whatever_is_in_the_way_of_its_files(small_lab: str, state_dir: Path) -> None:
    target = state_dir / "target"
    target.write_text(CONTENT)
    with lab.attach(small_lab) as live:
        log, listener = live.paths.agent_log("h1"), live.paths.agent_socket("h1")
    for put in PUT.values():
        for path in (log, listener):
            path.unlink()
            put(path, target)
        with pytest.raises(AgentError, match=r"is a |has 3 names"):
            log_lines(log)
        lab.restart(small_lab, ["h1"])
        assert target.read_text() == CONTENT
        with lab.attach(small_lab) as live:
            assert live.agent("h1").hello()["host"] == "h1"
    target.unlink()
