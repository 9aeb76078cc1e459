"""A campaign against the figures of an earlier one: what got worse, by how much, and how sure that is.

Each change of code, also a harmless one, draws the randomness of every run again, in virtual time too. So a
figure of a cell is judged over seeds, by ranks. It is worse if its runs show, with an error of 1 % for all
figures together, that it is worse by more than its margin: the tolerance's share of the value then, and at
least one idle RTT for a time, the square root for a count.
"""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrc_testbed.campaign.cells import Cell, CellFigure
from mrc_testbed.campaign.plan import CampaignPlan
from mrc_testbed.campaign.statistics import (
    SEEDS_MIN,
    SIGNIFICANCE,
    corrected,
    excess_p,
    median_ratio,
    seeds_needed,
)
from mrc_testbed.document.text_file import open_regular
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.quantity import Better, Dimension

BASELINE_SCHEMA_VERSION: Final = 2
_DIGITS: Final = 6
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, defer_build=True)

Outcome = Literal["worse", "better", "within", "not shown", "cannot tell", "gone"]


class BaselineFigure(BaseModel):
    """One figure of a cell: seed -> value, as in `CellFigure`."""

    model_config = _STRICT

    dimension: Dimension
    better: Better
    by_seed: Annotated[dict[int, float], Field(min_length=SEEDS_MIN)]

    @property
    def values(self) -> tuple[float, ...]:
        """Values of the runs, in the base unit."""
        return tuple(self.by_seed.values())


class BaselineCell(BaseModel):
    """A cell's figures, and the idle RTT of its topology."""

    model_config = _STRICT

    idle_rtt_ns: int
    figures: dict[str, BaselineFigure]


class Baseline(BaseModel):
    """Figures of a campaign that later ones are held against."""

    model_config = _STRICT

    schema_version: Literal[2]
    kind: Literal["CampaignBaseline"]
    campaign: str
    cells: dict[str, BaselineCell]


@dataclass(frozen=True, slots=True)
class GateFinding:
    """One figure of a cell, now and in the baseline."""

    cell: str  # its key
    name: str  # of the figure; empty where the cell or all its runs are gone
    figure: CellFigure | None  # now; None where it was not measured
    reference: BaselineFigure | None  # in the baseline; None where the cell is gone
    # `worse` or `better` by more than the margin; `not shown` for a median that is worse by more where the
    # runs do not show it; `within` for any other; `cannot tell` with fewer than SEEDS_MIN runs that count; or
    # `gone`
    outcome: Outcome
    certainty: str  # how sure that is, in words

    @property
    def ratio(self) -> float | None:
        """Median now by median then; None where that is not defined."""
        if self.figure is None or self.reference is None:
            return None
        return median_ratio(self.figure.values, self.reference.values)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A figure of a cell that both sides measured; *tolerance* is a share."""

    cell: str
    name: str
    figure: CellFigure
    reference: BaselineFigure
    tolerance: float
    idle_rtt_ns: int

    @property
    def is_equal(self) -> bool:
        """Return True if all runs of both sides are equal, so that there is nothing to test."""
        return len({*self.figure.values, *self.reference.values}) == 1

    @property
    def seems_worse(self) -> bool:
        """Return True if the median is worse by more than the margin."""
        change = median(self.figure.values) - (then := median(self.reference.values))
        return (change if self.reference.better == "less" else -change) > self._margin(then)

    def excess_p(self, *, is_worse: bool) -> float:
        """Return the p of the hypothesis that it is not worse by more than the margin, or not better."""
        sign = 1 if is_worse == (self.reference.better == "less") else -1
        now = {seed: sign * value for seed, value in self.figure.by_seed.items()}
        then = self.reference.by_seed.items()
        return excess_p(now, {seed: sign * value + self._margin(value) for seed, value in then})

    def finding(self, outcome: Outcome, certainty: str) -> GateFinding:
        return GateFinding(self.cell, self.name, self.figure, self.reference, outcome, certainty)

    def _margin(self, value: float) -> float:
        """Amount by which a run may be worse than one of that value."""
        floor = 0.0
        if self.reference.dimension is Dimension.TIME:
            floor = float(self.idle_rtt_ns)
        elif self.reference.dimension is Dimension.COUNT and self._is_whole:
            floor = math.sqrt(abs(value))
        return max(self.tolerance * abs(value), floor)

    @property
    def _is_whole(self) -> bool:
        """Return True for a count, False for a count per second or a loss."""
        return all(map(float.is_integer, self.reference.values))


def build_baseline(campaign: str, cells: Sequence[Cell]) -> Baseline:
    """Collect a campaign's figures whose better direction is known and that SEEDS_MIN runs have measured."""
    for cell in cells:
        if cell.counted < SEEDS_MIN:
            raise UsageError(
                f"{cell.key}: {cell.counted} runs came to a trusted end; the gate judges by rank, over at "
                f"least {SEEDS_MIN} seeds",
                hint="`seeds: {from: 1, count: 8}` in the campaign",
            )
    return Baseline(
        schema_version=BASELINE_SCHEMA_VERSION,
        kind="CampaignBaseline",
        campaign=campaign,
        cells={
            cell.key: BaselineCell(
                idle_rtt_ns=cell.idle_rtt_ns,
                figures={
                    name: BaselineFigure(
                        dimension=figure.dimension,
                        better=figure.better,
                        by_seed={
                            seed: float(f"{value:.{_DIGITS}g}") for seed, value in figure.by_seed.items()
                        },
                    )
                    for name, figure in sorted(cell.figures.items())
                    if figure.better is not None and len(figure.by_seed) >= SEEDS_MIN
                },
            )
            for cell in cells
        },
    )


def dump_baseline(baseline: Baseline) -> str:
    """The text of a baseline file: a line per figure, so that a change of one shows as one line."""
    head = baseline.model_dump(mode="json", exclude={"cells"})
    cells = []
    for key, cell in baseline.cells.items():
        figures = [f"   {json.dumps(name)}: {each.model_dump_json()}" for name, each in cell.figures.items()]
        body = ",\n".join(figures)
        cells.append(f' {json.dumps(key)}: {{"idle_rtt_ns": {cell.idle_rtt_ns}, "figures": {{\n{body}}}}}')
    return f'{json.dumps(head)[:-1]}, "cells": {{\n' + ",\n".join(cells) + "}}\n"


def load_baseline(path: Path) -> Baseline:
    hint = "`mrc-testbed campaign baseline CAMPAIGN --into FILE` writes one"
    try:
        with open_regular(path) as stream:
            found = json.loads(stream.read())
    except UsageError as error:
        raise UsageError(error.message, hint=hint) from error
    except ValueError as error:
        raise UsageError(f"{path}: not a baseline: {error}") from error
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version != BASELINE_SCHEMA_VERSION:
        raise UsageError(
            f"{path}: a baseline of schema version {version}; this version reads {BASELINE_SCHEMA_VERSION}",
            hint=hint,
        )
    try:
        return Baseline.model_validate_json(json.dumps(found))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg']}") from error


def named_figures(plan: CampaignPlan) -> frozenset[str]:
    """Names of the quantities in `expect` of the campaign and `compare` of its scenarios.

    Where these name none, those in `expect` of its scenarios.
    """
    of_cells = {quantity.within_run for each in plan.expect for quantity in each.parsed.that.quantities()}
    compared = {name for run in plan.runs for name in run.compare}
    expected = {text for run in plan.runs for text in run.plan.expect}
    return frozenset(of_cells | compared) or frozenset(
        quantity.within_run for text in expected for quantity in parse_expectation(text).quantities()
    )


def check(
    cells: Sequence[Cell], baseline: Baseline, tolerance: float, names: Collection[str] | None = None
) -> tuple[GateFinding, ...]:
    """Judge the figures of the baseline by what was measured now.

    Args:
        tolerance: share by which a run may be worse, such as 0.02.
        names: of the figures; None for all.
    """
    now = {cell.key: cell for cell in cells}
    pairs: list[_Pair] = []
    undecided: list[GateFinding] = []
    for key, reference in baseline.cells.items():
        cell = now.get(key)
        if cell is None or not cell.counted:
            said = "the campaign has no such cell" if cell is None else "none of its runs counts"
            undecided.append(GateFinding(key, "", None, None, "gone", said))
            continue
        _check_seeds(cell, 1)
        for name, expected in reference.figures.items():
            if names is not None and name not in names:
                continue
            figure = cell.figures.get(name)
            if figure is None:
                undecided.append(GateFinding(key, name, None, expected, "gone", "no run measured it"))
            elif len(figure.by_seed) < SEEDS_MIN:
                said = f"{len(figure.by_seed)} runs count, of {SEEDS_MIN} that it takes"
                undecided.append(GateFinding(key, name, figure, expected, "cannot tell", said))
            else:
                pairs.append(_Pair(key, name, figure, expected, tolerance, reference.idle_rtt_ns))
    if not pairs and not undecided:
        raise UsageError(
            "the baseline has none of the quantities that the campaign names: "
            f"{', '.join(sorted(names or ())) or 'none'}",
            hint="--all-figures judges all that it has",
        )
    tested = [pair for pair in pairs if not pair.is_equal]
    for key in dict.fromkeys(pair.cell for pair in tested):
        _check_seeds(now[key], len(tested))
    equal = (pair.finding("within", "equal in every run") for pair in pairs if pair.is_equal)
    return (*undecided, *equal, *_judge(tested))


def gate_status(findings: Sequence[GateFinding]) -> int:
    """The exit status: 4 when something got worse or is gone, 7 when something cannot be decided, else 0."""
    outcomes = {finding.outcome for finding in findings}
    if outcomes & {"worse", "gone"}:
        return Status.FAILED.exit_code
    return Status.UNTRUSTED.exit_code if "cannot tell" in outcomes else 0


def _check_seeds(cell: Cell, figures: int) -> None:
    """Refuse a cell with fewer runs than it takes to show that one of so many figures is worse."""
    planned = sum(cell.statuses.values())
    needed = seeds_needed(figures)
    if planned < needed:
        raise UsageError(
            f"{cell.key}: {planned} seeds cannot show which of {figures} figures got worse: in one of "
            f"{math.comb(2 * planned, planned)}, all runs are worse by chance; it takes {needed} seeds",
            hint=f"`seeds: {{from: 1, count: {needed}}}` in the campaign, and a new baseline",
        )


def _judge(pairs: Sequence[_Pair]) -> list[GateFinding]:
    """Outcomes of figures that differ at all."""
    worse, better = (
        corrected([pair.excess_p(is_worse=is_worse) for pair in pairs]) for is_worse in (True, False)
    )
    findings = []
    for pair, worse_p, better_p in zip(pairs, worse, better, strict=True):
        outcome: Outcome = "not shown" if pair.seems_worse else "within"
        if worse_p <= SIGNIFICANCE:
            outcome = "worse"
        elif better_p <= SIGNIFICANCE:
            outcome = "better"
        findings.append(pair.finding(outcome, f"p = {better_p if outcome == 'better' else worse_p:.2g}"))
    return findings
