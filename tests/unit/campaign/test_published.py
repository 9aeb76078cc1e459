"""Published figures beside the measured ones, in the summary of a campaign."""

import pytest
from document_text import document

from mrc_testbed.campaign.execution import execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.markdown import build_markdown
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.summary import summarize_campaign

CAMPAIGN = document("""\
Campaign {name: known}
{scenarios: [alone.yaml, sides.yaml]}
""")
SCENARIO = document("""\
Scenario {name: %s, paper: Fig. 1}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 25Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 1s}
  expect: [wrong_bytes == 0]
""")
ALONE = """\
  published: {goodput(main): 20Mbit, qp_errors: 0}
"""
SIDES = """\
  variants:
    window: {few: {transport.window: 2}, many: {}}
  published:
    2 * goodput(main) in few: 20Mbit
    goodput(main) in many: goodput(main) in few
"""


def rows(folder: CampaignFolder) -> list[list[str]]:
    _, _, after = build_markdown(summarize_campaign(folder)).partition("## Published figures\n\n")
    table, _, _ = after.partition("\n\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def percent(ratio: float) -> str:
    return f"{round(100 * (ratio - 1), 1) + 0.0:+.1f} %"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "known.yaml").write_text(CAMPAIGN)
    (tmp_path / "alone.yaml").write_text(SCENARIO % "alone" + ALONE)
    (tmp_path / "sides.yaml").write_text(SCENARIO % "sides" + SIDES)
    return CampaignFolder.create(tmp_path / "campaigns", plan_campaign(tmp_path / "known.yaml"))


def test_each_published_figure_has_the_measured_one_and_the_deviation(folder, stage):
    assert rows(folder) == []
    assert execute_campaign(folder, stage, progress=lambda _: None) == 0
    goodput = {
        run.plan.variant: each["value"]
        for run in folder.plan.runs
        for each in folder.manifest(run)["measures"]
        if each["quantity"] == "goodput(main)"
    }
    few, many = goodput["few"], goodput["many"]
    assert [(row[0], row[2], row[-1]) for row in rows(folder)] == [
        ("alone", "`goodput(main)`", percent(goodput[None] / 20e6)),
        ("alone", "`qp_errors`", "-"),
        ("sides", "`2 * goodput(main) in few`", percent(2 * few / 20e6)),
        ("sides", "`goodput(main) in many`", percent(many / few)),
    ]
    assert rows(folder) == rows(CampaignFolder.open(folder.path))
