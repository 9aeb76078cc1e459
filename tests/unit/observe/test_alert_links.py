"""Alerts lead to their dashboard and to their part of the page of alerts."""

import json
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
import yaml

from mrc_agents.clock import epoch_ns
from mrc_testbed.cli.app import run
from mrc_testbed.observe.prometheus import write_prometheus_config
from mrc_testbed.observe.stack_state import (
    ServiceName,
    ServiceRecord,
    StackSettings,
    StackState,
    stack_paths,
    write_stack,
)

DASHBOARD = "http://127.0.0.1:9849/d/mrc-fabric?var-lab=a"
RUNBOOK = "http://127.0.0.1:9847/alerts/MrcLinkDown"


@pytest.fixture(autouse=True)
def state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path))


def links_of_the_stack(settings: StackSettings) -> dict[str, str]:
    path = write_prometheus_config(stack_paths(), settings).with_name("rules.yaml")
    [found] = [
        rule["annotations"]
        for group in yaml.safe_load(path.read_text())["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "MrcLinkDown"
    ]
    return {name: url.replace("{{ $labels.lab }}", "a") for name, url in found.items() if "url" in name}


@pytest.mark.parametrize(
    ("settings", "dashboard", "runbook"),
    [
        (StackSettings(), DASHBOARD, RUNBOOK),
        (
            StackSettings(address="::", exporter_port=1, grafana_port=2),
            f"http://{gethostname()}:2/d/mrc-fabric?var-lab=a",
            f"http://{gethostname()}:1/alerts/MrcLinkDown",
        ),
        (
            StackSettings(address=str(IPv4Address(0)), known_as=("lab.example",)),
            "http://lab.example:9849/d/mrc-fabric?var-lab=a",
            "http://lab.example:9847/alerts/MrcLinkDown",
        ),
        (
            StackSettings(grafana_url="https://grafana.example/sub/"),
            "https://grafana.example/sub/d/mrc-fabric?var-lab=a",
            RUNBOOK,
        ),
    ],
)
def test_rules_of_the_stack_have_whole_addresses(
    settings: StackSettings, dashboard: str, runbook: str
) -> None:
    assert links_of_the_stack(settings) == {"dashboard_url": dashboard, "runbook_url": runbook}


def test_links_of_dashboards_lead_to_a_name_that_other_machines_know() -> None:
    settings = StackSettings(address="::", known_as=("lab.example",))
    written = yaml.safe_load(write_prometheus_config(stack_paths(), settings).read_text())
    [target] = written["scrape_configs"][0]["static_configs"]
    assert target == {"targets": ["[::1]:9847"], "labels": {"instance": "lab.example:9847"}}


def reply(url: str, **_: str) -> dict[str, Any]:
    """Two links are down; there is another alert, which does not fire."""
    if url.endswith("/rules"):
        return {"data": {"groups": [{"rules": [{"name": "MrcLinkDown"}, {"name": "MrcQpError"}]}]}}
    labels = {"alertname": "MrcLinkDown", "severity": "warning", "dashboard": "fabric", "lab": "a"}
    annotations = {"summary": "down", "dashboard_url": DASHBOARD, "runbook_url": RUNBOOK}
    began = datetime.fromtimestamp(epoch_ns() / 1e9, UTC).isoformat()
    return {
        "data": {
            "alerts": [
                {
                    "labels": {**labels, "link": link},
                    "annotations": annotations,
                    "state": "firing",
                    "activeAt": began,
                }
                for link in ("l0", "l1")
            ]
        }
    }


@pytest.fixture
def firing(monkeypatch: pytest.MonkeyPatch) -> None:
    prometheus = ServiceRecord(name=ServiceName.PROMETHEUS, kind="own", url="http://127.0.0.1:9848")
    stack_paths().folder.mkdir()
    write_stack(stack_paths(), StackState(settings=StackSettings(), services=(prometheus,)))
    monkeypatch.setattr("mrc_testbed.observe.prometheus.json_of", reply)


def test_the_command_shows_each_address_once_and_no_label_of_it(
    firing: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["observe", "alerts"]) == 0
    said = capsys.readouterr().out
    assert said.count("lab=a link=") == 2
    assert said.count(DASHBOARD) == said.count(RUNBOOK) == 1
    assert "dashboard=" not in said


def test_the_document_has_the_addresses(firing: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["observe", "alerts", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["alerts"][0]
    assert (found["dashboard_url"], found["runbook_url"]) == (DASHBOARD, RUNBOOK)
    assert found["labels"] == {"lab": "a", "link": "l0"}


def test_waiting_says_what_fires_meanwhile_and_at_its_end_what_did_not(
    firing: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mrc_testbed.observe.prometheus.WAIT_NS", 0)
    assert run(["observe", "alerts", "--wait", "MrcQpError"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [f"MrcLinkDown fires: lab=a link={link}" for link in ("l0", "l1")]
    assert "MrcQpError has not fired in 0 s; others that did: MrcLinkDown" in said[-1]
    assert run(["observe", "alerts", "--wait", "MrcLinkDown"]) == 0
    assert run(["observe", "alerts", "--wait", "MrcLinkDwn"]) == 2
    assert "there is no alert 'MrcLinkDwn'; there are: MrcLinkDown, MrcQpError" in capsys.readouterr().err
