"""The check of the dashboards in a Grafana, against a double: its requests, its findings."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from dashboard_files import queries
from grafana_double import PANEL_TYPES, TOKEN, GrafanaDouble, serving

from mrc_testbed.errors import UsageError
from mrc_testbed.observe.grafana_api import Grafana
from mrc_testbed.observe.grafana_check import DashboardCheck, check_dashboards, choose_source
from mrc_testbed.observe.grafana_server import SOURCE_UID


@pytest.fixture
def double() -> Iterator[GrafanaDouble]:
    """A Grafana into which the dashboards were pushed."""
    with serving(GrafanaDouble()) as running:
        with closing(Grafana(running.url, TOKEN)) as grafana:
            grafana.push("http://127.0.0.1:9848")
        yield running


def check(double: GrafanaDouble, source: str | None = None) -> dict[str, DashboardCheck]:
    with closing(Grafana(double.url, TOKEN)) as grafana:
        return {found.title: found for found in check_dashboards(grafana, "lab7", source)}


def problems(double: GrafanaDouble) -> list[str]:
    return [f"{title}: {problem}" for title, found in check(double).items() for problem in found.problems]


def test_a_viewer_has_every_query_asked_for_the_lab_with_grafanas_own_variables(
    double: GrafanaDouble,
) -> None:
    double.role = "Viewer"
    found = check(double)
    assert len(found) == 7
    assert [problem for each in found.values() for problem in each.problems] == []
    asked = double.asked
    assert len(asked) == sum(each.queries for each in found.values()) == len(list(queries()))
    assert all(each.with_data == each.queries for each in found.values())
    assert any('lab="lab7"' in expression for expression in asked)
    assert any("$__rate_interval" in expression for expression in asked)
    assert not any(name in expression for expression in asked for name in ("$lab", "$plane", "$node"))


def test_a_query_that_fails_is_quoted_with_its_panel(double: GrafanaDouble) -> None:
    double.refused_queries = ("mrc_recovery_seconds",)
    found = problems(double)
    assert found
    assert all(line.startswith("MRC / Faults and recovery: panel '") for line in found)
    assert all(line.endswith("': bad_data: parse error") for line in found)


def test_a_panel_type_that_grafana_lacks_is_named(double: GrafanaDouble) -> None:
    double.panel_types = tuple(kind for kind in PANEL_TYPES if kind != "heatmap")
    found = problems(double)
    assert found
    assert all("of type 'heatmap', which this Grafana does not have" in line for line in found)


def test_a_dashboard_that_was_edited_or_is_missing_is_reported(double: GrafanaDouble) -> None:
    double.dashboards["mrc-planes"]["dashboard"]["panels"].pop()
    del double.dashboards["mrc-faults"]
    missing, edited = problems(double)
    assert edited.startswith("MRC / Planes and EVs: its panels differ from ours")
    assert "it is not there: `mrc-testbed observe dashboards push`" in missing


def source(uid: str, kind: str = "prometheus") -> dict[str, str]:
    return {"uid": uid, "type": kind}


def test_the_data_source_is_the_named_ours_the_default_or_the_only_one() -> None:
    several = {"datasources": {"a": source("1"), "b": source("2"), "c": source("3", "loki")}}
    assert choose_source(several, "b") == "2"
    assert choose_source({**several, "defaultDatasource": "a"}, None) == "1"
    assert (
        choose_source({"datasources": {**several["datasources"], "d": source(SOURCE_UID)}}, None)
        == SOURCE_UID
    )
    assert choose_source({"datasources": {"b": source("2"), "c": source("3", "loki")}}, None) == "2"
    for settings, name in ((several, None), (several, "c"), ({}, None)):
        with pytest.raises(UsageError, match="data source"):
            choose_source(settings, name)
