"""A bundle of a run in virtual time, repeated in a lab: what differs is said, busy machine or not."""

import json
import os
from pathlib import Path

import pytest
from golden_documents import check_document
from own_lab import own_state_dir

from mrc_testbed.cli.app import run
from mrc_testbed.fabric.namespace import namespace_names

NAME = f"again{os.getpid()}"

KEPT = Path(__file__).parents[2] / "unit" / "campaign" / "kept"


@pytest.mark.slow("a run and its repetition, each in a lab")
@pytest.mark.ci
def test_a_bundle_is_repeated_in_a_lab_that_is_removed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with own_state_dir():
        bundle = max(KEPT.glob("run-*"))
        status = run(["replay", str(bundle), "--runtime", "netns", "-n", NAME, "-o", "json"])
    assert status in (0, 4, 7)  # a figure may be beyond the tolerance, and a busy machine is late
    found = json.loads(capsys.readouterr().out)
    check_document("Replay", found)
    assert found["exit_code"] == status
    runtime = next(each for each in found["conditions"] if each["name"] == "runtime")
    assert (runtime["before"], runtime["after"]) == ("virtual", "netns")
    [replayed] = found["runs"]
    assert replayed["files"] is None
    assert replayed["figures"] > 5
    assert (Path(replayed["folder"]) / "report.html").is_file()
    assert [name for name in namespace_names() if name.startswith(f"mrc-{NAME}-")] == []
