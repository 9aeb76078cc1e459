"""Commands about a lab that no other test of this folder asks for JSON: the shapes of what they print."""

import json
from pathlib import Path

import pytest
from golden_documents import check_document
from own_lab import lab_up
from typed_command import Command

from mrc_testbed.cli.app import run
from mrc_testbed.topology.spec import TopologySpec


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("logs", "h0"),
        ("restart", "h0"),
        ("top", "--once", "-i", "100ms"),
        ("doctor",),
        ("capture", "h0", "-w", "out.pcapng", "--duration", "100ms"),
    ],
    ids=" ".join,
)
def test_a_document_has_its_shape(
    command: Command, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.json(*words)["kind"]


def test_what_down_says_has_its_shape(capsys: pytest.CaptureFixture[str]) -> None:
    with lab_up(TopologySpec(planes=1, t0=2, t1=1, hosts_per_t0=1), "removed") as name:
        capsys.readouterr()
        assert run(["down", "-n", name, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_document("LabsRemoved", found)
