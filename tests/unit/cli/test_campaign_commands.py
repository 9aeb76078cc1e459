"""campaign and compare where no lab is needed: plans, lists, two manifests side by side."""

import json
import re

import pytest
from document_text import document
from manifests import BEGUN, ENDED

SCENARIO = document("""\
Scenario {name: small, claim: Bytes arrive.}
  seed: 3
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
  workloads:
    - {name: ring, kind: all-gather, size: 64KiB, duration: 2s}
  expect: ["busbw(ring) > 1Mbit"]
""")
CAMPAIGN = document("""\
Campaign {name: sizes}
  scenarios: [small.yaml]
  matrix: {workloads.ring.size: [64KiB, 1MiB], topology.planes: [2, 4]}
  order: file
""")


@pytest.fixture
def campaign(tmp_path):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "sizes.yaml").write_text(CAMPAIGN)
    return str(tmp_path / "sizes.yaml")


def manifest(run, busbw_bps, *, detect_ns=None):
    nothing = {"longest_ns": None, "reason": "it took no packet"}
    return ENDED | {
        "run": run,
        "scenario": "small",
        "expectations": [
            {
                "text": "busbw(ring) during f > 1Mbit",
                "passed": True,
                "reason": "",
                "dimension": "rate",
                "left": busbw_bps / 2,
                "right": 1_000_000,
                "measured": {"busbw(ring) during f": busbw_bps / 2},
            }
        ],
        "workloads": [
            {
                "name": "ring",
                "kind": "all-reduce",
                "errors": [],
                "goodput_bps": 3_000_000,
                "fairness": 0.5,
                "wrong_bytes": 0,
                "collective": {
                    "kind": "all-reduce",
                    "size_bytes": 65536,
                    "algbw_bps": busbw_bps,
                    "busbw_bps": busbw_bps,
                    "operation": None,
                    "step": None,
                    "reaction_ns": 0,
                },
            }
        ],
        "faults": [
            {
                "id": "f",
                "occurrences": 1,
                "lost_packets": 7,
                "left_evs": 1,
                "detect": {"longest_ns": detect_ns, "reason": ""},
                "avoid": nothing,
                "restore": nothing,
            }
        ],
    }


def test_a_dry_run_lists_runs_labs_and_time(mrc_testbed, campaign):
    finished = mrc_testbed("campaign", "run", campaign, "--dry-run")
    assert finished.status == 0
    rows = [line.split() for line in finished.stdout.splitlines() if line.strip().startswith(("1 ", "2 "))]
    assert rows == [
        ["1", "small", "64KiB", "2", "3", "2s"],
        ["1", "small", "1MiB", "2", "3", "2s"],
        ["2", "small", "64KiB", "4", "3", "2s"],
        ["2", "small", "1MiB", "4", "3", "2s"],
    ]
    assert "4 runs on 2 labs; sending takes 8s" in finished.stdout


def test_a_dry_run_for_programs(mrc_testbed, campaign):
    finished = mrc_testbed("campaign", "run", campaign, "--dry-run", "--seed", "9", "-o", "json")
    found = json.loads(finished.stdout)
    assert found["runs"][0]["key"] == ("small workloads.ring.size=64KiB topology.planes=2 seed=9")
    assert {run["length_ns"] for run in found["runs"]} == {2_000_000_000}


def test_a_wrong_campaign_is_refused_with_its_line(mrc_testbed, campaign, tmp_path):
    (tmp_path / "sizes.yaml").write_text(CAMPAIGN.replace("ring.size", "rang.size"))
    finished = mrc_testbed("campaign", "run", campaign, "--dry-run")
    assert finished.status == 2
    assert "sizes.yaml:5: spec.scenarios[0]:" in finished.stderr
    assert "has no workload 'rang'; did you mean 'ring'?" in finished.stderr
    assert mrc_testbed("validate", campaign).status == 2


def test_nothing_begun_is_said_so(mrc_testbed, tmp_path):
    finished = mrc_testbed("campaign", "list", "--campaigns", str(tmp_path))
    assert finished.stdout.startswith("no campaign in ")
    finished = mrc_testbed("campaign", "show", "sizes", "--campaigns", str(tmp_path))
    assert finished.status == 2
    assert "there is no campaign at" in finished.stderr


def test_compare_puts_two_runs_side_by_side(mrc_testbed, tmp_path):
    for name, found in (
        ("one", manifest("one", 8_000_000, detect_ns=5_000_000)),
        ("two", manifest("two", 4_000_000)),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_text(json.dumps(found))
    finished = mrc_testbed("compare", str(tmp_path / "one"), str(tmp_path / "two"))
    assert finished.status == 0
    lines = [re.split(r"  +", line.strip()) for line in finished.stdout.splitlines()[4:]]
    rows = {name: figures for name, *figures in lines}
    assert rows["busbw(ring)"] == ["8 Mbit/s", "4 Mbit/s", "0.500"]
    assert rows["busbw(ring) during f"] == ["4 Mbit/s", "2 Mbit/s", "0.500"]
    assert rows["detect(f)"] == ["5 ms", "-", "-"]
    assert rows["lost(f)"] == ["7", "7", "1.000"]


def test_compare_refuses_what_is_no_finished_run(mrc_testbed, tmp_path):
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "manifest.json").write_text(json.dumps(BEGUN))
    finished = mrc_testbed("compare", str(tmp_path / "killed"), str(tmp_path / "killed"))
    assert finished.status == 2
    assert "the run has not ended" in finished.stderr
    assert "there is no run at" in mrc_testbed("compare", "nothing", "nothing").stderr
