"""Scenarios with variants: what is run, what is compared, where it is shown."""

import json
import re
from xml.etree import ElementTree as ET

import pytest
from document_text import document

from mrc_testbed.bundle.bundle import is_plain_drawing
from mrc_testbed.campaign.execution import execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder, find_campaign
from mrc_testbed.campaign.markdown import replace_section
from mrc_testbed.campaign.plan import plan_campaign, plan_variants
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.campaign.summary_files import time_chart
from mrc_testbed.campaign.variants import VariantRun, factor_sentence, in_order
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.load import load_scenario

SIDES = document("""\
Scenario {name: sides, description: Two planes against four., paper: "Fig. 0", claim: Four are faster.}
  seed: 5
  topology: {planes: 4, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 5Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 1s}
  variants:
    planes:
      two: {topology.planes: 2}
      four: {}
    size:
      4KiB: {workloads.main.size: 4KiB}
      64KiB: {}
  compare: [goodput(main), messages]
  figure: [{kind: per-flow}]
  expect:
    - messages in four-4KiB > messages in four-64KiB
    - wrong_bytes == 0
""")


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "sides.yaml"
    path.write_text(SIDES)
    return path


def carried_out(path, stage):
    folder = CampaignFolder.create(path.parent / "runs", plan_variants(load_scenario(path)))
    execute_campaign(folder, stage, progress=lambda _: None)
    return folder


@pytest.fixture(scope="module")
def sides(tmp_path_factory, shared_stage):
    """The campaign folder of SIDES, carried out; for whoever only reads it."""
    path = tmp_path_factory.mktemp("sides") / "sides.yaml"
    path.write_text(SIDES)
    return carried_out(path, shared_stage)


def refusal(path, old, new):
    assert old in SIDES
    path.write_text(SIDES.replace(old, new))
    with pytest.raises(UsageError) as refused:
        load_scenario(path)
    return refused.value.message


def test_every_combination_is_a_run_and_those_of_one_topology_share_a_lab(sides, shared_stage):
    names = ["two-4KiB", "two-64KiB", "four-4KiB", "four-64KiB"]
    runs = [f"sides {name} seed=5" for name in names]
    assert shared_stage.events == ["up 2", *runs[:2], "down 2", "up 4", *runs[2:], "down 4"]


def test_an_expectation_across_variants_is_judged_once_all_have_run(sides):
    row = summarize_campaign(sides).rows[0]
    across, in_each = row.expectations
    assert row.status == "passed"
    four = {run.name: run.value("messages") for run in row.variants if run.name.startswith("four")}
    assert (across["left"], across["right"]) == (four["four-4KiB"], four["four-64KiB"])
    assert in_each["reason"] == "held in each of 4 variants"
    assert row.measured.startswith("messages in four-4KiB > messages in four-64KiB: ")


def test_an_expectation_without_a_variant_must_hold_in_each(scenario, stage):
    def damage(run, lab):
        lab.damage(3 * (run.plan.variant == "two-64KiB"))

    stage.before_run = damage
    row = summarize_campaign(carried_out(scenario, stage)).rows[0]
    assert row.status == "failed"
    failed = [each for each in row.expectations if not each["passed"]]
    assert [each["text"] for each in failed] == ["wrong_bytes == 0"]
    assert failed[0]["reason"].startswith("two-64KiB: ")


def test_nothing_is_judged_across_variants_of_which_one_broke(scenario, stage):
    def interrupt(run, lab):
        if run.plan.variant == "four-64KiB":
            lab.clock.interrupt_at_ns = 10**8

    stage.before_run = interrupt
    row = summarize_campaign(carried_out(scenario, stage)).rows[0]
    assert row.status == "interrupted"
    assert not any(each["passed"] for each in row.expectations)


def test_a_folder_read_again_reports_the_same(sides):
    again = CampaignFolder.open(find_campaign(sides.path.parents[1], "sides"))
    assert again.plan.runs == sides.plan.runs
    assert summarize_campaign(again) == summarize_campaign(sides)


def test_one_page_and_one_figure_show_all_variants(sides):
    page = (sides.path / "report.html").read_text()
    row = summarize_campaign(sides).rows[0]
    for run in row.variants:
        assert f'href="#run-{run.name}">{run.name}</a>' in page
        assert f'id="run-{run.name}"' in page
        assert f'id="{run.name}-time"' in page
        assert (sides.path / run.folder / "report.html").is_file()
    assert row.page is not None
    drawn = (sides.path / row.page.replace(".html", ".svg")).read_text()
    assert is_plain_drawing(drawn)
    figure = ET.fromstring(drawn)  # noqa: S314 - we wrote it
    texts = "".join(figure.itertext())
    assert "goodput(main)" in texts
    assert "4 KiB" in texts


def test_the_page_can_be_mailed_alone(sides):
    page = (sides.path / "report.html").read_text()
    anchors = re.findall(r' id="([^"]*)"', page)
    assert len(anchors) == len(set(anchors))
    links = re.findall(r' href="([^"]*)"', page)
    assert {"#time", "#compared", "#reports"} <= set(links)
    assert {link.removeprefix("#") for link in links} <= set(anchors)
    assert page.count("Four are faster.") == 1
    assert page.count("<h1>sides</h1>") == 1


def test_all_variants_share_a_chart_over_time(sides):
    chart = time_chart(sides, sides.wanted)
    assert chart is not None
    assert [curve.name for curve in chart.series] == ["two-4KiB", "two-64KiB", "four-4KiB", "four-64KiB"]
    assert all(value is not None for curve in chart.series for value in curve.y)


def test_a_report_that_is_too_large_to_be_mailed_stays_in_its_folder(scenario, stage, monkeypatch):
    monkeypatch.setattr("mrc_testbed.campaign.summary_files._REPORTS_MAX_BYTES", 1000)
    page = (carried_out(scenario, stage).path / "report.html").read_text()
    assert "two-4KiB" in page
    assert 'id="run-' not in page
    assert 'href="#run-' not in page


def variant(name, values):
    measures = {quantity: {"value": value} for quantity, value in values.items()}
    return VariantRun(name, {"kind": name}, "passed", "", None, (), measures)


@pytest.mark.parametrize(
    ("quantity", "values", "sentence"),
    [
        (
            "job_throughput(job) during cut",
            (2.9, 0.21),
            "mrc had 2.9 steps/s, roce 0.21 steps/s: 13.8 times (job_throughput(job) during cut)",
        ),
        (
            "p99(packet_rtt) during cut",
            (8e6, 2e6),
            "roce took 2 ms, mrc 8 ms: 4 times (p99(packet_rtt) during cut)",
        ),
        ("goodput(main)", (1e6, 0.0), "mrc had 1 Mbit/s, roce 0 (goodput(main))"),
        (
            "goodput(main)",
            (1e6, 1.01e6),
            "roce had 1.01 Mbit/s, mrc 1 Mbit/s: the same in both variants, within 5 % (goodput(main))",
        ),
        ("goodput(main)", (1e6, None), ""),
        ("assumed_bad", (1, 2), ""),
    ],
)
def test_the_factor_is_said_in_a_sentence(quantity, values, sentence):
    runs = [variant(name, {quantity: value}) for name, value in zip(("mrc", "roce"), values, strict=True)]
    assert factor_sentence([quantity], runs) == sentence


@pytest.mark.parametrize(
    ("quantity", "before", "values", "sentence"),
    [
        (
            "job_throughput(train) during gray",
            (3.95, 2.6),
            (3.91, 2.6),
            "roce kept 100 % of its 2.6 steps/s, mrc 99 % of its 3.95 steps/s: "
            "the same share in both variants, within 5 % (job_throughput(train) during gray)",
        ),
        (
            "job_throughput(train) after gray",
            (4, 2),
            (4, 1),
            "mrc kept 100 % of its 4 steps/s, roce 50 % of its 2 steps/s: 2 times "
            "(job_throughput(train) after gray)",
        ),
        (
            "p99(packet_rtt) during gray",
            (2e6, 1e6),
            (2.2e6, 1.5e6),
            "mrc took 110 % of its 2 ms, roce 150 % of its 1 ms: 1.36 times (p99(packet_rtt) during gray)",
        ),
        (
            "goodput(main) during gray",
            (2e6, 1e6),
            (2e6, 0),
            "mrc kept 100 % of its 2 Mbit/s, roce 0 % of its 1 Mbit/s (goodput(main) during gray)",
        ),
        (
            "goodput(main) during gray",
            (2e6, None),
            (2e6, 1e6),
            "mrc had 2 Mbit/s, roce 1 Mbit/s: 2 times (goodput(main) during gray)",
        ),
        (
            "goodput(main) during gray",
            (2e6, 0),
            (2e6, 1e6),
            "mrc had 2 Mbit/s, roce 1 Mbit/s: 2 times (goodput(main) during gray)",
        ),
        (
            "highest_plane_share during gray",
            (0.25, 0.25),
            (0.25, 0.5),
            "mrc had 100 % of its 25 %, roce 200 % of its 25 %: 2 times (highest_plane_share during gray)",
        ),
        (
            "retransmit_ratio during gray",
            (0.0, 0.0),
            (0.01, 0.04),
            "mrc had 1 %, roce 4 %: 4 times (retransmit_ratio during gray)",
        ),
    ],
)
def test_variants_keep_a_share_of_what_each_had_before_the_fault(quantity, before, values, sentence):
    earlier = quantity.replace("during", "before").replace("after", "before")
    runs = [
        variant(name, {earlier: first, quantity: value})
        for name, first, value in zip(("mrc", "roce"), before, values, strict=True)
    ]
    assert factor_sentence([earlier, quantity], runs) == sentence


def test_of_several_variants_the_best_and_the_worst_are_named():
    runs = [
        variant(name, {"goodput(main)": value}) for name, value in zip("abc", (2e6, 2.05e6, 1e6), strict=True)
    ]
    assert (
        factor_sentence(["goodput(main)"], runs)
        == "b had 2.05 Mbit/s, c 1 Mbit/s: 2.05 times (goodput(main))"
    )
    assert factor_sentence(["goodput(main)"], [*runs[:2], variant("d", {"goodput(main)": 2e6})]).endswith(
        ": the same in all 3 variants, within 5 % (goodput(main))"
    )


def test_what_happened_during_a_fault_counts_more_than_before():
    names = ["goodput(main) during cut", "messages", "goodput(main) before cut", "messages before cut"]
    ordered = in_order(names)
    assert ordered == (
        "goodput(main) before cut", "goodput(main) during cut", "messages", "messages before cut"
    )  # fmt: skip
    measures = {name: {"value": 1.0 + ("during" in name)} for name in names}
    others = {name: {"value": 1.0} for name in names}
    runs = [
        VariantRun("a", {"kind": "a"}, "passed", "", None, (), measures),
        VariantRun("b", {"kind": "b"}, "passed", "", None, (), others),
    ]
    assert factor_sentence(ordered, runs).endswith("2 times (goodput(main) during cut)")


def test_markdown_goes_into_another_file_between_two_lines(sides, tmp_path):
    summary = summarize_campaign(sides)
    paper = tmp_path / "paper.md"
    paper.write_text("before\n<!-- campaign sides -->\nold\n<!-- end -->\nafter\n")
    replace_section(paper, summary)
    once = paper.read_text()
    replace_section(paper, summary)
    assert paper.read_text() == once
    assert once.startswith("before\n<!-- campaign sides -->\n")
    assert once.endswith("\n<!-- end -->\nafter\n")
    assert "old" not in once
    assert "| sides | 5 | Fig. 0 | Four are faster. |" in once
    paper.write_text("no such lines\n")
    with pytest.raises(UsageError, match="has no line '<!-- campaign sides -->'"):
        replace_section(paper, summary)
    assert paper.read_text() == "no such lines\n"


def test_variants_are_one_row_of_a_campaign(scenario, stage, files):
    (files / "both.yaml").write_text(
        "apiVersion: mrc-testbed/v1\nkind: Campaign\nmetadata: {name: all}\n"
        "spec: {scenarios: [sides.yaml, plain.yaml]}\n"
    )
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))
    execute_campaign(folder, stage, progress=lambda _: None)
    document = json.loads((folder.path / "summary.json").read_text())
    assert [run["scenario"] for run in document["runs"]] == ["sides", "plain"]
    assert [variant["variant"] for variant in document["runs"][0]["variants"]] == [
        "two-4KiB",
        "two-64KiB",
        "four-4KiB",
        "four-64KiB",
    ]
    assert all(variant["measures"]["messages"] > 0 for variant in document["runs"][0]["variants"])
    suites = ET.fromstring((folder.path / "junit.xml").read_text())  # noqa: S314 - we wrote it
    assert [suite.get("name") for suite in suites] == ["sides seed=5", "plain seed=1"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("in four-4KiB", "in for-4KiB", "there is no variant 'for-4KiB'; did you mean 'four-4KiB'?"),
        ("in four-64KiB", "", "in which variant?"),
        ("topology.planes: 2", "fabric.planes: 2", "begins with topology, transport, workloads, faults"),
        (
            "planes:\n      two: {topology.planes: 2}\n      four: {}\n",
            "planes: {topology.planes: 2}\n",
            "spec.variants.planes: one level is missing: AXIS: {VALUE: {topology.planes: 2}}",
        ),
        ("[goodput(main), messages]", "[messages in four-4KiB]", "leave out `in`"),
    ],
)
def test_what_is_wrong_with_variants_is_reported_with_its_line(scenario, old, new, message):
    reported = refusal(scenario, old, new)
    assert "sides.yaml:" in reported
    assert message in reported


def test_a_variant_that_does_not_fit_is_reported_by_name(scenario):
    scenario.write_text(SIDES.replace("two: {topology.planes: 2}", "two: {topology.planes: 99}"))
    with pytest.raises(UsageError, match="two-4KiB"):
        plan_variants(load_scenario(scenario))
