"""A Grafana of the user's own dies in mid-run: no run notices, commands say it, and it can return."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from grafana_double import TOKEN, GrafanaDouble, serving
from observed_lab import LINK, VERDICTS, ObservedLab, observing, write
from waiting import DEADLINE_S

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow("waits for what a Grafana did not get; test_scrape.py is the short one"),
]

LAB = f"grd{os.getpid()}"
FLAP = {
    "id": "flap1",
    "kind": "link-flap",
    "at": "1s",
    "for": "9s",
    "every": "3s",
    "down": "300ms",
    "select": {"links": LINK},
}


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """The context that the double runs in; closed, it has died."""
    with ExitStack() as opened:
        yield opened


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_grafana_that_dies_harms_no_run_is_reported_and_gets_the_windows_later(running: ExitStack) -> None:
    double = running.enter_context(serving(GrafanaDouble()))
    token = {"MRC_TESTBED_GRAFANA_TOKEN": TOKEN}
    with observing(LAB, "--grafana-url", double.url, variables=token) as observed:
        command = observed.command
        assert len(double.dashboards) == 7
        scenario = command.write_scenario("watched", [write("h0", "h3", "12s")], [FLAP])
        with command.running(scenario) as run:
            observed.prometheus.wait_for(f'mrc_fault_active{{lab="{LAB}"}}', lambda value: value == 1)
            running.close()
            assert run.process.wait(DEADLINE_S) in VERDICTS
            finished = run.finished()
        windows = len(list(finished.events("fault-applied")))
        assert windows == 3
        assert [entry["passed"] for entry in finished.manifest["expectations"]] == [True]
        before = digests(finished.folder)

        _says_that_nobody_answers(observed, double.url, ("observe", "status"))
        for arguments in (("annotate", str(finished.folder)), ("push",)):
            _says_that_nobody_answers(observed, double.url, ("observe", "dashboards", *arguments))
        assert digests(finished.folder) == before

        again = running.enter_context(serving(GrafanaDouble(), urlsplit(double.url).port or 0))
        assert json.loads(command.succeeds("observe", "status", "-o", "json"))["problems"] == []
        command.succeeds("observe", "dashboards", "push")
        assert len(again.dashboards) == 7
        said = command.succeeds("observe", "dashboards", "annotate", str(finished.folder))
        assert f"{windows} of the {windows} fault windows" in said
        assert len(again.annotations) == windows


def _says_that_nobody_answers(observed: ObservedLab, url: str, arguments: tuple[str, ...]) -> None:
    finished = observed.command(*arguments)
    assert finished.returncode == 1
    said = finished.stdout + finished.stderr
    assert f"Grafana does not answer at {url}" in said or f"no Grafana answers at {url}" in said
    assert "Traceback" not in said
