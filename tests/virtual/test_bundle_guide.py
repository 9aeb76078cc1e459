"""The commands of docs/guide/campaigns.md, "Bundles", as they stand there; kept bundles, repeated."""

import shlex

import pytest
from runs import ROOT

from mrc_testbed.cli.app import run

SECTION = (ROOT / "docs/guide/campaigns.md").read_text().partition("## Bundles")[2].partition("\n## ")[0]
COMMANDS = [line.strip() for line in SECTION.splitlines() if line.startswith("    mrc-testbed ")]
KEPT = sorted((ROOT / "tests/unit/campaign/kept").glob("*.tar.zst"))


def test_the_commands_of_the_guide_work_in_their_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    names = [command.split()[1] for command in COMMANDS]
    assert names == ["run", "bundle", "report", "compare", "bundle", "replay"]
    for command in COMMANDS:
        capsys.readouterr()
        assert run(shlex.split(command)[1:]) == 0, command
    words = capsys.readouterr().out.splitlines()[1].split()
    assert (words[:3], words[-2:]) == (["same", "nic-port-down", "passed"], ["the", "same"])
    assert len(list((tmp_path / "theirs").glob("nic-port-down/*/report.html"))) == 1


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_bundle_that_is_kept_is_repeated(path, tmp_path, monkeypatch, capsys):
    """Its figures are those of the programs of its version, so that those of now may differ."""
    monkeypatch.chdir(tmp_path)
    assert run(["replay", str(path), "--virtual"]) in (0, 4)
    said = capsys.readouterr().out
    assert "passed" in said
    assert "kernel" in said
