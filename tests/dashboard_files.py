"""The dashboards and rules as they are checked in, and the queries in them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "dashboards"
JSON_FOLDER = FOLDER / "json"
RULES = FOLDER / "rules" / "mrc-testbed.yaml"
RULE_TESTS = sorted((FOLDER / "rules").glob("*.test.yaml"))

GRAFANA_VARIABLES = {"$__rate_interval": "4s", "$plane": ".*", "$node": ".*"}


@dataclass(frozen=True)
class PanelQuery:
    """One query of a panel, as Prometheus gets it."""

    dashboard: str
    panel: str
    expression: str

    def for_lab(self, lab: str, range_s: int = 60) -> str:
        """The expression with Grafana's variables replaced; the dashboard shows the last *range_s*."""
        text = self.expression.replace("$lab", lab).replace("$__range", f"{range_s}s")
        for name, value in GRAFANA_VARIABLES.items():
            text = text.replace(name, value)
        return text

    def __str__(self) -> str:
        return f"{self.dashboard}: {self.panel}"


def load_dashboards() -> dict[str, dict[str, Any]]:
    """File name without its ending -> dashboard."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(JSON_FOLDER.glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Its panels without the headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def queries() -> Iterator[PanelQuery]:
    """Every query of every dashboard, fault windows too."""
    for name, dashboard in load_dashboards().items():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield PanelQuery(name, panel["title"], target["expr"])
        for annotation in dashboard["annotations"]["list"]:
            yield PanelQuery(name, annotation["name"], annotation["expr"])


def records() -> dict[str, str]:
    """Name of each recording rule -> its expression."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"] if "record" in rule}


def metrics_and_matchers(expression: str) -> list[tuple[str, set[str]]]:
    """Name of each metric or record in an expression, and the labels that it is chosen by."""
    name = r"(?<![\w:])(\w+:\w+:\w+|(?:mrc_|scrape_)\w+|ALERTS(?:_FOR_STATE)?)(?![\w:])"
    found = re.findall(name + r"(?:\{([^}]*)\})?", expression)
    return [(name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", braces))) for name, braces in found]
