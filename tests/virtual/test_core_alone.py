"""Commands that need no root work where no extra is installed."""

import json
from pathlib import Path

import pytest
from core_only import commands
from document_text import document

SCENARIO = document("""\
Scenario {name: small, description: A write from one host to the other.}
  seed: 5
  topology: {planes: 2, t0: 2, t1: 1, hosts_per_t0: 1, port_rate: 20Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 200ms}
  expect: [wrong_bytes == 0]
  figure:
    - {kind: goodput-over-time, every: 50ms}
""")
CAMPAIGN = document("""\
Campaign {name: windows, description: Two windows.}
  scenarios: [small.yaml]
  matrix: {transport.window: [16, 32]}
  seeds: {from: 1, count: 6}
  baseline: {transport.window: 16}
""")
WORK = """\
validate small.yaml windows.yaml
run small.yaml --virtual
run small.yaml --dry-run
report small
bundle small --into small.tar.zst
report small.tar.zst
replay small.tar.zst
campaign run windows.yaml --virtual
campaign list
campaign stats windows
campaign show windows
campaign report windows
campaign baseline windows --into baseline.json
campaign check windows --baseline baseline.json
campaign export windows --into tables
compare runs/small/latest small.tar.zst
inspect
graph
observe export monitoring
""".splitlines()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a scenario and a campaign, on a machine without a lab."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "windows.yaml").write_text(CAMPAIGN)
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path / "state"))
    return tmp_path


@pytest.mark.slow("ten commands, each a process of its own")
@pytest.mark.ci
def test_work_that_needs_no_root_is_done(place: Path) -> None:
    ended = commands(WORK, place)
    assert [(text, each.stderr) for text, each in zip(WORK, ended, strict=True) if each.status] == []
    [line] = [line for line in ended[1].stderr.splitlines() if "figure.svg" in line]
    assert "the Python package matplotlib is missing; it comes with mrc-testbed[figures]" in line


def test_the_demo_runs(place: Path) -> None:
    [ended] = commands(["demo --virtual"], place)
    assert ended.status == 0, ended.stderr
    assert "PASSED" in ended.stdout


def test_doctor_shows_that_docker_is_optional_and_how_to_get_it(place: Path) -> None:
    [ended] = commands(["doctor -o json"], place)
    [check] = [each for each in json.loads(ended.stdout)["checks"] if "Docker" in each["what"]]
    assert not check["met"]
    assert check["optional"]
    assert "mrc-testbed[lab]" in check["found"]
    assert "mrc-testbed[lab]" in check["fix"]
