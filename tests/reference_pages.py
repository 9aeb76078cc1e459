"""The reference pages of scenario files, campaign files and metrics, made from the models and the catalogue.

python -m tests.reference_pages scenario > docs/reference/scenario.md
python -m tests.reference_pages campaign > docs/reference/campaign.md
python -m tests.reference_pages metrics > docs/reference/metrics.md
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mrc_testbed.campaign.spec import campaign_schema
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.metric import Metric
from mrc_testbed.scenario.measure.measurement import description
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import scenario_schema
from mrc_testbed.scenario.spec.quantity import QUANTITIES
from mrc_testbed.units import (
    format_duration_ns,
    format_factor,
    format_rate_bps,
    format_ratio,
    format_size_bytes,
)

_Schema = Mapping[str, Any]

_STATUS_MEANINGS: Final = {
    Status.PASSED: "every expectation held",
    Status.FAILED: "an expectation did not hold, or could not be measured",
    Status.ABORTED: "an abort condition was met",
    Status.UNTRUSTED: "the testbed went beyond its own limits: neither a pass nor a failure",
    Status.INTERRUPTED: "a signal (128 + N; 130 for SIGTERM too); faults reverted, results so far kept",
    Status.ERROR: "something broke (6 when clean-up is incomplete); results so far kept",
}

Sections = Sequence[tuple[str, Sequence[str]]]
"""Headings of a page, and the models below each."""

_SCENARIO_SECTIONS: Final[Sections] = (
    ("## spec", ("ScenarioSpec",)),
    ("## Transport", ("TransportSpec",)),
    ("## Fidelity", ("FidelitySpec",)),
    (
        "## Topology",
        ("TopologySpec", "NicSpec", "LinkDelay", "QueueSpec", "EcnSpec", "TrimSpec", "QueueOverride"),
    ),
    (
        "## Workloads",
        (
            *("WriteBw", "WriteLat", "SendRecv", "Incast", "Victim", "Permutation"),
            *("CollectiveSpec", "Training", "ProgramSpec", "TraceSpec"),
        ),
    ),
    ("## Faults", (*(model.__name__ for model in KINDS.values()), "Clear")),
    ("## Selectors", ("LinkSelector", "LinkFilter", "NodeSelector", "NodeFilter", "PlaneSelector")),
    ("## Figure", ("FigureSpec",)),
)

_REFERENCES: Final = {
    "Tier": "tier",
    "LinkSelector": "selector",
    "LinkFilter": "filter",
    "NodeSelector": "selector",
    "NodeFilter": "filter",
    "PlaneSelector": "selector",
}
_QUANTITIES: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    "200ms": ("time", format_duration_ns),
    "100Mbit": ("rate", format_rate_bps),
    "4MiB": ("size", format_size_bytes),
    "5%": ("ratio", format_ratio),
    "x0.01": ("factor", format_factor),
}
"""By the example that the schema of a unit type gives: its name, and how a default is written."""


_PLAIN_TYPES: Final = {
    "boolean": "`true` or `false`",
    "number": "number",
    "integer": "integer",
    "string": "text",
    "object": "mapping",
}
CAMPAIGN_SECTIONS: Final[Sections] = (
    ("## spec", ("CampaignSpec",)),
    ("## A scenario", ("ScenarioEntry",)),
    ("## Seeds", ("SeedRange",)),
    ("## Order", ("ShuffledOrder",)),
    ("## Expectations", ("ExpectationEntry",)),
)


def scenario_page() -> str:
    """The page of scenario files, in Markdown."""
    models = _model_sections(scenario_schema()["$defs"], _SCENARIO_SECTIONS)
    return _page("scenario", models=models, quantities=_quantities(), statuses=_statuses())


def campaign_page() -> str:
    """The page of campaign files."""
    return _page("campaign", models=_model_sections(campaign_schema()["$defs"], CAMPAIGN_SECTIONS))


def metrics_page() -> str:
    """The page of the metrics."""
    return _page("metrics", metrics=map(_row, METRICS))


def _page(name: str, **tables: Iterable[str]) -> str:
    """The template of a page, with its tables in the place of their markers."""
    page = Path(__file__).with_name(f"{name}_page_template.md").read_text()
    for marker, lines in tables.items():
        page = page.replace(f"@{marker}\n", "".join(lines))
    return page


def _model_sections(definitions: Mapping[str, _Schema], sections: Sections) -> Iterator[str]:
    """Markdown: each heading, and a table of the keys of each of its models."""
    for index, (heading, names) in enumerate(sections):
        yield f"\n{heading}\n" if index else f"{heading}\n"
        yield from (_model(definitions[name]) for name in names)


def _model(schema: _Schema) -> str:
    properties: Mapping[str, _Schema] = schema["properties"]
    kinds = properties.get("kind", {})
    kind = " | ".join(kinds.get("enum", [kinds.get("const")])) if kinds.keys() & {"const", "enum"} else None
    is_one_of_several = kind is not None and "kind" in schema.get("required", ())
    lines = [f"\n### kind: {kind}\n"] if is_one_of_several else []
    lines.append(f"\n{schema.get('description', '')}\n\n")
    lines.append("| key | value | default | meaning |\n| --- | --- | --- | --- |\n")
    for key, entry in properties.items():
        if key != "kind" or not is_one_of_several:
            default, meaning = _default(key, entry, schema), _cell(entry.get("description", ""))
            lines.append(f"| `{key}` | {_type(entry)} | {default} | {meaning} |\n")
    return "".join(lines)


def _default(key: str, entry: _Schema, schema: _Schema) -> str:
    if key in schema.get("required", ()):
        return "required"
    default = entry.get("default")
    if default is None:
        return ""
    if default in ([], {}):
        return "none"
    if isinstance(default, dict):
        return "see there"
    if isinstance(default, bool):
        default = str(default).lower()
    elif isinstance(default, int | float) and entry.get("examples"):
        default = _QUANTITIES[entry["examples"][0]][1](default)
    return f"`{default}`"


def _type(entry: _Schema) -> str:
    """The type of an entry as one writes it, in a few words."""
    match entry:
        case {"anyOf": forms} | {"oneOf": forms}:
            named = (_type(form) for form in forms if form.get("type") != "null")
            return " or ".join(dict.fromkeys(named))
        case {"$ref": reference}:
            return _REFERENCES.get(reference.rpartition("/")[2], "mapping")
        case {"const": _} | {"enum": _}:
            return " or ".join(f"`{value}`" for value in entry.get("enum", [entry.get("const")]))
        case {"examples": [example]}:
            return f"{_QUANTITIES[example][0]} like `{example}`"
        case {"type": "array", "items": items}:
            return f"list of {_type(items)}"
        case _:
            return _PLAIN_TYPES[entry["type"]]


def _quantities() -> Iterator[str]:
    for kind in QUANTITIES:
        argument = f"({kind.argument})" if kind.argument else ""
        windows = "yes" if kind.has_windows else "no"
        meaning = _cell(description(kind.name))
        yield f"| `{kind.name}{argument}` | {kind.dimension.value} | {windows} | {meaning} |\n"


def _statuses() -> Iterator[str]:
    for status in Status:
        yield f"| {status.value} | {status.exit_code} | {_STATUS_MEANINGS[status]} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _row(metric: Metric) -> str:
    labels = ", ".join(metric.labels)
    meaning = metric.help
    if metric.buckets is not None:
        first, last = metric.buckets.labels[0], metric.buckets.labels[-1]
        meaning += (
            f" {len(metric.buckets.labels)} buckets from {float(first):g} s to {float(last):.3g} s,"
            f" none wider than {100 * metric.buckets.widest_ratio:.1f} %."
        )
    return f"| `{metric.name}` | {metric.type} | {metric.unit} | {labels} | {meaning} |\n"


if __name__ == "__main__":
    pages = {"scenario": scenario_page, "campaign": campaign_page, "metrics": metrics_page}
    sys.stdout.write(pages[sys.argv[1]]())
