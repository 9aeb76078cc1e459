"""Reports of runs by the run's id: what is recorded, and what is refused to strangers."""

import os
import shutil
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace

import pytest

from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.metrics.run_info import read_run
from mrc_testbed.observe import run_reports
from mrc_testbed.observe.run_reports import KEPT, REPORT_BYTES_MAX, forget_runs, record_run, report_page
from mrc_testbed.scenario.run.live import LiveLab

RUN = "20261127T134102Z-5c230e"
PLAN = SimpleNamespace(scenario="flap", seed=42, faults=())
OTHER = "root's own"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A state folder."""
    folder = tmp_path / "state"
    folder.mkdir(0o700)
    return folder


@pytest.fixture
def results(tmp_path: Path, root: Path) -> Path:
    """The recorded folder of a run that has ended."""
    folder = tmp_path / "runs" / "flap" / RUN
    folder.mkdir(parents=True)
    record_run(root, folder)
    (folder / "report.html").write_text("<p>fine</p>")
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder with a report that is none of the run's."""
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "report.html").write_text(OTHER)
    return folder


def refused(root: Path, run: str = RUN) -> str:
    """The line that takes the place of a report."""
    page = report_page(root, run)
    assert page.status is HTTPStatus.NOT_FOUND
    assert page.content_type.startswith("text/plain")
    line = page.body.decode()
    assert line.count("\n") == 1
    assert OTHER not in line
    return line


def test_the_report_of_a_run_is_a_page_that_can_ask_for_nothing(root: Path, results: Path) -> None:
    page = report_page(root, RUN)
    assert (page.status, page.body) == (HTTPStatus.OK, b"<p>fine</p>")
    assert page.content_type == "text/html; charset=utf-8"
    policy = str(page.policy)
    assert "default-src 'none'" in policy
    assert policy.endswith("sandbox allow-scripts")


def test_a_run_that_goes_on_has_no_report(root: Path, results: Path) -> None:
    (results / "report.html").unlink()
    assert refused(root) == f"run {RUN} has no report: it is still going on, or it was killed\n"


def test_results_that_are_gone_are_said_to_be(root: Path, results: Path) -> None:
    shutil.rmtree(results)
    assert refused(root) == f"the results of run {RUN} are gone from {results}\n"


@pytest.mark.parametrize(
    "run",
    [
        "",
        "20261127T134102Z-000000",
        "..",
        f"../.reports/{RUN}",
        f"..%2f.reports%2f{RUN}",
        f"./{RUN}",
        f"{RUN}/",
        f"{RUN}\n",
        f"{RUN}.new",
        f"/{RUN}",
        "²0261127T134102Z-5c230e",
    ],
)
def test_what_is_no_id_of_a_known_run_is_refused(root: Path, results: Path, run: str) -> None:
    line = refused(root, run)
    assert line.startswith("no such run is known")
    assert run not in line or not run


def test_nothing_is_known_without_records(root: Path) -> None:
    assert refused(root).startswith("no such run is known")


def test_a_link_in_place_of_the_report_is_refused(root: Path, results: Path, secret: Path) -> None:
    (results / "report.html").unlink()
    (results / "report.html").symlink_to(secret / "report.html")
    assert refused(root) == f"run {RUN} has no report that can be shown\n"


def test_a_second_name_of_another_file_is_refused(root: Path, results: Path, secret: Path) -> None:
    (results / "report.html").unlink()
    (results / "report.html").hardlink_to(secret / "report.html")
    assert refused(root) == f"run {RUN} has no report that can be shown\n"


def test_a_fifo_holds_nobody_up(root: Path, results: Path) -> None:
    (results / "report.html").unlink()
    os.mkfifo(results / "report.html")
    assert refused(root) == f"run {RUN} has no report that can be shown\n"


def test_a_folder_in_place_of_the_report_is_refused(root: Path, results: Path) -> None:
    (results / "report.html").unlink()
    (results / "report.html").mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert refused(root) == f"run {RUN} has no report that can be shown\n"
    assert len(list(Path("/proc/self/fd").iterdir())) == before  # strangers may ask as often as they like


def test_a_report_that_is_too_large_is_refused(root: Path, results: Path) -> None:
    os.truncate(results / "report.html", REPORT_BYTES_MAX)
    assert report_page(root, RUN).status is HTTPStatus.OK
    os.truncate(results / "report.html", REPORT_BYTES_MAX + 1)
    assert refused(root) == f"run {RUN} has no report that can be shown\n"


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("is_link", [True, False])
def test_another_folder_in_place_of_the_results_is_refused(
    root: Path, results: Path, secret: Path, level: int, is_link: bool
) -> None:
    (secret / RUN).mkdir()
    (secret / RUN / "report.html").write_text(OTHER)
    place, other = [(results, secret / RUN), (results.parent, secret)][level]
    place.rename(root / "moved")
    if is_link:
        place.symlink_to(other)
    else:
        other.rename(place)
    assert refused(root) == f"the results of run {RUN} are gone from {results}\n"


def test_a_link_to_the_results_themselves_is_refused(root: Path, results: Path) -> None:
    results.rename(results.parent / "moved")
    results.symlink_to("moved")
    assert "are gone from" in refused(root)


@pytest.mark.root
def test_a_file_of_another_owner_is_refused(root: Path, results: Path) -> None:
    os.chown(results, 65534, 65534)
    assert refused(root) == f"run {RUN} has no report that can be shown\n"
    os.chown(results / "report.html", 65534, 65534)  # results that root gave away
    assert report_page(root, RUN).status is HTTPStatus.OK


def test_records_that_others_can_write_count_for_nothing(root: Path, results: Path) -> None:
    (root / ".reports").chmod(0o777)
    assert refused(root).startswith("no such run is known")
    with pytest.raises(PermissionError):
        record_run(root, results)


def test_records_elsewhere_count_for_nothing(root: Path, results: Path, tmp_path: Path) -> None:
    (root / ".reports").rename(tmp_path / "elsewhere")
    (root / ".reports").symlink_to(tmp_path / "elsewhere")
    assert refused(root).startswith("no such run is known")
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        record_run(root, results)


def test_a_damaged_record_counts_for_nothing(root: Path, results: Path) -> None:
    (root / ".reports" / RUN).write_text("{}")
    assert refused(root).startswith("no such run is known")


def test_the_newest_runs_are_kept(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reports, "KEPT", 2)
    assert KEPT == 200
    runs = [f"2026112{day}T000000Z-5c230e" for day in (3, 1, 2)]
    for run in runs:
        (tmp_path / run).mkdir()
        record_run(root, tmp_path / run)
    assert {path.name for path in (root / ".reports").iterdir()} == {runs[0], runs[2]}


def test_records_are_for_their_owner_only_and_can_be_forgotten(root: Path, results: Path) -> None:
    folder = root / ".reports"
    assert (folder.stat().st_mode & 0o777, (folder / RUN).stat().st_mode & 0o777) == (0o700, 0o600)
    forget_runs(root)
    forget_runs(root)
    assert not folder.exists()
    assert results.exists()


def made_lab(root: Path) -> tuple[LiveLab, LabPaths]:
    """A lab that can announce runs."""
    paths = LabPaths(root, "a")
    paths.folder.mkdir()
    return LiveLab(SimpleNamespace(name="a", runtime="netns", paths=paths, state_dir=paths.folder)), paths  # type: ignore[arg-type]


def test_a_live_run_is_recorded_and_announced(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab, paths = made_lab(root)
    results = tmp_path / RUN
    results.mkdir()
    with lab.announced(PLAN, results):  # type: ignore[arg-type]
        info = read_run(paths.folder)
        assert info is not None
        assert (info.run, info.seed) == (RUN, 42)
        assert "still going on" in refused(root)
    (results / "report.html").write_text("done")
    assert report_page(root, RUN).body == b"done"
    assert not caplog.records


def test_a_run_that_cannot_be_recorded_goes_on(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lab, paths = made_lab(root)
    results = tmp_path / os.fsdecode(b"\xff") / RUN
    results.mkdir(parents=True)
    with lab.announced(PLAN, results):  # type: ignore[arg-type]
        assert read_run(paths.folder) is not None
    assert "will not show this run's report" in caplog.text
