"""Expectations of a campaign: the language of scenarios, said of cells. Pure.

    goodput(main) >= 100Mbit                            of each cell: the median of its runs
    p99(packet_rtt) < 10ms                              of each cell: all times of its runs together
    goodput(main) >= 100Mbit for all seeds              of every run
    goodput(main) >= 95% of goodput(main) in baseline in 19 of 20 runs

`in baseline` is the run with the same seed in the cell that others are compared with, or that cell itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from testbed.errors import UsageError
from testbed.scenario.spec.expression import parse_expectation
from testbed.scenario.spec.expression_tree import Comparison

BASELINE: Final = "baseline"
SCENARIO: Final = "scenario"
"""Key of a selection that is none of a matrix: name of the scenario."""

_QUOTA: Final = re.compile(
    r"(?P<that>.*\S)\s+(?:(?P<all>for\s+all\s+seeds)|in\s+(?P<held>[0-9]{1,4})\s+of\s+(?P<of>[0-9]{1,4})\s+runs)\s*",
    re.ASCII | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Quota:
    """In how many runs of a cell something has to hold: *held* of each *of*; 1 of 1 for all of them."""

    held: int
    of: int


@dataclass(frozen=True, slots=True)
class ParsedExpectation:
    """Parts of an expectation.

    Attributes:
        that: the comparison.
        quota: in how many runs; None where it is of medians.
    """

    that: Comparison
    quota: Quota | None

    @property
    def needs_baseline(self) -> bool:
        """Return True if it refers to the baseline cell."""
        return self.that.is_across_variants


@dataclass(frozen=True, slots=True)
class CampaignExpectation:
    """An expectation and the cells it is of.

    Attributes:
        text: as written.
        cells: dotted key, axis of a variant, or `scenario` -> value of the cells; empty for all.
    """

    text: str
    cells: Mapping[str, str]

    @property
    def parsed(self) -> ParsedExpectation:
        """Parts of the text, which was checked when the file was read."""
        return parse_campaign_expectation(self.text)

    def is_of(self, scenario: str, place: Mapping[str, str]) -> bool:
        """Return True if it applies to the cell of a scenario with these values."""
        named = {**place, SCENARIO: scenario}
        return all(named.get(key) == value for key, value in self.cells.items())


def parse_campaign_expectation(text: str) -> ParsedExpectation:
    """Parse *text*; names of workloads and faults are not looked up here.

    Raises:
        UsageError: not in the language; says the column and what was expected.
    """
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
