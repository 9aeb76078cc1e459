"""Late runs of a campaign: their expectations count, their figures do not."""

import json
from xml.etree import ElementTree as ET

import pytest
from document_text import document

from mrc_testbed.campaign.cells import MeasuredRun, build_cells
from mrc_testbed.campaign.execution import execute_campaign, exit_code
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.markdown import build_markdown
from mrc_testbed.campaign.plan import plan_campaign, plan_variants
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.campaign.variants import VariantRun, factor_sentence, judge_across
from mrc_testbed.scenario.spec.load import load_scenario

CAMPAIGN = document("""\
Campaign {name: late}
  scenarios: [flap.yaml]
  matrix: {topology.port_rate: [25Mbit]}
  seeds: [1, 2]
  order: file
""")


NEAR = "goodput(main) < 42Mbit"


@pytest.fixture
def expect():
    return "goodput(main) > 1Mbit"


@pytest.fixture
def folder(files, expect):
    flap = files / "flap.yaml"
    flap.write_text(flap.read_text().replace("goodput(main) > 1Mbit", expect))
    (files / "late.yaml").write_text(CAMPAIGN)
    return CampaignFolder.create(files / "campaigns", plan_campaign(files / "late.yaml"))


def carry_out(folder, stage):
    """The first run is late, of a flow of 42 Mbit/s."""

    def before_run(run, lab):
        lab.be_late([20_000] * 98 + [2_000_000 if run.index == 1 else 20_000] * 2)

    stage.before_run = before_run
    execute_campaign(folder, stage, progress=lambda _: None)
    return folder, summarize_campaign(folder)


def cases(folder):
    suites = ET.fromstring((folder.path / "junit.xml").read_text())  # noqa: S314 - we wrote it
    return [[next((child.tag for child in case), "passed") for case in suite] for suite in suites]


def test_a_late_run_whose_expectations_all_hold_passes_and_its_figures_do_not_count(folder, stage):
    _, summary = carry_out(folder, stage)
    assert [row.status for row in summary.rows] == ["passed", "passed"]
    assert [row.fidelity for row in summary.rows] == ["trusted, late", "trusted"]
    assert exit_code(folder) == 0
    (cell,) = build_cells(
        [
            MeasuredRun(run, "passed", json.loads((folder.path / row.folder / "manifest.json").read_text()))
            for run, row in zip(folder.plan.runs, summary.rows, strict=True)
        ]
    )
    assert cell.statuses == {"passed late": 1, "passed": 1}
    assert cell.counted == len(cell.figures["goodput(main)"].values) == 1
    assert cases(folder) == [["passed"] * 3] * 2


@pytest.mark.parametrize("expect", [NEAR])
def test_an_expectation_that_lateness_could_have_turned_makes_a_run_untrusted(folder, stage):
    _, summary = carry_out(folder, stage)
    assert [row.status for row in summary.rows] == ["untrusted", "passed"]
    assert cases(folder) == [["skipped", "skipped", "passed"], ["passed"] * 3]
    assert summary.rows[0].measured.endswith("(1 of 2 held), untrusted")
    assert f"* `{NEAR}`: goodput(main) was" in build_markdown(summary)
    assert 'class="warn">goodput(main) was' in (folder.path / "report.html").read_text()


VARIANTS = document("""\
Scenario {name: sides}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 25Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 1s}
  variants:
    window: {few: {transport.window: 2}, many: {}}
  compare: [goodput(main)]
  expect: [goodput(main) > 1Mbit]
""")


def test_late_variants_are_untrusted_because_they_are_compared_by_figures(tmp_path, stage):
    path = tmp_path / "sides.yaml"
    path.write_text(VARIANTS)
    folder = CampaignFolder.create(tmp_path / "runs", plan_variants(load_scenario(path)))
    _, summary = carry_out(folder, stage)
    assert [run.status for run in summary.rows[0].variants] == ["untrusted", "passed"]
    assert [each["outcome"] for each in summary.rows[0].expectations] == ["cannot tell"]


@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        (("held", "held"), "held"),
        (("held", "cannot tell"), "cannot tell"),
        (("failed", "cannot tell"), "failed"),
        (("held",), "failed"),
    ],
)
def test_an_expectation_of_each_variant_is_as_good_as_the_worst(outcomes, outcome):
    text = "qp_errors == 0"
    runs = [
        VariantRun(
            str(number),
            {},
            "passed",
            "",
            None,
            ({"text": text, "passed": True, "outcome": each, "reason": "", "measured": {}},),
            {},
        )
        for number, each in enumerate((*outcomes, None)[:2])
    ]
    if len(outcomes) == 1:
        runs[1] = VariantRun("1", {}, "error", "", None, (), {})
    assert [each["outcome"] for each in judge_across([text], runs)] == [outcome]


def test_the_sentence_of_untrusted_variants_says_so():
    def run(name, value, status):
        return VariantRun(name, {}, status, "", None, (), {"goodput(main)": {"value": value}})

    trusted, untrusted = run("a", 2e6, "passed"), run("b", 1e6, "untrusted")
    sentence = factor_sentence(["goodput(main)"], [trusted, run("b", 1e6, "failed")])
    assert factor_sentence(["goodput(main)"], [trusted, untrusted]) == f"{sentence} (untrusted)"
