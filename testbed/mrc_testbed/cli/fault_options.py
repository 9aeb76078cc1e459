"""Options of `fault add KIND`, from the fields of the kind's class."""

import inspect
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

import typer

from mrc_testbed.cli.suggestion import hosts, links, nodes
from mrc_testbed.faults.spec import KINDS, own_fields

_SUGGESTED: Final = {"towards": hosts, "link": links, "node": nodes}
_TYPES: Final = {"integer": int, "number": float}
_SHORT: Final = {
    "link": ("SELECTOR", "Links, by name, glob or `select` text."),
    "node": ("SELECTOR", "Nodes, by name, glob or `select` text."),
    "plane": ("SELECTOR", "Planes: numbers, or all."),
    "direction": ("WAY", "both, a-to-b, b-to-a (default: both)."),
    "traffic": ("PACKETS", "all, data or control (default: all)."),
    "for": ("TIME", "Duration, like 2s."),
    "until": ("cleared", "Last until `fault clear`."),
    "id": ("ID", "Fault id (default: KIND-NUMBER)."),
    "pick": ("WHICH", "all, first or random of what matches."),
    "count": ("NUMBER", "Number of targets (default: 1)."),
    "optic": ("LINKS", "Links per optical module that fails."),
}
"""Metavar and help of fields that many kinds have: shorter than in the reference of scenario files."""

_EXAMPLES: Final = {"every": "1s", "by": "100us", "burst": "8", "ev": "0x10020003"}


def kind_options(kind: str) -> list[inspect.Parameter]:
    """Keyword parameters with the options of one kind; one that is not given is None.

    Each name has an underscore behind it, which `for` needs.
    """
    return [
        inspect.Parameter(f"{name}_", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in _annotations(kind)
    ]


def example(kind: str) -> str:
    """A command line that adds a fault of that kind."""
    model = KINDS[kind]
    properties = model.model_json_schema()["properties"]
    required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
    own = [
        f" --{name} {_EXAMPLES.get(name) or properties[name]['examples'][0]}"
        for name in own_fields(kind)
        if name in required
    ]
    return f"mrc-testbed fault add {kind} --{model.selects} {model.example}{''.join(own)} --for 5s"


def _annotations(kind: str) -> Iterator[tuple[str, Any]]:
    model = KINDS[kind]
    schema = model.model_json_schema()
    properties = schema["properties"]
    selector = schema["$defs"][properties["select"]["$ref"].rpartition("/")[2]]["properties"]
    yield model.selects, _annotated(model.selects, {})
    for name in (*own_fields(kind), "for", "until", "id"):
        yield name, _annotated(name, properties[name])
    for name in ("pick", "count", "optic"):
        if name in selector:
            yield name, _annotated(name, selector[name])


def _annotated(name: str, schema: dict[str, Any]) -> Any:
    """Type and option of a field; units are parsed as in a file."""
    branches = [schema, *schema.get("anyOf", ())]
    choices = next((tuple(each["enum"]) for each in branches if "enum" in each), None)
    kind: Any = next((_TYPES[each["type"]] for each in branches if each.get("type") in _TYPES), str)
    metavar, text = _SHORT.get(name) or ("VALUE" if kind is str else "NUMBER", _described(schema))
    if choices:
        kind = Literal[choices]
    option = typer.Option(f"--{name}", metavar=metavar, autocompletion=_SUGGESTED.get(name), help=text)
    return Annotated[kind | None, option]


def _described(schema: dict[str, Any]) -> str:
    like = "".join(f", like {text}" for text in schema.get("examples", ())[:1])
    return f"{schema['description'].partition('. ')[0].rstrip('.')}{like}."
