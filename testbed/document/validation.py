"""A tree checked against a pydantic model: every problem of it, once, at its own place.

pydantic names a location, not a line, and puts union tags into it; it reports a misspelt key twice (unknown
and missing), and every member of a union that did not fit. All of that is undone here.
"""

import json
from collections.abc import Iterable
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from testbed.document.finding import (
    Finding,
    expected_type,
    place_error,
    word_finding,
    word_found,
    word_unknown_key,
)
from testbed.document.problem import Location, Problem, Tree
from testbed.document.schema_names import Schema, accepted_keys
from testbed.errors import closest_name

AnyModel = TypeVar("AnyModel", bound=BaseModel)


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
    placed = [place_error(error, tree) for error in errors]
    unknown, wrong_type, others = [], dict[Location, list[Finding]](), []
    for finding in placed:
        if _is_noise(finding, placed):
            continue
        if finding.kind == "extra_forbidden":
            unknown.append(finding)
        elif expected_type(finding) is not None:
            wrong_type.setdefault(finding.location, []).append(finding)
        else:
            others.append(finding)
    problems, explained = _unknown_keys(unknown, others, schema)
    problems += [
        Problem(finding.location, word_finding(finding, schema))
        for finding in others
        if finding.location not in explained
    ]
    for location, members in wrong_type.items():
        expected = " or ".join(dict.fromkeys(str(expected_type(member)) for member in members))
        problems.append(Problem(location, f"expected {expected}, found {word_found(members[0].written)}"))
    return problems


def _unknown_keys(
    unknown: Iterable[Finding], others: Iterable[Finding], schema: Schema
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
            message = word_unknown_key(name, accepted_keys(schema, finding.error["loc"][:-1]))
        else:
            explained.add((*parent, intended))
            message = f"unknown key; did you mean {intended!r}, which is missing?"
        problems.append(Problem(finding.location, message))
    return problems, explained


def _is_noise(finding: Finding, findings: Iterable[Finding]) -> bool:
    """Return True if *finding* is of a union member that was not meant: another was entered, and is wrong."""
    depth = len(finding.location)
    return finding.ends_in_label and any(
        len(other.location) > depth and other.location[:depth] == finding.location for other in findings
    )
