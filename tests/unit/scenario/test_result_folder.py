"""The files of a run: shapes that programs rely on, and what a killed run leaves."""

import csv
import json
import re
import resource
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from golden_documents import check_document
from scenario_text import FLAP
from virtual_trial import Trial

from mrc_testbed.errors import TestbedError
from mrc_testbed.report import page
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.scenario.measure.provenance import Provenance, cpu_model, observe_provenance
from mrc_testbed.scenario.measure.series_rows import series_columns
from mrc_testbed.scenario.report.junit import Case, junit_suite
from mrc_testbed.scenario.report.result_folder import ResultFolder
from mrc_testbed.scenario.run.runner import Runner
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import load_plan
from mrc_testbed.scenario.spec.resolve import resolve

GOLDEN = Path(__file__).parent / "golden"
FILES = [
    "events.jsonl",
    "flows.csv",
    "histograms.json",
    "junit.xml",
    "manifest.json",
    "plan.json",
    "report.html",
    "samples.csv",
    "scenario.yaml",
    "series.csv",
    "summary.md",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    trial = Trial(FLAP)
    trial.damage(3)
    trial.change["ring_drops"].append(lambda _: 7 * trial.calls.count("ring_drops"))
    return trial.execute(tmp_path_factory.mktemp("runs"))


def shape(value: Any) -> Any:
    """Keys and types of a JSON value; of a list, those of its first entry."""
    if isinstance(value, dict):
        return {key: shape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_a_finished_run_has_these_files_and_no_drafts(finished: FinishedRun) -> None:
    assert sorted(path.name for path in finished.folder.iterdir()) == FILES


def test_latest_points_at_the_run(finished: FinishedRun) -> None:
    latest = finished.folder.parent / "latest"
    assert latest.is_symlink()
    assert latest.resolve() == finished.folder


def test_a_folder_in_the_place_of_latest_costs_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "trial" / "latest" / "x").mkdir(parents=True)
    again = Trial(FLAP).execute(tmp_path)
    assert sorted(path.name for path in again.folder.iterdir()) == FILES


def test_the_folder_is_named_by_scenario_and_time(finished: FinishedRun) -> None:
    assert finished.folder.parent.name == "trial"
    assert finished.folder.name.startswith("20260101T000000Z-")


def test_the_shape_of_the_manifest_is_a_promise(finished: FinishedRun) -> None:
    manifest = json.loads((finished.folder / "manifest.json").read_text())
    check_document("run-manifest", manifest)
    assert manifest["schema_version"] == 1


def test_manifest_of_a_failed_run(finished: FinishedRun) -> None:
    manifest = json.loads((finished.folder / "manifest.json").read_text())
    assert (manifest["status"], manifest["exit_code"], manifest["trusted"]) == ("failed", 4, True)
    assert [entry["passed"] for entry in manifest["expectations"]] == [True, True, False, True]
    assert manifest["workloads"][0]["wrong_bytes"] == 3
    rings = next(entry for entry in manifest["fidelity"] if entry["what"] == "frames lost in receive rings")
    assert rings["measured"].startswith("7 ")
    assert manifest["faults"][0]["occurrences"] == 4
    assert manifest["started_utc"] == "2026-01-01T00:00:00Z"


def test_the_plan_of_a_run_can_be_run_again(finished: FinishedRun) -> None:
    assert load_plan(finished.folder / "plan.json") == finished.result.plan


def test_the_scenario_file_is_kept_as_it_was(finished: FinishedRun) -> None:
    assert (finished.folder / "scenario.yaml").read_text() == FLAP


def test_events_are_in_order_and_in_ns(finished: FinishedRun) -> None:
    recorded = events(finished.folder)
    times = [event["time_ns"] for event in recorded]
    assert times == sorted(times)
    assert {event["event"] for event in recorded} == {
        "workload-started",
        "warmup-ended",
        "fault-applied",
        "fault-cleared",
        "ev-state",
        "workload-ended",
        "run-ended",
    }
    assert next(event for event in recorded if event["event"] == "warmup-ended")["time_ns"] == 0


def test_the_shape_of_events_is_a_promise(finished: FinishedRun) -> None:
    shapes = {event["event"]: shape(event) for event in events(finished.folder)}
    assert shapes == json.loads((GOLDEN / "event-shapes.json").read_text())


def test_fault_events_say_what_was_planned_and_lost(finished: FinishedRun) -> None:
    cleared = [event for event in events(finished.folder) if event["event"] == "fault-cleared"]
    assert [event["occurrence"] for event in cleared] == [0, 1, 2, 3]
    for event, (start_ns, end_ns) in zip(cleared, finished.result.plan.faults[0].periods, strict=True):
        assert end_ns is not None
        assert event["time_ns"] == end_ns
        assert not event["lost_packets"] or start_ns < event["last_lost_ns"] < end_ns
    assert cleared[0]["lost_packets"] > 0


def test_series_has_a_row_per_interval_and_units_in_its_columns(finished: FinishedRun) -> None:
    series = rows(finished.folder / "series.csv")
    assert tuple(series[0]) == series_columns(finished.result.plan)
    assert len(series) >= 45
    counts = re.compile(r"messages|retransmits_\w+|qp_errors|\w+_drops|ev_\w+_plane\d|ecn_marks|trims")
    units = {name.rpartition("_")[2] for name in series[0] if not counts.fullmatch(name)}
    assert units == {"ns", "bps", "bytes", "ratio"}
    times = [int(row["time_ns"]) for row in series]
    assert times == sorted(times)
    assert int(series[0]["time_ns"]) < 0 < int(series[-1]["time_ns"])


def test_samples_are_the_values_of_the_series_with_node_plane_metric_and_unit(finished: FinishedRun) -> None:
    samples = rows(finished.folder / "samples.csv")
    assert list(samples[0]) == ["time_ns", "interval_ns", "node", "plane", "metric", "value", "unit"]
    series = rows(finished.folder / "series.csv")
    sent = [row for row in samples if (row["metric"], row["plane"], row["unit"]) == ("tx", "1", "B")]
    assert [float(row["value"]) for row in sent] == [float(row["tx_plane1_bytes"]) for row in series]
    received = [row for row in samples if row["node"] == "h1"]
    assert [float(row["value"]) for row in received] == [float(row["goodput_h1_bps"]) for row in series]


def test_rates_of_hosts_add_up_to_the_goodput(finished: FinishedRun) -> None:
    for row in rows(finished.folder / "series.csv"):
        hosts = sum(int(row[f"goodput_h{host}_bps"]) for host in range(8))
        assert hosts == pytest.approx(int(row["goodput_bps"]), abs=8)


def test_goodput_of_a_workload_is_a_column(finished: FinishedRun) -> None:
    series = rows(finished.folder / "series.csv")
    total, own = (
        sum(float(row[column]) * int(row["interval_ns"]) for row in series)
        for column in ("goodput_bps", "goodput_of_main_bps")
    )
    assert own == pytest.approx(total, rel=0.01)


def test_ev_states_of_the_series_follow_the_fault(finished: FinishedRun) -> None:
    recording = finished.result.recording
    fault = recording.fault_span("flap1")
    bad = {
        int(row["time_ns"]): int(row["ev_assumed_bad_plane0"]) for row in rows(finished.folder / "series.csv")
    }
    before = [count for time_ns, count in bad.items() if time_ns < recording.relative_ns(fault.start_ns)]
    during = [
        count
        for time_ns, count in bad.items()
        if recording.relative_ns(fault.start_ns) < time_ns < recording.relative_ns(fault.end_ns)
    ]
    assert max(before) == 0
    assert max(during) > 0


def test_flows_has_a_row_per_qp(finished: FinishedRun) -> None:
    flows = rows(finished.folder / "flows.csv")
    assert [(row["source"], row["target"]) for row in flows] == [
        (f"h{host}", f"h{(host + 4) % 8}") for host in range(8)
    ]
    assert [int(row["wrong_bytes"]) for row in flows] == [3, 0, 0, 0, 0, 0, 0, 0]
    assert all(5e6 < int(row["goodput_bps"]) < 10e6 for row in flows)  # two hosts share an uplink


def test_junit_has_a_case_per_expectation_and_the_reason_of_each_failure(finished: FinishedRun) -> None:
    suite = ET.parse(finished.folder / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own file
    assert suite is not None
    assert (suite.get("name"), suite.get("tests"), suite.get("failures"), suite.get("errors")) == (
        "trial",
        "5",
        "1",
        "0",
    )
    failed = {case.get("name"): case.findtext("failure") for case in suite.iter("testcase")}
    assert failed["wrong_bytes == 0"] == "wrong_bytes was 3, exactly 0 was expected"
    assert failed["qp_errors == 0"] is None


def test_equal_expectations_are_two_cases_of_junit() -> None:
    suite = junit_suite("trial", [Case("trial", "qp_errors == 0"), Case("trial", "qp_errors == 0")])
    assert [case.get("name") for case in suite] == ["qp_errors == 0", "qp_errors == 0 (2)"]


def test_junit_of_an_interrupted_run_is_not_green(tmp_path: Path) -> None:
    trial = Trial(FLAP)
    trial.clock.interrupt_at_ns = 3_000_000_000
    interrupted = trial.execute(tmp_path)
    suite = ET.parse(interrupted.folder / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own file
    assert suite is not None
    assert suite.get("errors") == "1"
    error = suite.find("testcase[@name='run']/error")
    assert error is not None
    assert (error.get("type"), error.text) == ("interrupted", "interrupted by SIGINT")


def test_summary_names_verdict_reasons_and_recovery(finished: FinishedRun) -> None:
    summary = (finished.folder / "summary.md").read_text()
    assert summary.startswith("# trial: failed\n\n1 of 4 expectations did not hold.\n")
    assert "| `wrong_bytes == 0` | **failed** | wrong_bytes was 3, exactly 0 was expected |" in summary
    assert "| flap1 | 4 | " in summary


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours runs after it."""


@pytest.fixture
def partial(tmp_path: Path) -> Path:
    """The folder of a run that was killed three seconds in."""
    trial = Trial(FLAP)
    wait = trial.clock.wait_until_ns

    def wait_or_die(deadline_ns: int) -> None:
        if deadline_ns > 3_000_000_000:
            raise Killed
        wait(deadline_ns)

    trial.clock.wait_until_ns = wait_or_die  # type: ignore[method-assign]
    with (
        ResultFolder(tmp_path, trial.plan, FLAP, trial.clock.utc_now(), provenance()) as folder,
        pytest.raises(Killed),
        trial.world() as world,
    ):
        Runner(trial.plan, world, folder, lambda _: None).run()
    return folder.path


def test_a_killed_run_leaves_what_it_had_measured(partial: Path) -> None:
    assert json.loads((partial / "manifest.json").read_text())["status"] == "running"
    assert len(rows(partial / "series.csv")) > 25
    assert [event["event"] for event in events(partial)].count("fault-applied") >= 3
    assert (partial / "plan.json").is_file()


def test_a_killed_run_is_not_the_latest(partial: Path) -> None:
    assert not (partial.parent / "latest").exists()


def test_the_shape_of_an_unfinished_manifest_is_that_of_a_finished_one_in_part(
    partial: Path, finished: FinishedRun
) -> None:
    begun = shape(json.loads((partial / "manifest.json").read_text()))
    whole = shape(json.loads((finished.folder / "manifest.json").read_text()))
    assert begun.items() <= whole.items()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    trial = Trial(FLAP)
    with pytest.raises(TestbedError) as caught:
        trial.execute(tmp_path / "runs")
    assert caught.value.message == f"results cannot be written to {tmp_path}/runs: Not a directory"
    assert not trial.calls, "nothing was started"


def test_a_disk_that_fills_up_ends_the_run_and_reverts_its_faults(tmp_path: Path) -> None:
    """The limit on the size of a file stands for a full disk: a write in mid-run fails."""
    trial = Trial(FLAP)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, before[1]))
    try:
        with pytest.raises(TestbedError) as caught:
            trial.execute(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    folder = next(path for path in (tmp_path / "trial").iterdir())
    assert caught.value.message == f"results cannot be written to {folder}: File too large"
    assert "stop main" not in trial.calls, "the run was not carried on for nothing"
    assert not trial.left
    assert (folder / "series.csv").stat().st_size == 6000


def provenance(**changes: str | int) -> Provenance:
    values: dict[str, Any] = {
        "mrc_testbed": "1",
        "python": "3",
        "kernel": "6",
        "architecture": "x86_64",
        "cpu": "c",
        "cpu_count": 2,
        "memory_bytes": 1,
        "lab": "l",
        "runtime": "netns",
    }
    return Provenance(**(values | changes))


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    plan, now = resolve(load_scenario(FLAP)), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    paths = set()
    for _ in range(3):
        with ResultFolder(tmp_path, plan, None, now, provenance()) as folder:
            paths.add(folder.path)
    assert len(paths) == 3


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("processor\t: 0\nmodel name\t: A: fast one\n", "A: fast one"),
        ("processor\t: 0\n", "unknown"),
        ("", "unknown"),
    ],
)
def test_cpu_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, model: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr("mrc_testbed.scenario.measure.provenance._CPU_INFO", tmp_path / "cpuinfo")
    assert cpu_model() == model


def test_provenance_of_this_machine() -> None:
    found = observe_provenance("l", "docker")
    assert found.cpu_count >= 1
    assert found.memory_bytes > 2**28
    assert (found.lab, found.runtime) == ("l", "docker")


def test_a_missing_chart_library_is_reported_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc_testbed.report.page._LIBRARY", "nowhere")
    for cached in (page.asset, page.chart_script):
        cached.cache_clear()
    with pytest.raises(TestbedError, match="which draws charts, is missing") as caught:
        Trial(FLAP).execute(tmp_path)
    assert caught.value.hint == "make charts"
    assert list(tmp_path.iterdir()) == []
