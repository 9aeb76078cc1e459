"""A tree checked against a pydantic model: every problem of it, once, at its own place and in our words.

pydantic names a location, not a line, and puts union tags into it; it reports a misspelt key twice (unknown
and missing), and every member of a union that did not fit. All of that is undone here.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, core_schema

from mrc_testbed.document.problem import Location, Problem, Tree
from mrc_testbed.errors import TestbedError, closest_name, did_you_mean
from mrc_testbed.units import format_like

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema: the one tree in this package whose shape pydantic decides."""

_FOUND_CHARACTERS_MAX: Final = 60
_KEYS_LISTED_MAX: Final = 16

_EXPECTED: Final = {
    "int": "an integer",
    "float": "a number",
    "string": "text",
    "bool": "true or false",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "model_attributes": "a mapping",
    "none": "nothing",
}

_PYDANTIC_KINDS: Final = frozenset(get_args(core_schema.ErrorType))

AnyModel = TypeVar("AnyModel", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class _Finding:
    """An error with its location split into what the file holds and what pydantic added.

    Args:
        location: in the file; of a missing key, where it should be.
        ends_in_label: the last step of pydantic's location is the label of a union member, not a key.
        written: what the file holds there; None for a missing key.
    """

    error: ErrorDetails
    location: Location
    ends_in_label: bool
    written: Tree

    @property
    def kind(self) -> str:
        """Pydantic's name for what is wrong."""
        return self.error["type"]


def check(tree: Tree, model: type[AnyModel]) -> tuple[AnyModel | None, list[Problem]]:
    """The model made of *tree*, or None and all that is wrong with it.

    The tree goes through JSON because strict models then take a list for a tuple and text for an enumeration
    or an address, and nothing else; units are mandatory in that mode.
    """
    try:
        return model.model_validate_json(json.dumps(tree)), []
    except ValidationError as error:
        return None, _problems(error.errors(include_url=False), tree, model.model_json_schema())


def _problems(errors: Iterable[ErrorDetails], tree: Tree, schema: Schema) -> list[Problem]:
    placed = [_place_error(error, tree) for error in errors]
    unknown, wrong_type, others = [], dict[Location, list[_Finding]](), []
    for finding in placed:
        # No finding of a union member that was not meant: another was entered, and is wrong
        depth = len(finding.location)
        if finding.ends_in_label and any(
            len(other.location) > depth and other.location[:depth] == finding.location for other in placed
        ):
            continue
        if finding.kind == "extra_forbidden":
            unknown.append(finding)
        elif _expected_type(finding) is not None:
            wrong_type.setdefault(finding.location, []).append(finding)
        else:
            others.append(finding)
    problems, explained = _unknown_keys(unknown, others, schema)
    problems += [
        Problem(finding.location, _word_finding(finding, schema))
        for finding in others
        if finding.location not in explained
    ]
    for location, members in wrong_type.items():
        expected = " or ".join(dict.fromkeys(str(_expected_type(member)) for member in members))
        problems.append(Problem(location, f"expected {expected}, found {_word_found(members[0].written)}"))
    return problems


def _unknown_keys(
    unknown: Iterable[_Finding], others: Iterable[_Finding], schema: Schema
) -> tuple[list[Problem], set[Location]]:
    """The problems of unknown keys, and the missing keys that are explained as having been misspelt."""
    missing = {finding.location for finding in others if finding.kind == "missing"}
    explained: set[Location] = set()
    problems = []
    for finding in unknown:
        parent, name = finding.location[:-1], str(finding.location[-1])
        siblings = [str(location[-1]) for location in missing - explained if location[:-1] == parent]
        intended = closest_name(name, siblings)
        if intended is None:
            message = _word_unknown_key(name, accepted_keys(schema, finding.error["loc"][:-1]))
        else:
            explained.add((*parent, intended))
            message = f"unknown key; did you mean {intended!r}, which is missing?"
        problems.append(Problem(finding.location, message))
    return problems, explained


def _place_error(error: ErrorDetails, tree: Tree) -> _Finding:
    """The finding that *error* is in the file *tree*."""
    path = error["loc"]
    if error["type"] == "missing":
        location, _ = _align(path[:-1], tree)
        return _Finding(error, (*location, path[-1]), ends_in_label=False, written=None)
    location, ends_in_key = _align(path, tree)
    return _Finding(error, location, bool(path) and not ends_in_key, _entry(location, tree))


def _align(path: Location, tree: Tree) -> tuple[Location, bool]:
    """The steps of *path* that lead through *tree*, and whether the last one does.

    A tag may be spelt like a key, so both readings are tried: the one that keeps more steps wins, and of two
    equal ones the one that keeps the last step.
    """
    if not path:
        return (), False
    step, rest = path[0], path[1:]
    skipped, skipped_ends = _align(rest, tree)
    match tree, step:
        case dict(), str() if step in tree:
            taken, taken_ends = _align(rest, tree[step])
        case list(), int() if step < len(tree):
            taken, taken_ends = _align(rest, tree[step])
        case _:
            return skipped, skipped_ends
    taken, taken_ends = (step, *taken), taken_ends if rest else True
    if (len(skipped), skipped_ends) > (len(taken), taken_ends):
        return skipped, skipped_ends
    return taken, taken_ends


def _entry(location: Location, tree: Tree) -> Tree:
    for step in location:
        match tree, step:
            case dict(), str():
                tree = tree[step]
            case list(), int():
                tree = tree[step]
    return tree


def _expected_type(finding: _Finding) -> str | None:
    """The type expected, when the entry has the wrong type altogether."""
    family = re.fullmatch(r"(\w+?)_(?:type|parsing|from_float|required|parsing_size)", finding.kind)
    return _EXPECTED.get(family.group(1)) if family else None


def _word_unknown_key(name: str, accepted: list[str]) -> str:
    """The message for a key that the model does not have."""
    suggestion = did_you_mean(name, accepted)
    if not suggestion and 0 < len(accepted) <= _KEYS_LISTED_MAX:
        suggestion = f"; accepted here: {', '.join(accepted)}"
    return f"unknown key{suggestion}"


def _word_finding(finding: _Finding, schema: Schema) -> str:
    """The message for anything but an unknown key or a wrong type."""
    error = finding.error
    if finding.kind in _WORDINGS:
        return _WORDINGS[finding.kind](finding)
    if finding.kind == "union_tag_not_found":
        key = str(error["ctx"]["discriminator"])
        values = ", ".join(discriminator_values(schema, error["loc"]))
        return f"key {key} is missing; one of: {values}"
    if finding.kind not in _PYDANTIC_KINDS:
        return error["msg"]
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, found {_word_found(finding.written)}"


def _word_found(value: Tree) -> str:
    """*value* as it is quoted in a message; long text is cut."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            cut = value[: _FOUND_CHARACTERS_MAX - 3] + "..."
            return repr(value if len(value) <= _FOUND_CHARACTERS_MAX else cut)
        case int() | float():
            return str(value)
        case list():
            return "a list"
        case dict():
            return "a mapping"


def _choice(finding: _Finding) -> str:
    context = finding.error["ctx"]
    expected = str(context.get("expected", context.get("expected_tags")))
    found = context.get("tag", finding.written)
    names = re.findall(r"'([^']*)'", expected)
    suggestion = did_you_mean(found, names) if isinstance(found, str) else ""
    return f"expected {' or '.join(names) or expected}, found {_word_found(found)}{suggestion}"


def _own_words(finding: _Finding) -> str:
    """The text of an error that a validator of ours raised."""
    cause = finding.error["ctx"]["error"]
    if isinstance(cause, TestbedError) and cause.hint is not None:
        return f"{cause.message}; {cause.hint}"
    return str(cause)


def _bound(relation: str, key: str) -> Callable[[_Finding], str]:
    def word(finding: _Finding) -> str:
        limit = finding.error["ctx"][key]
        if isinstance(finding.written, str) and not isinstance(limit, str):
            return f"must be {relation} {format_like(finding.written, limit)}, found {finding.written}"
        return f"must be {relation} {limit}, found {_word_found(finding.written)}"

    return word


def _length(relation: str, key: str, what: str) -> Callable[[_Finding], str]:
    def word(finding: _Finding) -> str:
        has = len(finding.written) if isinstance(finding.written, str | list | dict) else 0
        return f"has {has} {what}, {relation} {finding.error['ctx'][key]} accepted"

    return word


_WORDINGS: Final[dict[str, Callable[[_Finding], str]]] = {
    "missing": lambda _: "required key is missing",
    "value_error": _own_words,
    "assertion_error": _own_words,
    "literal_error": _choice,
    "enum": _choice,
    "union_tag_invalid": _choice,
    "greater_than": _bound("greater than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("at most", "le"),
    "multiple_of": _bound("a multiple of", "multiple_of"),
    "too_short": _length("at least", "min_length", "entries"),
    "too_long": _length("at most", "max_length", "entries"),
    "string_too_short": _length("at least", "min_length", "characters"),
    "string_too_long": _length("at most", "max_length", "characters"),
    "string_pattern_mismatch": lambda finding: (
        f"must match {finding.error['ctx']['pattern']}, found {_word_found(finding.written)}"
    ),
}


def accepted_keys(root: Schema, location: Location) -> list[str]:
    """Names of the keys accepted in the mapping at *location*, sorted.

    Args:
        location: as pydantic reports it, union tags included.
    """
    return sorted({name for schema in _parts(root, location) for name in schema.get("properties", ())})


def discriminator_values(root: Schema, location: Location) -> list[str]:
    """Accepted values of the discriminator of the union at *location*, sorted."""
    return sorted({tag for schema in _parts(root, location) for tag in _tagged(schema)})


def _parts(root: Schema, location: Location) -> list[Schema]:
    """The parts of *root* that describe the entry at *location*."""
    candidates = list(_alternatives(root, root))
    for step in location:
        # A step that leads nowhere is the label of a union member that is already among the candidates.
        candidates = [inner for schema in candidates for inner in _step(root, schema, step)] or candidates
    return candidates


def _tagged(schema: Schema) -> dict[str, str]:
    """Discriminator value to `$ref` of a discriminated union; empty for any other schema."""
    return dict(schema.get("discriminator", {}).get("mapping", {}))


def _alternatives(root: Schema, schema: Schema) -> Iterator[Schema]:
    """The schema and all it may stand for, through `$ref` and unions; tagged members only by their tag."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    yield schema
    if _tagged(schema):
        return
    for keyword in ("anyOf", "oneOf", "allOf"):
        for member in schema.get(keyword, ()):
            yield from _alternatives(root, member)


def _step(root: Schema, schema: Schema, step: str | int) -> Iterator[Schema]:
    """The parts of *schema* that describe its entry *step*: a key, a list index, or a union tag."""
    inner: object = None
    if isinstance(step, int):
        inner = schema.get("items")
    elif step in _tagged(schema):
        inner = {"$ref": _tagged(schema)[step]}
    elif step in schema.get("properties", {}):
        inner = schema["properties"][step]
    elif "properties" not in schema:
        inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        yield from _alternatives(root, inner)
