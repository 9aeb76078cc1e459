"""Pages of the exporter besides the metrics: alerts, reports."""

import ast
import http.client
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from waiting import DEADLINE_S

from mrc_testbed.installation import shipped
from mrc_testbed.metrics.exporter import Pages, exporter_running
from mrc_testbed.observe.prometheus import RUNBOOK, alert_pages
from mrc_testbed.observe.run_reports import record_run, report_page

RUN = "20261127T134102Z-5c230e"


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[http.client.HTTPConnection]:
    """To an exporter without labs."""
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path))
    pages: Pages = {"alerts": alert_pages(), "runs": partial(report_page, tmp_path)}
    with exporter_running(port=0, pages=pages) as url:
        opened = http.client.HTTPConnection(urlsplit(url).netloc, timeout=DEADLINE_S)
        yield opened
        opened.close()


def get(connection: http.client.HTTPConnection, path: str) -> tuple[int, str, str]:
    """Status, type and text of a page."""
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.headers["Content-Type"], answer.read().decode()


@pytest.mark.parametrize("name", ["MrcLinkDown", "mrclinkdown", "MRCLINKDOWN?x=1"])
def test_an_alert_has_its_part_of_the_page(connection: http.client.HTTPConnection, name: str) -> None:
    status, content_type, text = get(connection, f"/alerts/{name}")
    assert (status, content_type) == (200, "text/plain; charset=utf-8")
    assert text.startswith("## MrcLinkDown\n")
    assert text.count("\n## ") == 0
    assert "fault list" in text
    assert text in shipped(RUNBOOK).read_text()


@pytest.mark.parametrize("path", ["/alerts", "/alerts/"])
def test_the_whole_page_of_alerts(connection: http.client.HTTPConnection, path: str) -> None:
    assert get(connection, path) == (200, "text/plain; charset=utf-8", shipped(RUNBOOK).read_text())


@pytest.mark.parametrize("name", ["MrcNone", "../../README.md", "What%20names%20what", "MrcLinkDown/"])
def test_no_other_alert_has_a_page(connection: http.client.HTTPConnection, name: str) -> None:
    status, _, text = get(connection, f"/alerts/{name}")
    assert (status, text) == (404, "no alert has this name; /alerts has them all\n")


def test_a_report_has_a_policy_of_its_own_and_the_next_page_has_not(
    connection: http.client.HTTPConnection, tmp_path: Path
) -> None:
    folder = tmp_path / RUN
    folder.mkdir()
    (folder / "report.html").write_text("<p>µs</p>")
    record_run(tmp_path, folder)
    connection.request("GET", f"/runs/{RUN}")
    answer = connection.getresponse()
    assert (answer.status, answer.read().decode()) == (200, "<p>µs</p>")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "sandbox allow-scripts" in answer.headers["Content-Security-Policy"]
    connection.request("GET", "/runs/x")
    answer = connection.getresponse()
    assert (answer.status, answer.read().count(b"\n")) == (404, 1)
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_the_first_page_lists_the_others(connection: http.client.HTTPConnection) -> None:
    expected = "mrc-testbed exporter: see /metrics /alerts /runs\n"
    assert get(connection, "/") == (200, "text/plain; charset=utf-8", expected)
    assert get(connection, "/run") == (404, "text/plain; charset=utf-8", expected)


def test_a_wheel_brings_the_page_of_alerts() -> None:
    source = (Path(__file__).parents[3] / "hatch_build.py").read_text()
    [listed] = [
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.target) == "_SHIPPED"
    ]
    assert RUNBOOK in listed
