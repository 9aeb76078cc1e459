"""A campaign on real labs, as users type it: two labs, a signal in the middle, a resume, a summary."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from document_text import document
from waiting import DEADLINE_S

from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.fabric.ownership import parse_owned_name

SCENARIO = document("""\
Scenario {name: tiny, paper: "Fig. 0", claim: Bytes arrive.}
  topology: {planes: 2, t0: 2, t1: 1, hosts_per_t0: 1}
  transport: {evs: 16}
  workloads:
    - {name: main, kind: all-reduce, size: 64KiB, iterations: 5}
  expect: ["operations(main) > 0", "wrong_bytes == 0"]
""")
CAMPAIGN = document("""\
Campaign {name: tiny}
  scenarios: [tiny.yaml]
  matrix: {topology.planes: [2, 1]}
  seeds: [1, 2]
""")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    (tmp_path / "campaign.yaml").write_text(CAMPAIGN)
    state = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_TESTBED_STATE_DIR", str(state))
        yield tmp_path
    assert not list(state.glob("*/lab.json"))
    shutil.rmtree(state, ignore_errors=True)


def begin(place: Path, *words: str, lab: str | None = f"c{os.getpid()}") -> "subprocess.Popen[str]":
    retries = ("--retry-untrusted", "20")  # a busy machine makes runs untrusted
    line = [sys.executable, "-m", "mrc_testbed.cli", "campaign", *words, *retries]
    line += ("-n", lab) if lab else ()
    return subprocess.Popen(
        line, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )


def statuses(place: Path) -> list[str]:
    journal = place / "campaigns" / "tiny" / "latest" / "journal.jsonl"
    return [json.loads(line)["status"] for line in journal.read_text().splitlines()]


@pytest.mark.slow("a campaign of four runs in two labs")
@pytest.mark.ci
def test_a_campaign_is_interrupted_and_resumed_and_leaves_nothing(place: Path) -> None:
    running = begin(place, "run", "campaign.yaml", "--runtime", "netns", "-v")
    assert running.stderr is not None
    for line in running.stderr:  # ends with the process, at the latest
        if "run 2 of 4" in line:
            running.send_signal(signal.SIGINT)
            break
    out, _ = running.communicate(timeout=DEADLINE_S)
    assert running.returncode == 130, out
    done = len([status for status in statuses(place) if status == "passed"])
    assert 1 <= done <= 2
    assert not [name for name in namespace_names() if name.startswith(f"mrc-c{os.getpid()}-")]

    resumed = begin(place, "resume", "tiny", "--runtime", "netns", "-o", "json")
    out, errors = resumed.communicate(timeout=DEADLINE_S)
    assert resumed.returncode == 0, errors
    summary = json.loads(out)
    assert summary["counts"] == {"passed": 4}
    assert [run["varied"]["topology.planes"] for run in summary["runs"]] == ["2", "2", "1", "1"]
    assert {run["figure"] for run in summary["runs"]} == {"Fig. 0"}
    folder = Path(summary["folder"])
    assert all((folder / run["folder"] / "report.html").is_file() for run in summary["runs"])
    assert {path.name for path in folder.iterdir()} >= {
        "summary.md",
        "runs.csv",
        "summary.json",
        "junit.xml",
        "report.html",
    }
    assert statuses(place).count("passed") == 4


def labs_there() -> set[str]:
    """Labs of campaigns of that name."""
    owned = [parse_owned_name(name) for name in namespace_names()]
    return {each.lab for each in owned if each is not None and each.lab.startswith("campaign-tiny-")}


@pytest.mark.slow("a campaign of four runs in two labs")
@pytest.mark.ci
def test_a_resume_with_nothing_to_run_removes_the_lab_of_a_campaign_killed_at_its_end(place: Path) -> None:
    before = labs_there()
    running = begin(place, "run", "campaign.yaml", "--runtime", "netns", "-v", lab=None)
    assert running.stderr is not None
    removals = (line for line in running.stderr if "removing lab campaign-tiny" in line)
    assert len([next(removals, None), next(removals, None)]) == 2  # after the last run of each topology
    running.kill()
    running.communicate()
    assert statuses(place).count("passed") == 4
    resumed = begin(place, "resume", "tiny", "--runtime", "netns", "-o", "json", lab=None)
    out, errors = resumed.communicate(timeout=DEADLINE_S)
    assert resumed.returncode == 0, errors
    assert json.loads(out)["counts"] == {"passed": 4}
    assert labs_there() == before


@pytest.mark.slow("two campaigns of four runs in two labs")
@pytest.mark.parametrize("moment", ["NIC agents", "run 2 of 4"])
def test_a_campaign_that_is_killed_is_resumed_in_its_own_lab_and_leaves_nothing(
    place: Path, moment: str
) -> None:
    before = labs_there()
    running = begin(place, "run", "campaign.yaml", "--runtime", "netns", "-v", lab=None)
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if moment in line:
            running.kill()
            break
    assert running.wait(DEADLINE_S) == -signal.SIGKILL, said
    running.communicate()
    (folder,) = (place / "campaigns" / "tiny").glob("2*")
    assert labs_there() - before == {f"campaign-tiny-{folder.name[-6:]}"}
    resumed = begin(place, "resume", "tiny", "--runtime", "netns", "-o", "json", lab=None)
    out, errors = resumed.communicate(timeout=DEADLINE_S)
    assert resumed.returncode == 0, errors
    assert json.loads(out)["counts"] == {"passed": 4}
    assert labs_there() == before
