"""A tree checked against a pydantic model: every problem of it, in our words, at its own place.

pydantic names a location, not a line, and puts union tags into it; it reports a misspelt key twice (unknown
and missing), and every member of a union that did not fit. All of that is undone here.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from testbed.document.problem import Location, Problem, Tree
from testbed.document.schema_names import Schema, accepted_keys, discriminator_values
from testbed.errors import TestbedError, closest_name, did_you_mean

AnyModel = TypeVar("AnyModel", bound=BaseModel)

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
_KEYS_LISTED_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class _Finding:
    """One error of pydantic, its location split into what exists in the file and what pydantic added."""

    error: ErrorDetails
    location: Location
    ends_in_label: bool
    """The last step is the label of a union member, not a key."""


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
    findings = [_finding(error, tree) for error in errors]
    findings = [finding for finding in findings if not _is_noise(finding, findings)]
    missing = {finding.location for finding in findings if finding.error["type"] == "missing"}
    problems: list[Problem] = []
    explained: set[Location] = set()
    for finding in findings:
        if finding.error["type"] != "extra_forbidden":
            continue
        parent, name = finding.location[:-1], str(finding.location[-1])
        siblings = [str(location[-1]) for location in missing - explained if location[:-1] == parent]
        intended = closest_name(name, siblings)
        if intended is not None:
            explained.add((*parent, intended))
            message = f"unknown key; did you mean {intended!r}, which is missing?"
        else:
            message = _unknown_key(name, accepted_keys(schema, finding.error["loc"][:-1]))
        problems.append(Problem(finding.location, message))
    wrong_type: dict[Location, list[ErrorDetails]] = {}
    for finding in findings:
        if _expected(finding.error) is not None:
            wrong_type.setdefault(finding.location, []).append(finding.error)
        elif finding.error["type"] != "extra_forbidden" and finding.location not in explained:
            problems.append(Problem(finding.location, _message(finding.error, schema)))
    for location, same in wrong_type.items():
        expected = " or ".join(dict.fromkeys(str(_expected(error)) for error in same))
        problems.append(Problem(location, f"expected {expected}, found {_found(same[0]['input'])}"))
    return problems


def _expected(error: ErrorDetails) -> str | None:
    """What should have been there, when the entry has the wrong type altogether."""
    family = re.fullmatch(r"(\w+?)_(?:type|parsing|from_float|required|parsing_size)", error["type"])
    return _EXPECTED.get(family.group(1)) if family else None


def _finding(error: ErrorDetails, tree: Tree) -> _Finding:
    path = error["loc"]
    if error["type"] == "missing":
        location, _ = _align(path[:-1], tree)
        return _Finding(error, (*location, path[-1]), ends_in_label=False)
    location, ends_in_key = _align(path, tree)
    return _Finding(error, location, ends_in_label=bool(path) and not ends_in_key)


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


def _is_noise(finding: _Finding, findings: Iterable[_Finding]) -> bool:
    """Whether *finding* is a union member that was not meant: another one was entered, and wrong inside."""
    depth = len(finding.location)
    return finding.ends_in_label and any(
        len(other.location) > depth and other.location[:depth] == finding.location for other in findings
    )


def _unknown_key(name: str, accepted: list[str]) -> str:
    suggestion = did_you_mean(name, accepted)
    if not suggestion and 0 < len(accepted) <= _KEYS_LISTED_MAX:
        suggestion = f"; accepted here: {', '.join(accepted)}"
    return f"unknown key{suggestion}"


def _message(error: ErrorDetails, schema: Schema) -> str:
    """What was found and what is accepted, in our words."""
    kind = error["type"]
    if kind in _WORDINGS:
        return _WORDINGS[kind](error)
    if kind == "union_tag_not_found":
        key = str(error["ctx"]["discriminator"])
        values = ", ".join(discriminator_values(schema, error["loc"]))
        return f"key {key} is missing; one of: {values}"
    return f"{error['msg'][:1].lower()}{error['msg'][1:]}, found {_found(error['input'])}"


def _found(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case int() | float():
            return str(value)
        case list():
            return "a list"
        case _:
            return "a mapping"


def _choice(error: ErrorDetails) -> str:
    expected = str(error["ctx"].get("expected", error["ctx"].get("expected_tags")))
    found = error["ctx"].get("tag", error["input"])
    names = re.findall(r"'([^']*)'", expected)
    suggestion = did_you_mean(found, names) if isinstance(found, str) else ""
    return f"expected {' or '.join(names) or expected}, found {_found(found)}{suggestion}"


def _own_words(error: ErrorDetails) -> str:
    """The text of an error that a validator of ours raised."""
    cause = error["ctx"]["error"]
    if isinstance(cause, TestbedError) and cause.hint is not None:
        return f"{cause.message}; {cause.hint}"
    return str(cause)


def _bound(relation: str, key: str) -> Callable[[ErrorDetails], str]:
    return lambda error: f"must be {relation} {error['ctx'][key]}, found {_found(error['input'])}"


def _length(relation: str, key: str, what: str) -> Callable[[ErrorDetails], str]:
    return lambda error: f"has {len(error['input'])} {what}, {relation} {error['ctx'][key]} accepted"


_WORDINGS: Final[dict[str, Callable[[ErrorDetails], str]]] = {
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
    "string_pattern_mismatch": lambda error: (
        f"must match {error['ctx']['pattern']}, found {_found(error['input'])}"
    ),
}
