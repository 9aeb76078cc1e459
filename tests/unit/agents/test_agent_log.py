"""The log of an agent stays small."""

import json
import logging
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mrc_agents.nic.config import AgentConfig, config_document
from mrc_agents.nic.log import BoundedLog


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("agent", logging.INFO, __file__, 1, text, None, None)


def test_file_is_bounded_and_ends_with_the_last_records(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    with closing(BoundedLog(path, bytes_max=1000)) as log:
        for number in range(500):
            log.emit(record(f"record {number}"))
            assert path.stat().st_size <= 1000
    lines = path.read_text().splitlines()
    assert len(lines) > 30
    assert lines == [f"record {number}" for number in range(500 - len(lines), 500)]


def test_what_a_standard_stream_appended_counts(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    with closing(BoundedLog(path, bytes_max=1000)) as log:
        with path.open("a") as stream:
            stream.write("a trace\n" * 1000)
        log.emit(record("after it"))
    assert path.stat().st_size <= 1000
    assert path.read_text().endswith("a trace\nafter it\n")


def test_file_is_its_owners_and_what_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "agent.log"
    for text in ("first", "second"):
        with closing(BoundedLog(path)) as log:
            log.emit(record(text))
    assert path.read_text() == "first\nsecond\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "agent.log").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic"):
        BoundedLog(tmp_path / "agent.log")
    assert [entry.name for entry in tmp_path.iterdir()] == ["agent.log"]


def test_agent_that_breaks_leaves_its_trace_in_the_log(tmp_path: Path) -> None:
    """Where the agent is a container's first process, nobody reads what it says on standard error."""
    file, log = tmp_path / "agent.json", tmp_path / "agent.log"
    config = AgentConfig("h7", pins=tmp_path, socket=tmp_path / "agent.sock", log=log)
    file.write_text(json.dumps(config_document(config)))
    code = (
        "import mrc_agents.nic.__main__ as program\n"
        "class Broken:\n"
        "    def __init__(self, config): raise IndexError('scribbled')\n"
        "program.NicAgent = Broken\n"
        "raise SystemExit(program.main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "--config", str(file)], check=False)
    assert done.returncode == 1
    assert "the agent of h7 ends" in log.read_text()
    assert "IndexError: scribbled" in log.read_text()
