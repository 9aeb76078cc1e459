"""Shards of a campaign in virtual time: merged, they are the campaign run whole, and the same bytes twice."""

import json
from dataclasses import replace

import pytest
from runs import run_campaign

from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.shard import Shard
from mrc_testbed.cli.app import run as mrc_testbed

SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: short}
spec:
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 25Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 300ms}
"""
CAMPAIGN = """\
apiVersion: mrc-testbed/v1
kind: Campaign
metadata: {name: thirds}
spec:
  scenarios: [short.yaml]
  seeds: [1, 2, 3]
  expect: [goodput(main) > 30Mbit, wrong_bytes == 0 for all seeds]
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "short.yaml").write_text(SCENARIO)
    (tmp_path / "thirds.yaml").write_text(CAMPAIGN)
    return plan_campaign(tmp_path / "thirds.yaml")


def summary(folder):
    found = json.loads((folder / "summary.json").read_text())
    return found | {"runs": [run | {"folder": None} for run in found["runs"]]}


def test_shards_and_the_whole_campaign_are_the_same_runs(plan, tmp_path, capsys):
    status, whole = run_campaign(plan, tmp_path)
    parts = [run_campaign(replace(plan, shard=Shard(part, 3)), tmp_path)[1].path for part in (1, 2, 3)]
    arguments = ["campaign", "merge", *map(str, parts), "-o", "json", "--campaigns", str(tmp_path / "merged")]
    assert mrc_testbed(arguments) == status == 0
    merged = json.loads(capsys.readouterr().out)["folder"]
    assert summary(tmp_path / merged) == summary(whole.path)
    assert mrc_testbed([*arguments, str(whole.path)]) == 0
    assert capsys.readouterr().err.count("the same: kept once") == 3
