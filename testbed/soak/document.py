"""Scenario documents as plain values: to text, to plans, and what the scenario language refuses of them."""

from typing import Any

import yaml

from mrc_testbed.document import Document, Kind, Problem
from mrc_testbed.scenario.spec.load import Scenario, build_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.resolve_faults import resolve_faults
from mrc_testbed.topology.resolve import resolve_topology

Values = dict[str, Any]


def as_text(document: Values) -> str:
    """The document as YAML, its innermost mappings in one line each."""
    return yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=110)


def plan_of(document: Values) -> Plan:
    """The plan of a document.

    Raises:
        UsageError: the scenario language refuses it.
    """
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
