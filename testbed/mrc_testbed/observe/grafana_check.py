"""A check of the dashboards in a Grafana as it is there: panel types, its stored copy, every query."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mrc_testbed.errors import UsageError
from mrc_testbed.observe.grafana_api import Grafana, checked_in_dashboards
from mrc_testbed.observe.grafana_server import SOURCE_UID

_KEPT: Final = ("title", "panels", "templating", "annotations", "links")
"""Keys of a dashboard that Grafana stores as they are."""

_ANY: Final = {"$plane": ".*", "$node": ".*"}
_OF_PAGES: Final = "row"


@dataclass(frozen=True, slots=True)
class DashboardCheck:
    title: str  # of the dashboard
    panels: int  # how many it has
    queries: int  # how many were asked
    with_data: int  # how many of them returned any
    problems: tuple[str, ...]  # one sentence each; empty when all is well


def choose_source(settings: Mapping[str, Any], name: str | None) -> str:
    """Uid of the data source to ask: that of *name*, ours, Grafana's default, or the only Prometheus.

    Args:
        settings: as `Grafana.settings` gives them.
        name: of a data source; None: the others in turn.
    """
    sources = {
        label: source
        for label, source in settings.get("datasources", {}).items()
        if source.get("type") == "prometheus"
    }
    known = ", ".join(sources) or "none"
    if name is not None:
        if name not in sources:
            raise UsageError(f"Grafana has no Prometheus data source {name!r}; it has: {known}")
        return str(sources[name]["uid"])
    ours = [source["uid"] for source in sources.values() if source["uid"] == SOURCE_UID]
    default = [
        source["uid"] for label, source in sources.items() if label == settings.get("defaultDatasource")
    ]
    found = ours or default or [source["uid"] for source in sources.values()]
    if len(found) != 1:
        raise UsageError(
            f"Grafana has several Prometheus data sources: {known}", hint="name one with --data-source"
        )
    return str(found[0])


def check_dashboards(grafana: Grafana, lab: str, source: str | None = None) -> tuple[DashboardCheck, ...]:
    """Check each of the dashboards in *grafana*.

    Args:
        grafana: into which they were pushed or imported.
        lab: whose data the queries ask for; without it they are asked all the same.
        source: name of the data source; see `choose_source`.
    """
    settings = grafana.settings()
    source_uid = choose_source(settings, source)
    return tuple(
        _check(grafana, wanted, source_uid, lab, frozenset(settings.get("panels", {})))
        for wanted in checked_in_dashboards()
    )


def _check(
    grafana: Grafana, wanted: Mapping[str, Any], source_uid: str, lab: str, types: frozenset[str]
) -> DashboardCheck:
    stored = grafana.stored_dashboard(wanted["uid"])
    panels = [panel for panel in wanted["panels"] if panel["type"] != _OF_PAGES]
    if stored is None:
        return DashboardCheck(
            wanted["title"],
            len(panels),
            0,
            0,
            ("it is not there: `mrc-testbed observe dashboards push` puts it there",),
        )
    problems = [
        f"its {key} differ from ours: it was edited there, or is of another version"
        for key in _KEPT
        if stored.get(key) != wanted.get(key)
    ]
    problems += [
        f"panel {panel['title']!r} is of type {panel['type']!r}, which this Grafana does not have"
        for panel in panels
        if panel["type"] not in types
    ]
    asked, with_data = 0, 0
    for place, expression in _queries(wanted, panels):
        error, has_data = grafana.query(source_uid, _for_lab(expression, lab))
        asked, with_data = asked + 1, with_data + has_data
        if error is not None:
            problems.append(f"{place}: {error}")
    return DashboardCheck(wanted["title"], len(panels), asked, with_data, tuple(problems))


def _queries(dashboard: Mapping[str, Any], panels: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Where each query stands, and the query."""
    for panel in panels:
        for target in panel["targets"]:
            yield f"panel {panel['title']!r}", target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield f"annotation {annotation['name']!r}", annotation["expr"]


def _for_lab(expression: str, lab: str) -> str:
    """The query with the dashboards' own variables replaced; Grafana replaces its own."""
    for name, value in {**_ANY, "$lab": lab}.items():
        expression = expression.replace(name, value)
    return expression
