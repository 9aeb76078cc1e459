"""Arguments of verbs, checked against the verb's own signature before it is called.

Ranges are the verb's business; names and types are checked here, so that a wrong one is an error that names
it.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from mrc_agents.errors import UsageError, did_you_mean

_TYPE_NAMES: Final[Mapping[object, str]] = {
    int: "an integer",
    str: "text",
    bool: "true or false",
    NoneType: "null",
    dict: "an object",
    Mapping: "an object",
}


def check_arguments(verb: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Raises UsageError, naming the argument, unless *verb* can be called with *arguments*."""
    named, others, hints = _expectations(getattr(verb, "__func__", verb))
    for name, value in arguments.items():
        if name not in named and others is None:
            known = ", ".join(named) or "none"
            raise UsageError(f"{name}: not an argument{did_you_mean(name, named)}; known: {known}")
        expected = hints[name if name in named else others]  # type: ignore[index] # one of them is there
        if not _fits(value, expected):
            raise UsageError(f"{name}: {value!r}; {type_text(expected)} is accepted")
    for name, each in named.items():
        if each.default is each.empty and name not in arguments:
            raise UsageError(f"{name}: missing; {type_text(hints[name])} is needed")


@cache
def _expectations(
    verb: Callable[..., object],
) -> tuple[dict[str, inspect.Parameter], str | None, dict[str, object]]:
    """Parameters by name, the name of the one that takes all others, and the types of both."""
    parameters = inspect.signature(verb).parameters
    named = {name: each for name, each in parameters.items() if each.kind is not each.VAR_KEYWORD}
    named.pop("self", None)
    others = next((name for name, each in parameters.items() if each.kind is each.VAR_KEYWORD), None)
    return named, others, get_type_hints(verb)


def type_text(expected: object) -> str:
    """The type in words: `an integer or null`, `a list of integers`."""
    origin = get_origin(expected)
    if origin in {UnionType, Union}:
        return " or ".join(type_text(one) for one in get_args(expected))
    if origin is list:
        (item,) = get_args(expected)
        plural = {int: "integers", str: "texts"}.get(item, "objects")
        return f"a list of {plural}"
    return _TYPE_NAMES.get(origin or expected, "any value")


def _fits(value: object, expected: object) -> bool:
    if expected is int:  # first, as nearly all are
        return isinstance(value, int) and not isinstance(value, bool)
    if expected is Any:
        return True
    origin = get_origin(expected)
    if origin in {UnionType, Union}:
        return any(_fits(value, one) for one in get_args(expected))
    if origin is list:
        (item,) = get_args(expected)
        return isinstance(value, list) and all(type(one) is item or _fits(one, item) for one in value)
    return isinstance(value, origin or expected)  # type: ignore[arg-type] # a class: the rest is done
