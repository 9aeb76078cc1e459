"""Scenario documents as plain values: to text, to plans, and what the scenario language refuses of them."""

import textwrap
from collections.abc import Iterable
from typing import Any, Final

import yaml

from mrc_testbed.document.envelope import Document, Kind
from mrc_testbed.document.problem import Problem
from mrc_testbed.printable import printable_lines
from mrc_testbed.scenario.spec.load import Scenario, build_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.resolve_faults import resolve_faults
from mrc_testbed.topology.numbering import TierSize
from mrc_testbed.topology.resolve import resolve_topology

Values = dict[str, Any]
_SAID_MAX: Final = 600
"""Characters of a comment: lists of completions may be long."""


def as_text(document: Values) -> str:
    """The document as YAML, its innermost mappings in one line each."""
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110)


def commented(document: Values, lines: Iterable[str]) -> str:
    """The document as YAML, below comments."""
    said = (textwrap.shorten(printable_lines(line), _SAID_MAX, placeholder=" ...") for line in lines)
    comments = [textwrap.fill(line, 110, initial_indent="# ", subsequent_indent="#   ") for line in said]
    return "".join(f"{comment}\n" for comment in comments) + as_text(document)


def scenario_document(name: str, spec: Values) -> Values:
    return {"apiVersion": "mrc-testbed/v1", "kind": "Scenario", "metadata": {"name": name}, "spec": spec}


def tier_values(tiers: Iterable[TierSize]) -> list[Values]:
    """The entry `tiers` of a topology."""
    return [{"joins": tier.joins, "switches": tier.switches, "links": tier.lanes} for tier in tiers]


def plan_of(document: Values) -> Plan:
    return resolve(_scenario_of(document))


def refused_faults(document: Values) -> frozenset[int]:
    """Places of the faults that the scenario language refuses beside the others."""
    scenario = _scenario_of(document)
    problems: list[Problem] = []
    resolve_faults(scenario.spec, resolve_topology(scenario.topology), scenario.spec.seed, problems)
    return frozenset(int(problem.location[2]) for problem in problems)


def _scenario_of(document: Values) -> Scenario:
    """The scenario of plain values, as if they had been read from a file."""
    return build_scenario(Document("<document>", None, "", Kind.SCENARIO, document, {}))
