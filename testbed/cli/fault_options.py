"""Options of `fault add` for the fields that kinds of fault have, as their classes describe them."""

import inspect
from collections import defaultdict
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer

from testbed.cli.suggestion import hosts
from testbed.faults.spec import KINDS, own_fields

_SUGGESTED: Final = {"towards": hosts}
_DESCRIPTIONS_MAX: Final = 2
_TYPES: Final = {"integer": int, "number": float}


def with_fields_of_kinds(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives *function* an option for each field of any kind in place of its `**` parameter.

    An option that is not given is None.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters = [
        parameter.replace(annotation=hints[parameter.name])
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    common = {parameter.name for parameter in parameters}
    for name, schemas in _fields().items():
        if name not in common:
            annotation: Any = Annotated[_type_of(schemas), _option(name, schemas)]
            parameters.append(
                inspect.Parameter(
                    name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation
                )
            )
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _fields() -> dict[str, dict[str, dict[str, Any]]]:
    """By name of a field, its JSON schema in each kind that has it."""
    found: defaultdict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for kind, model in KINDS.items():
        properties = model.model_json_schema()["properties"]
        for name in own_fields(kind):
            found[name][kind] = properties[name]
    return found


def _type_of(schemas: dict[str, dict[str, Any]]) -> Any:
    """What typer makes of the text; units are parsed as in a file."""
    schema = next(iter(schemas.values()))
    if "enum" in schema:
        return Literal[tuple(schema["enum"])] | None
    return _TYPES.get(schema.get("type", ""), str) | None


def _option(name: str, schemas: dict[str, dict[str, Any]]) -> Any:
    schema = next(iter(schemas.values()))
    example = "".join(f", like {text}" for text in schema.get("examples", ())[:1])
    described: defaultdict[str, list[str]] = defaultdict(list)
    for kind, each in schemas.items():
        described[each["description"].rstrip(".")].append(kind)
    if len(described) > _DESCRIPTIONS_MAX:
        described = defaultdict(list, {schema["description"].rstrip("."): list(schemas)})
    help_text = "; ".join(f"{', '.join(kinds)}: {text}" for text, kinds in described.items()) + f"{example}."
    metavar = None if "enum" in schema else "NUMBER" if schema.get("type") in _TYPES else "VALUE"
    return typer.Option(f"--{name}", metavar=metavar, autocompletion=_SUGGESTED.get(name), help=help_text)
