"""The dashboards: up to date, of one make, and asking only for what the exporter has."""

import json
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from dashboard_files import (
    FOLDER,
    JSON_FOLDER,
    RULE_TESTS,
    RULES,
    PanelQuery,
    load_dashboards,
    metrics_and_matchers,
    panels,
    queries,
    records,
)
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.__main__ import main
from dashboards.catalogue import dashboard_files
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.metric import MetricType
from mrc_testbed.observe.grafana_server import GRAFANA_VERSION
from mrc_testbed.observe.prometheus import RUNBOOK

DASHBOARDS = load_dashboards()
PROMISED = {"overview", "tail-latency", "planes", "fabric", "faults", "workloads", "health"}
ANNOTATION_EXTRAS = {"step", "tagKeys", "titleFormat", "textFormat"}
SDK_DEFAULTS = ("auto", "auto_min", "auto_count")
"""Keys of variables that the SDK adds and Grafana's schema does not have."""

OF_ALERTS = {"alertname", "severity", "lab", "plane", "switch", "link", "workload", "dashboard"}
OF_PROMETHEUS = {
    "ALERTS": OF_ALERTS | {"alertstate"},
    "ALERTS_FOR_STATE": OF_ALERTS,
    "scrape_duration_seconds": {"job"},
}
EVERY_DASHBOARD = pytest.mark.parametrize("name", sorted(DASHBOARDS))


def known_series() -> dict[str, set[str]]:
    """Name of a series of the exporter or of a record, whose name begins with them -> its labels."""
    known = {name: set(name.partition(":")[0].split("_")) for name in records()}
    for metric in METRICS:
        if metric.type is MetricType.HISTOGRAM:
            known[f"{metric.name}_bucket"] = {*metric.labels, "le"}
            known[f"{metric.name}_sum"] = known[f"{metric.name}_count"] = set(metric.labels)
        else:
            known[metric.name] = set(metric.labels)
    return known


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: mrc-testbed setup host --with-test-tools")
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def test_the_promised_dashboards_are_there() -> None:
    assert set(DASHBOARDS) == PROMISED


def test_the_files_are_up_to_date() -> None:
    # else: .venv/bin/python -m dashboards
    assert {path.name: path.read_text() for path in JSON_FOLDER.iterdir()} == dashboard_files()


def test_writing_them_replaces_what_is_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gone.json").write_text("{}")
    assert main([str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == set(dashboard_files())
    assert capsys.readouterr().out.count(".json\n") == len(PROMISED)


def test_what_draws_them_here_and_what_they_are_built_by_are_of_one_grafana() -> None:
    packages = json.loads((FOLDER.parent / "tests/e2e/dashboards/package.json").read_text())["dependencies"]
    assert {packages["@grafana/ui"], packages["@grafana/data"]} == {GRAFANA_VERSION}
    of_sdk = version("grafana-foundation-sdk").partition("!")[2].rpartition(".")[0]
    assert GRAFANA_VERSION.startswith(f"{of_sdk}.")


@EVERY_DASHBOARD
def test_a_dashboard_is_one_of_grafanas_schema(name: str) -> None:
    """Grafana's published types, which the SDK is made from, read it and lose nothing."""
    raw = DASHBOARDS[name]
    for annotation in raw["annotations"]["list"]:
        for extra in ANNOTATION_EXTRAS:
            assert annotation.pop(extra)
    read = plain(Dashboard.from_json(raw))
    for variable in read["templating"]["list"]:
        for key in SDK_DEFAULTS:
            del variable[key]
    assert read == raw
    DASHBOARDS.update(load_dashboards())


def plain(value: Any) -> Any:
    """A value of the SDK as JSON has it."""
    if hasattr(value, "to_json"):
        return plain(value.to_json())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@EVERY_DASHBOARD
def test_a_dashboard_is_live_linked_and_shows_fault_windows(name: str) -> None:
    dashboard = DASHBOARDS[name]
    assert dashboard["uid"] == f"mrc-{name}"
    assert dashboard["refresh"] == "1s"
    assert "1s" in dashboard["timepicker"]["refresh_intervals"]
    assert dashboard["description"]
    (link,) = dashboard["links"]
    assert (link["tags"], link["includeVars"], link["keepTime"]) == (["mrc-testbed"], True, True)
    assert "mrc-testbed" in dashboard["tags"]
    (windows,) = dashboard["annotations"]["list"]
    assert windows["enable"]
    assert windows["expr"].startswith("mrc_fault_active{")
    assert "filter" not in windows  # of all panels


@EVERY_DASHBOARD
def test_variables_are_those_that_queries_use(name: str) -> None:
    dashboard = DASHBOARDS[name]
    declared = {variable["name"] for variable in dashboard["templating"]["list"]}
    texts = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    used = {found for text in texts for found in re.findall(r"\$([a-z]+)", text)}
    assert used | {"datasource", "exporter"} == declared
    for variable in dashboard["templating"]["list"]:
        query = variable.get("query")
        if isinstance(query, dict):
            (label,) = re.findall(r"label_values\(.*, (\w+)\)", query["query"])
            ((metric, matchers),) = metrics_and_matchers(query["query"])
            assert {label, *matchers} <= known_series()[metric] | {"instance"}


@EVERY_DASHBOARD
def test_panels_explain_themselves_and_do_not_overlap(name: str) -> None:
    dashboard = DASHBOARDS[name]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    cells: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        own = {
            (column, row)
            for column in range(place["x"], place["x"] + place["w"])
            for row in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        cells |= own
    for panel in panels(dashboard):
        assert len(panel["description"]) > 10, panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["targets"]


@pytest.mark.parametrize("query", sorted(set(queries()), key=str), ids=str)
def test_a_query_asks_for_metrics_and_labels_that_exist(query: PanelQuery) -> None:
    known = known_series() | OF_PROMETHEUS
    found = metrics_and_matchers(query.expression)
    assert found
    for metric, matchers in found:
        assert metric in known, metric
        assert matchers <= known[metric], metric
    labels = set().union(*(known[metric] for metric, _ in found))
    for group in re.findall(r"\b(?:by|on) \(([^)]+)\)", query.expression):
        assert set(re.split(r",\s*", group)) <= labels


def test_every_metric_is_on_a_dashboard() -> None:
    named = {name for query in queries() for name, _ in metrics_and_matchers(query.expression)}
    for _ in range(2):  # a record may be one of records
        of_records = [records()[name] for name in named & records().keys()]
        named |= {name for expression in of_records for name, _ in metrics_and_matchers(expression)}
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in named}
    assert {metric.name for metric in METRICS} <= shown | {f"{name}_count" for name in shown}


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    lines = ["groups:", "  - name: panels", "    rules:"]
    for index, query in enumerate(queries()):
        lines += [f"      - record: panel:{index}", f"        expr: '{query.for_lab('default')}'"]
    rules = tmp_path / "panels.yaml"
    rules.write_text("\n".join(lines) + "\n")
    checked = promtool("check", "rules", str(rules))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_rules_hold_their_own_tests() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", *map(str, RULE_TESTS))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_rules_ask_for_metrics_and_labels_that_exist() -> None:
    known = known_series()
    for expression in re.findall(r"expr: (?:>-\n)?((?:.(?!\n {8}\w))*.)", RULES.read_text(), re.DOTALL):
        for metric, matchers in metrics_and_matchers(expression):
            assert matchers <= known[metric], metric


def alert_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def test_every_alert_links_to_the_dashboard_that_its_label_names() -> None:
    for rule in alert_rules():
        name, annotations = rule["labels"]["dashboard"], rule["annotations"]
        assert name in DASHBOARDS
        chosen = "?var-lab={{ $labels.lab }}" if "$labels.lab" in annotations["summary"] else ""
        assert annotations["dashboard_url"] == f"/d/{DASHBOARDS[name]['uid']}{chosen}", rule["alert"]


def test_every_alert_names_its_section_of_the_page_of_alerts() -> None:
    alerts = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in alert_rules()}
    assert alerts == {name: f"{RUNBOOK}#{name.lower()}" for name in alerts}
    sections = re.findall(r"^## (Mrc\w+)$", (FOLDER.parent / RUNBOOK).read_text(), re.MULTILINE)
    assert sections == list(dict.fromkeys(sections))
    assert set(sections) == set(alerts)


def test_every_alert_rule_has_a_test() -> None:
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    tests = "".join(path.read_text() for path in RULE_TESTS)
    assert alerts == set(re.findall(r"alertname: (\w+)\n", tests))


def test_only_development_needs_the_sdk() -> None:
    for package in ("testbed", "agents"):
        for path in (FOLDER.parent / package).rglob("*.py"):
            assert "grafana_foundation_sdk" not in path.read_text(), path
