"""The script that action.yaml calls: annotations, the job's summary, the worst exit status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from document_text import document

ROOT = Path(__file__).parents[2]
GATE = ROOT / ".ci" / "gate.py"
SCENARIO = document("""\
Scenario {name: small}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 40Mbit}
  workloads: [{name: main, kind: sendrecv, size: 64KiB, duration: 100ms}]
  expect: [wrong_bytes == 0, "goodput(main) > 1Mbit"]
""")
CAMPAIGN = document("""\
Campaign {name: windows}
  scenarios: [small.yaml]
  matrix: {transport.window: [32]}
  seeds: {from: 1, count: 6}
""")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "failing.yaml").write_text(SCENARIO.replace("1Mbit", "1000Gbit"))
    (tmp_path / "windows.yaml").write_text(CAMPAIGN)
    return tmp_path


def gate(folder, *words):
    environment = os.environ | {"GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    return subprocess.run(
        [sys.executable, GATE, "--virtual", "--out", folder / "results", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_passes_passes_and_is_summed_up(files):
    finished = gate(files, "small.yaml")
    assert (finished.returncode, finished.stdout) == (0, "")
    assert "# small: passed" in (files / "summary.md").read_text()
    assert list((files / "results").glob("small/*/junit.xml"))


def test_what_fails_is_annotated_at_its_file_and_the_worst_counts(files):
    finished = gate(files, "failing.yaml", "small.yaml")
    assert finished.returncode == 4
    (line,) = finished.stdout.splitlines()
    assert line.startswith(
        "::error file=failing.yaml,title=small%3A goodput(main) > 1000Gbit::goodput(main) was "
    )


def test_a_file_that_is_wrong_is_status_2(files):
    (files / "wrong.yaml").write_text("kind: Scenario\n")
    finished = gate(files, "small.yaml", "wrong.yaml")
    assert finished.returncode == 2
    assert "wrong.yaml" in finished.stderr


@pytest.mark.slow("four campaigns")
@pytest.mark.ci
def test_a_campaign_is_held_against_its_baseline(files):
    assert gate(files, "windows.yaml").returncode == 0
    baseline = files / "baseline.json"
    (campaign,) = (path.parent for path in (files / "results").glob("windows/2*/plan.json"))
    subprocess.run(
        [Path(sys.executable).with_name("mrc-testbed"), "campaign", "baseline", campaign, "--into", baseline],
        check=True,
    )
    found = json.loads(baseline.read_text())
    for cell in found["cells"].values():
        goodput = cell["figures"]["goodput(main)"]
        goodput["by_seed"] = {seed: 2 * value for seed, value in goodput["by_seed"].items()}
    baseline.write_text(json.dumps(found))
    finished = gate(files, "windows.yaml", "--baseline", baseline)
    assert finished.returncode == 4
    assert finished.stdout.count("%3A worse::goodput(main), 0.500 of the baseline; p = 0.0022") == 1
    assert gate(files, "windows.yaml", "--baseline", baseline, "--tolerance", "60%").returncode == 0


def test_the_action_passes_each_of_its_inputs_on():
    action = yaml.safe_load((ROOT / "action.yaml").read_text())
    steps = json.dumps(action["runs"]["steps"])
    assert [name for name in action["inputs"] if f"inputs.{name} " not in steps] == []
    # an input that stood in a script would be run by the shell
    assert not any("${{" in step.get("run", "") for step in action["runs"]["steps"])
