"""Answers of a live Prometheus to the queries of the dashboards, in the form that draw.tsx reads."""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any, Final

from dashboard_files import PanelQuery, load_dashboards, panels
from scenes import Scene

if TYPE_CHECKING:
    from live_prometheus import Prometheus

STEP_S: Final = 1
"""Distance of two points: as Grafana asks for up to some twenty minutes with a data source of 1 s."""

Labels = dict[str, str]


@dataclass(frozen=True)
class Answer:
    """The answer to one query of a panel."""

    expression: str  # as Prometheus got it
    target: dict[str, Any]  # the query as the dashboard has it
    series: list[tuple[Labels, list[tuple[float, float]]]]  # labels, and time and value of each sample

    def values(self) -> list[float]:
        """All values that are numbers."""
        return [value for _, samples in self.series for _, value in samples if isfinite(value)]


def ask(prometheus: "Prometheus", scene: Scene) -> dict[str, dict[int, list[Answer]]]:
    """Answers by dashboard and id of the panel."""
    return {
        name: {
            panel["id"]: [_answer(prometheus, scene, name, panel, target) for target in panel["targets"]]
            for panel in panels(dashboard)
        }
        for name, dashboard in load_dashboards().items()
    }


def windows(prometheus: "Prometheus", scene: Scene) -> list[dict[str, Any]]:
    """The times in which a fault was active, as the annotation of every dashboard finds them."""
    (annotation,) = load_dashboards()["overview"]["annotations"]["list"]
    expression = PanelQuery("overview", annotation["name"], annotation["expr"]).for_lab(scene.lab)
    return [
        {"id": labels["fault_id"], "from_ms": begun_s * 1000, "to_ms": ended_s * 1000}
        for labels, samples in prometheus.query_range(expression, scene.start_s, scene.end_s)
        for begun_s, ended_s in _spans([time_s for time_s, _ in samples])
    ]


def _spans(times_s: list[float]) -> list[tuple[float, float]]:
    """First and last of each group of times that no step is missing in."""
    ends = [after for before, after in pairwise(times_s) if after - before > 1.5 * STEP_S]
    begins = [times_s[0], *ends]
    return [
        (one, max(at for at in times_s if at < other)) for one, other in pairwise([*begins, float("inf")])
    ]


def _answer(
    prometheus: "Prometheus", scene: Scene, name: str, panel: dict[str, Any], target: dict[str, Any]
) -> Answer:
    range_s = ceil(scene.end_s - scene.start_s)
    expression = PanelQuery(name, panel["title"], target["expr"]).for_lab(scene.lab, range_s)
    if target.get("instant"):
        found = [
            (labels, [(scene.end_s, value)]) for labels, value in prometheus.query(expression, scene.end_s)
        ]
    else:
        found = prometheus.query_range(expression, scene.start_s, scene.end_s)
    return Answer(expression, target, found)


def as_drawn(answer: Answer, scene: Scene) -> dict[str, Any]:
    """The answer for draw.tsx: a value or null for each step, since lines have gaps where there are none."""
    target = answer.target
    steps = range(int((scene.end_s - scene.start_s) // STEP_S) + 1)
    times_s = [scene.end_s] if target.get("instant") else [scene.start_s + step * STEP_S for step in steps]
    grid_ms = [round(time_s * 1000) for time_s in times_s]
    return {
        "refId": target["refId"],
        "legend": target["legendFormat"],
        "format": target.get("format", "time_series"),
        "series": [
            {"labels": labels, "times": grid_ms, "values": [values.get(at_ms) for at_ms in grid_ms]}
            for labels, samples in answer.series
            for values in [{round(at_s * 1000): value for at_s, value in samples if isfinite(value)}]
        ],
    }
