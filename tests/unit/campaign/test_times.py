"""Times of a cell's runs taken together: percentiles come from the sum of histograms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.campaign.cells import MeasuredRun, build_cells, cells_of
from mrc_testbed.campaign.execution import execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.cli.app import run
from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.scenario.report.kept_times import dump_histograms, load_histograms

MANIFEST = {"provenance": {"runtime": "virtual"}}
NAME = "times(packet_rtt)"

times = st.lists(st.integers(0, 2**40), max_size=50)


@pytest.fixture
def folder(files, stage):
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))
    execute_campaign(folder, stage, progress=lambda _: None)
    return folder


@given(st.dictionaries(st.text(), times))
def test_what_is_kept_is_read_again(named):
    histograms = {name: Histogram.of_times(each) for name, each in named.items()}
    assert load_histograms(dump_histograms(histograms)) == histograms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 2, "histograms": {}}',
        '{"schema_version": 1, "histograms": {"a": {"sum_ns": 1, "max_ns": 1}}}',
        '{"schema_version": 1, "histograms": {"a": {"sum_ns": 1, "max_ns": 1, "buckets": [[1]]}}}',
        '{"schema_version": 1, "histograms": {"a": {"sum_ns": 1, "max_ns": 1, "buckets": [[99999, 1]]}}}',
        '{"schema_version": 1, "histograms": {"a": {"sum_ns": 1, "max_ns": 1, "buckets": [[1, -1]]}}}',
    ],
)
def test_damaged_histograms_are_refused(text):
    with pytest.raises(ValueError, match=r"."):
        load_histograms(text)


def test_a_percentile_of_a_cell_is_that_of_all_times(files):
    # a short run with a slow packet and a long one without: the mean of both p99s would be 505 us
    slow, fast = [1_000_000] * 10, [10_000] * 9_990
    planned = plan_campaign(files / "both.yaml").runs[:2]
    (cell,) = build_cells(
        MeasuredRun(run, "passed", MANIFEST, {NAME: Histogram.of_times(each)})
        for run, each in zip(planned, (slow, fast), strict=True)
    )
    p99 = cell.times[NAME].percentiles_ns([0.99])
    assert p99 == pytest.approx((np.percentile(slow + fast, 99),), rel=0.032)


def test_untrusted_runs_add_no_times(files):
    planned = plan_campaign(files / "both.yaml").runs[:2]
    statuses = ("passed", "untrusted")
    (cell,) = build_cells(
        MeasuredRun(run, status, MANIFEST, {NAME: Histogram.of_times([5])})
        for run, status in zip(planned, statuses, strict=True)
    )
    assert cell.times[NAME].count == 1


def test_a_campaign_adds_up_what_its_runs_keep(folder):
    first = cells_of(folder)[0]
    runs = [run for run in folder.plan.runs if run.place == first.place and run.scenario == first.scenario]
    kept = [folder.histograms(run)["times(message_completion)"] for run in runs]
    assert len(kept) == 2
    assert first.times["times(message_completion)"] == merge(kept)
    assert first.times["times(message_completion)"].count > 0


def test_runs_that_kept_no_times_are_without(folder, capsys):
    for path in folder.path.glob("runs/*/*/histograms.json"):
        path.unlink()
    assert not any(cell.times for cell in cells_of(folder))
    assert run(["campaign", "stats", str(folder.path)]) == 0
    assert "p99.9" not in capsys.readouterr().out


def test_a_damaged_file_is_named(folder):
    path = next(folder.path.glob("runs/*/2*/histograms.json"))
    path.write_text("{")
    with pytest.raises(UsageError, match=str(path.parent.name)):
        cells_of(folder)


def test_stats_prints_percentiles_of_all_runs(folder, capsys):
    assert run(["campaign", "stats", str(folder.path)]) == 0
    shown = capsys.readouterr().out
    assert "times of all runs together" in shown
    assert "times(message_completion)" in shown


def test_times_of_a_window_that_is_asked_for_are_kept_too(files, stage):
    path = files / "flap.yaml"
    asked = "p99(message_completion) during flap1"
    path.write_text(path.read_text().replace("wrong_bytes == 0", f"{asked} < 1s"))
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))
    execute_campaign(folder, stage, progress=lambda _: None)
    first = folder.plan.runs[0]
    manifest = folder.manifest(first)
    assert manifest is not None
    measured = manifest["expectations"][1]["measured"][asked]
    times = folder.histograms(first)["times(message_completion) during flap1"]
    assert times.percentiles_ns([0.99]) == pytest.approx((measured,))
