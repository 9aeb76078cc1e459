"""The reference page of Scenario files, made from the models; run as a module, it prints the page."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, Final

from mrc_testbed.faults.spec import KINDS
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

_SECTIONS: Final[Sections] = (
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


def reference_page() -> str:
    """The page, in Markdown: the template with its tables filled in."""
    page = (
        resources.files("mrc_testbed.scenario").joinpath("reference_template.md").read_text(encoding="utf-8")
    )
    models = model_sections(scenario_schema()["$defs"], _SECTIONS)
    tables = {"@models": models, "@quantities": _quantities(), "@statuses": _statuses()}
    for marker, lines in tables.items():
        page = page.replace(f"{marker}\n", "".join(lines))
    return page


def model_sections(definitions: Mapping[str, _Schema], sections: Sections) -> Iterator[str]:
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


if __name__ == "__main__":
    sys.stdout.write(reference_page())
