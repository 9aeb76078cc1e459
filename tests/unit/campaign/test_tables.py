"""Results as tables: what a row says, and that every value of a run's series is found again."""

import csv
import json
from functools import partial

import pandas as pd
import pytest
from manifests import BEGUN

from mrc_testbed import results
from mrc_testbed.campaign.execution import execute_campaign
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.campaign.tables import TABLES, finished_runs, rows_of, run_row, statistics_rows, write_csv
from mrc_testbed.cli.app import run
from mrc_testbed.errors import UsageError


@pytest.fixture
def finished(files, stage):
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(files / "both.yaml"))
    execute_campaign(folder, stage, progress=lambda _: None)
    return folder


def test_a_row_per_run_says_what_was_varied(finished):
    rows = list(rows_of("runs", finished_runs(finished.path)))
    assert len(rows) == len(finished.plan.runs)
    first = rows[0]
    assert (first["scenario"], first["transport.window"], first["seed"]) == ("flap", "16", 1)
    assert (first["status"], first["trusted"]) == ("passed", 1)
    assert "workloads.main.size" not in first
    assert rows[-1]["workloads.main.size"] == "64KiB"


def test_figures_have_units_and_directions(finished):
    rows = list(rows_of("figures", finished_runs(finished.path)))
    goodput = next(row for row in rows if row["figure"] == "goodput(main)")
    assert (goodput["unit"], goodput["better"]) == ("bit/s", "more")
    detect = next(row for row in rows if row["figure"] == "detect(flap1)")
    assert (detect["unit"], detect["better"]) == ("ns", "less")


def test_each_value_of_a_series_is_one_sample(finished):
    first = finished_runs(finished.path)[0]
    with (first.path / "series.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    samples = list(rows_of("samples", [first]))
    assert len(samples) == sum(bool(text) for line in lines for text in line.values()) - 2 * len(lines)
    last = {name: text for name, text in lines[-1].items() if text}
    found = {
        (row["metric"], row["node"], row["plane"], row["unit"]): row["value"]
        for row in samples
        if row["time_ns"] == int(last["time_ns"])
    }
    assert found["goodput", None, None, "bit/s"] == float(last["goodput_bps"])
    assert found["goodput", "h0", None, "bit/s"] == float(last["goodput_h0_bps"])
    assert found["goodput(main)", None, None, "bit/s"] == float(last["goodput_of_main_bps"])
    assert found["tx", None, 1, "B"] == float(last["tx_plane1_bytes"])
    assert found["ev_good", None, 0, "1"] == float(last["ev_good_plane0"])
    assert found["messages", None, None, "1"] == float(last["messages"])


def test_a_campaign_has_a_row_per_run_in_its_folder(finished):
    with (finished.path / "runs.csv").open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    rows = [run_row(run) for run in finished_runs(finished.path)]
    given = [{name: text for name, text in line.items() if text} for line in lines]
    assert given == [{name: str(value) for name, value in row.items()} for row in rows]


def test_csv_and_data_frames_say_the_same(finished, tmp_path):
    runs = finished_runs(finished.path)
    frames = results.load(finished.path)
    for table in TABLES:
        path = tmp_path / f"{table}.csv"
        write_csv(path, partial(rows_of, table, runs))
        frame = getattr(frames, table)
        read = pd.read_csv(path, dtype=object, keep_default_na=False)
        assert list(read.columns) == list(frame.columns)
        assert len(read) == len(frame)


def test_one_run_alone_is_loaded_too(finished):
    first = finished_runs(finished.path)[0]
    assert list(results.load(first.path).runs["run"]) == [first.manifest["run"]]


def test_a_folder_of_neither_is_refused(tmp_path):
    with pytest.raises(UsageError, match="neither a run nor a campaign"):
        finished_runs(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps(BEGUN))
    with pytest.raises(UsageError, match="no run in it has ended"):
        finished_runs(tmp_path)


def test_statistics_have_a_row_per_figure_of_a_cell(files, stage):
    path = files / "both.yaml"
    text = path.read_text().replace("[1, 2]", "{from: 1, count: 6}")
    path.write_text(f"{text}  baseline: {{transport.window: 16}}\n")
    folder = CampaignFolder.create(files / "campaigns", plan_campaign(path))
    execute_campaign(folder, stage, progress=lambda _: None)
    table = pd.DataFrame(statistics_rows(folder))
    base, other = table[table.figure == "goodput(main)"].to_dict("records")[:2]
    assert (base["runs"], base["unit"]) == (6, "bit/s")
    assert pd.isna(base["p"])
    assert base["low"] <= base["median"] <= base["high"]
    assert other["baseline"] == "flap transport.window=16"
    assert 0 < other["p"] <= 1
    assert other["ratio"] == pytest.approx(other["median"] / base["median"])


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_the_command_writes_all_tables(finished, tmp_path, file_format):
    into = tmp_path / "tables"
    assert run(["campaign", "export", str(finished.path), "--into", str(into), "--format", file_format]) == 0
    tables = {*TABLES, "statistics"}
    assert {path.name for path in into.iterdir()} == {f"{table}.{file_format}" for table in tables}
    read = pd.read_csv if file_format == "csv" else pd.read_parquet
    assert len(read(into / f"runs.{file_format}")) == len(finished.plan.runs)
