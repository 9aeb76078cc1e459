"""The configuration of an agent at its start."""

import json
from pathlib import Path

import pytest

from mrc_agents.nic.config import AgentConfig, config_document, load_config
from mrc_testbed.errors import UsageError

CONFIG = AgentConfig(
    host="h3",
    pins=Path("/pins/h3"),
    socket=Path("/run/h3.sock"),
    log=Path("/run/h3.log"),
    network_namespace=Path("/run/netns/h3"),
    rto_ns=1,
    retry_limit=2,
    probe_base_ns=3,
    probe_success_target=4,
)


@pytest.mark.parametrize(
    "config", [CONFIG, AgentConfig("h0", pins=Path("p"), socket=Path("s"), log=Path("l"))]
)
def test_document_is_read_back_as_it_was(tmp_path: Path, config: AgentConfig) -> None:
    file = tmp_path / "agent.json"
    file.write_text(json.dumps(config_document(config)))
    assert load_config(file) == config


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '"h0"',
        "{}",
        '{"host": "h0", "pins": "p", "socket": "s"}',
        '{"host": "h0", "pins": "p", "socket": "s", "log": "l", "sockets": 1}',
        '{"host": "h0", "pins": 5, "socket": "s", "log": "l"}',
        "\\xff",
    ],
)
def test_anything_else_is_refused_and_the_file_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "agent.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"agent\.json: not the configuration of a NIC agent"):
        load_config(file)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json.*No such file"):
        load_config(tmp_path / "none.json")
