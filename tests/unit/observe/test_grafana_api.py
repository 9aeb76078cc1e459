"""The client against a double of Grafana's HTTP API: what it puts there, what refusals are turned into."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from grafana_double import TOKEN, GrafanaDouble, serving

from mrc_testbed.errors import FabricError, PreflightError, TestbedError, UsageError
from mrc_testbed.observe.grafana_api import Grafana, checked_in_dashboards
from mrc_testbed.observe.grafana_server import FOLDER_UID, SOURCE_UID
from mrc_testbed.observe.run_windows import FaultAnnotation

PROMETHEUS = "http://127.0.0.1:9848"
UIDS = {dashboard["uid"] for dashboard in checked_in_dashboards()}


@pytest.fixture
def double() -> Iterator[GrafanaDouble]:
    """A Grafana that is as it should be."""
    with serving(GrafanaDouble()) as running:
        yield running


def push(double: GrafanaDouble, token: str = TOKEN) -> Any:
    with closing(Grafana(double.url, token)) as grafana:
        return grafana.push(PROMETHEUS)


def test_a_first_push_creates_everything(double: GrafanaDouble) -> None:
    pushed = push(double)
    assert pushed.source == "created"
    assert double.sources[SOURCE_UID]["url"] == PROMETHEUS
    assert double.sources[SOURCE_UID]["jsonData"]["timeInterval"] == "1s"
    assert set(double.folders) == {FOLDER_UID}
    assert set(double.dashboards) == UIDS
    assert all(one["folderUid"] == FOLDER_UID for one in double.dashboards.values())
    assert len(pushed.dashboards) == len(UIDS)
    assert all(path.startswith("/d/mrc-") for path in pushed.dashboards)


def test_a_second_push_brings_everything_up_to_date(double: GrafanaDouble) -> None:
    push(double)
    double.sources[SOURCE_UID]["url"] = "http://gone"
    double.dashboards["mrc-overview"]["dashboard"]["panels"] = []
    pushed = push(double)
    assert pushed.source == "updated"
    assert double.sources[SOURCE_UID]["url"] == PROMETHEUS
    assert double.dashboards["mrc-overview"]["dashboard"]["panels"]
    assert {one["version"] for one in double.dashboards.values()} == {2}
    assert double.requests.count("POST /api/folders") == 1


def test_a_grafana_below_a_path_is_found() -> None:
    with serving(GrafanaDouble(prefix="/grafana")) as double:
        assert push(double).dashboards[0].startswith("/grafana/d/")
        with closing(Grafana(f"{double.url}/", TOKEN)) as grafana:
            assert grafana.version == "11.6.14"


def refusal(double: GrafanaDouble, token: str = TOKEN) -> TestbedError:
    with pytest.raises(TestbedError) as raised:
        push(double, token)
    assert double.url in raised.value.message
    return raised.value


def test_a_wrong_token_is_the_users_to_fix(double: GrafanaDouble) -> None:
    error = refusal(double, "glsa_wrong")
    assert isinstance(error, UsageError)
    assert "does not accept the token: Invalid API key" in error.message
    assert "service account" in str(error.hint)
    assert "glsa_wrong" not in error.message
    assert not double.sources


def test_a_token_that_may_only_look_is_reported_apart(double: GrafanaDouble) -> None:
    double.role = "Viewer"
    error = refusal(double)
    assert isinstance(error, UsageError)
    assert "may not change the folder 'MRC testbed'" in error.message
    assert "role Editor" in str(error.hint)
    assert "observe export" in str(error.hint)


def test_an_editor_pushes_and_removes_all_but_the_data_source(double: GrafanaDouble) -> None:
    double.role = "Editor"
    for _ in range(2):
        assert push(double).source == "refused"
    assert (double.sources, set(double.dashboards)) == ({}, UIDS)
    with closing(Grafana(double.url, TOKEN)) as grafana:
        assert grafana.remove()
    assert not double.dashboards


def test_a_dashboard_of_somebody_else_is_not_overwritten(double: GrafanaDouble) -> None:
    double.taken_title = "MRC / Overview"
    error = refusal(double)
    assert isinstance(error, FabricError)
    assert "something else where the dashboard 'MRC / Overview' belongs" in error.message
    assert "rename or remove" in str(error.hint)
    double.taken_title = ""
    push(double)  # and then it goes on where it stopped
    assert set(double.dashboards) == UIDS


def test_a_data_source_of_somebody_else_is_not_overwritten(double: GrafanaDouble) -> None:
    double.taken_source = True
    assert "something else where the data source belongs" in refusal(double).message


def test_provisioned_dashboards_need_no_push(double: GrafanaDouble) -> None:
    double.is_provisioned = True
    error = refusal(double)
    assert "is provisioned from files" in error.message
    assert "needs no push" in str(error.hint)


def test_a_broken_grafana_is_quoted(double: GrafanaDouble) -> None:
    double.is_broken = True
    error = refusal(double)
    assert "database is locked" in error.message
    assert "status 500" in error.message


@pytest.mark.parametrize("version", ["8.5.27", "9.5.0", "9.5.0-beta1"])
def test_an_old_grafana_is_refused(double: GrafanaDouble, version: str) -> None:
    double.version = version
    error = refusal(double)
    assert isinstance(error, PreflightError)
    assert f"Grafana {version}" in error.message
    assert "10.0 or newer" in error.message
    assert not double.sources


@pytest.mark.parametrize("version", ["10.0.0", "12.1.0", "11.6.14+security-01"])
def test_a_newer_grafana_is_accepted(double: GrafanaDouble, version: str) -> None:
    double.version = version
    assert push(double).source == "created"


def test_what_is_no_grafana_is_reported(double: GrafanaDouble) -> None:
    double.version = ""
    assert "is not Grafana" in refusal(double).message


def test_a_server_that_does_not_answer_is_reported() -> None:
    with serving(GrafanaDouble()) as double:
        pass
    error = refusal(double)
    assert isinstance(error, FabricError)
    assert "no Grafana answers" in error.message
    assert "refused" in error.message
    assert "0x" not in error.message  # no addresses of Python objects


@pytest.mark.parametrize("url", ["127.0.0.1:3000", "ftp://grafana", "http://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="is no address of a Grafana"):
        Grafana(url, TOKEN)


WINDOWS = (
    FaultAnnotation(1_000, 2_000, "flap1", "s: flap1 (link-flap) on p0-t0-0:4, 3 packets lost"),
    FaultAnnotation(3_000, 3_500, "flap1", "s: flap1 (link-flap) on p0-t0-0:4, 1 packets lost"),
)


def test_fault_windows_are_added_once(double: GrafanaDouble) -> None:
    with closing(Grafana(double.url, TOKEN)) as grafana:
        assert grafana.annotate(WINDOWS, "r1") == 2
        assert grafana.annotate(WINDOWS, "r1") == 0
        assert grafana.annotate(WINDOWS[:1], "r2") == 1
    first = double.annotations[0]
    assert (first["time"], first["timeEnd"], first["text"]) == (1_000, 2_000, WINDOWS[0].text)
    assert first["tags"] == ["mrc-testbed", "run:r1", "fault:flap1"]
    assert len(double.annotations) == 3


@pytest.mark.parametrize("answers", [1, 2, 3])
def test_a_server_that_dies_while_windows_are_added_is_reported_and_gets_the_rest_later(
    double: GrafanaDouble, answers: int
) -> None:
    with closing(Grafana(double.url, TOKEN)) as grafana:
        double.answers_left = answers - 1
        with pytest.raises(FabricError, match="no Grafana answers at"):
            grafana.annotate(WINDOWS, "r1")
        known = len(double.annotations)
        double.answers_left = None
        assert grafana.annotate(WINDOWS, "r1") == len(WINDOWS) - known
    assert [(each["time"], each["timeEnd"]) for each in double.annotations] == [
        (window.start_ms, window.end_ms) for window in WINDOWS
    ]


def test_what_was_pushed_can_be_removed(double: GrafanaDouble) -> None:
    push(double)
    with closing(Grafana(double.url, TOKEN)) as grafana:
        assert grafana.remove()
        assert not grafana.remove()
    assert (double.sources, double.folders, double.dashboards) == ({}, {}, {})


def test_the_dashboards_are_those_of_the_clone() -> None:
    folder = Path(__file__).parents[3] / "dashboards" / "json"
    assert checked_in_dashboards() == [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
