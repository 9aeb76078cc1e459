"""Expectations of a campaign, and the cells that they are of: the language of scenarios. Pure.

    goodput(main) >= 100Mbit                            of each cell: the median of its runs
    p99(packet_rtt) < 10ms                              of each cell: all times of its runs together
    goodput(main) >= 100Mbit for all seeds              of every run
    goodput(main) >= 95% of goodput(main) in baseline in 19 of 20 runs

`in baseline` is the run with the same seed in the cell that others are compared with, or that cell itself.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.expression_tree import Comparison, Quantity
from mrc_testbed.scenario.spec.plan import Plan

BASELINE: Final = "baseline"
SCENARIO: Final = "scenario"
"""Key of a selection that is none of a matrix: name of the scenario."""

_QUOTA: Final = re.compile(
    r"(?P<that>.*\S)\s+(?:(?P<all>for\s+all\s+seeds)|in\s+(?P<held>[0-9]{1,4})\s+of\s+(?P<of>[0-9]{1,4})\s+runs)\s*",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class CellId:
    """A cell of a campaign: runs that differ in their seed alone."""

    scenario: str  # name of the scenario
    values: tuple[tuple[str, str], ...]  # what is varied (dotted key, or axis of a variant) and its value

    def __str__(self) -> str:
        return " ".join((self.scenario, *(f"{name}={value}" for name, value in self.values)))

    @classmethod
    def of(cls, scenario: str, place: Mapping[str, str]) -> Self:
        return cls(scenario, tuple(place.items()))

    def with_values(self, chosen: Mapping[str, str]) -> Self:
        """The cell that differs from it by those of *chosen* that it has."""
        return replace(self, values=tuple((name, chosen.get(name, value)) for name, value in self.values))


@dataclass(frozen=True, slots=True)
class Quota:
    """In how many runs of a cell something has to hold: *held* of each *of*; 1 of 1 for all of them."""

    held: int
    of: int


@dataclass(frozen=True, slots=True)
class ParsedExpectation:
    that: Comparison  # the comparison
    quota: Quota | None  # in how many runs; None where it is of medians

    @property
    def needs_baseline(self) -> bool:
        """Return True if it refers to the baseline cell."""
        return self.that.is_across_variants


@dataclass(frozen=True, slots=True)
class CampaignExpectation:
    text: str  # as written
    # dotted key, axis of a variant, or `scenario` -> value of the cells; empty for all
    cells: Mapping[str, str]

    @property
    def parsed(self) -> ParsedExpectation:
        """Parts of the text, which was checked when the file was read."""
        return parse_campaign_expectation(self.text)

    def is_of(self, cell: CellId) -> bool:
        named = {**dict(cell.values), SCENARIO: cell.scenario}
        return all(named.get(key) == value for key, value in self.cells.items())


def parse_campaign_expectation(text: str) -> ParsedExpectation:
    """Parse *text*; names of workloads and faults are not looked up here."""
    found = _QUOTA.fullmatch(text)
    that = parse_expectation(text if found is None else found["that"])
    for quantity in that.quantities():
        if quantity.variant not in (None, BASELINE):
            where = f"column {quantity.column}: {quantity} names a variant"
            raise UsageError(f"{where}; a campaign compares with 'in baseline'")
    if found is None:
        return ParsedExpectation(that, None)
    if found["all"]:
        return ParsedExpectation(that, Quota(1, 1))
    quota = Quota(int(found["held"]), int(found["of"]))
    if not 1 <= quota.held <= quota.of:
        raise UsageError(
            f"column {found.start('held') + 1}: {quota.held} of {quota.of} runs is no share of them"
        )
    return ParsedExpectation(that, quota)


def check_quantities(quantities: Iterable[Quantity], plan: Plan) -> None:
    """Check that a run of *plan* can measure them."""
    workloads = [workload.name for workload in plan.workloads]
    faults = [fault.fault_id for fault in plan.faults]
    kinds = {workload.name: workload.kind for workload in plan.workloads}
    for quantity in quantities:
        for unknown in quantity.unknown_names(workloads, faults):
            raise UsageError(f"{quantity}: {plan.scenario} has {unknown}")
        misfit = None if quantity.workload is None else quantity.misfit(kinds[quantity.workload])
        if misfit is not None:
            raise UsageError(f"{quantity}: {quantity.workload} is {kinds[quantity.workload or '']}, {misfit}")
