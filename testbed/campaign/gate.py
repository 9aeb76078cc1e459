"""A campaign against the figures of an earlier one: what got worse, by how much, and how sure that is."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrc_testbed.campaign.cells import Cell, CellFigure
from mrc_testbed.campaign.statistics import Effect, judge, median_ratio
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.quantity import Better, Dimension

BASELINE_SCHEMA_VERSION: Final = 1
_DIGITS: Final = 6
_STRICT: Final = ConfigDict(extra="forbid", frozen=True)

Outcome = Literal["worse", "better", "within", "cannot tell", "gone"]


class BaselineFigure(BaseModel):
    """One figure of a cell: what `CellFigure` says of it."""

    model_config = _STRICT

    dimension: Dimension
    better: Better
    values: Annotated[tuple[float, ...], Field(min_length=1)]


class BaselineCell(BaseModel):
    """A cell's figures, and whether they are exact."""

    model_config = _STRICT

    exact: bool
    figures: dict[str, BaselineFigure]


class Baseline(BaseModel):
    """Figures of a campaign that later ones are held against."""

    model_config = _STRICT

    schema_version: Literal[1]
    kind: Literal["CampaignBaseline"]
    campaign: str
    cells: dict[str, BaselineCell]


@dataclass(frozen=True, slots=True)
class GateFinding:
    """One figure of a cell, now and in the baseline.

    Attributes:
        cell: its key.
        name: of the figure; empty where the cell or all its runs are gone.
        figure: now; None where it was not measured.
        reference: in the baseline; None where the cell is gone.
        outcome: `worse` or `better` by more than the tolerance, `within` it, `cannot tell` for a median
            that is worse by more than the tolerance where the runs do not show it, or `gone`.
        certainty: how sure that is, in words.
    """

    cell: str
    name: str
    figure: CellFigure | None
    reference: BaselineFigure | None
    outcome: Outcome
    certainty: str

    @property
    def ratio(self) -> float | None:
        """Median now by median then; None where that is not defined."""
        if self.figure is None or self.reference is None:
            return None
        return median_ratio(self.figure.values, self.reference.values)


def build_baseline(campaign: str, cells: Sequence[Cell]) -> Baseline:
    """Collect a campaign's figures whose better direction is known.

    Raises:
        UsageError: no run of the campaign counts.
    """
    if not any(cell.counted for cell in cells):
        raise UsageError(f"no run of the campaign {campaign!r} came to a trusted end: there is no baseline")
    return Baseline(
        schema_version=BASELINE_SCHEMA_VERSION,
        kind="CampaignBaseline",
        campaign=campaign,
        cells={
            cell.key: BaselineCell(
                exact=cell.is_exact,
                figures={
                    name: BaselineFigure(
                        dimension=figure.dimension,
                        better=figure.better,
                        values=tuple(float(f"{value:.{_DIGITS}g}") for value in figure.values),
                    )
                    for name, figure in sorted(cell.figures.items())
                    if figure.better is not None
                },
            )
            for cell in cells
            if cell.counted
        },
    )


def dump_baseline(baseline: Baseline) -> str:
    """The text of a baseline file: a line per figure, so that a change of one shows as one line."""
    head = baseline.model_dump(mode="json", exclude={"cells"})
    cells = []
    for key, cell in baseline.cells.items():
        figures = [f"   {json.dumps(name)}: {each.model_dump_json()}" for name, each in cell.figures.items()]
        body = ",\n".join(figures)
        cells.append(f' {json.dumps(key)}: {{"exact": {json.dumps(cell.exact)}, "figures": {{\n{body}}}}}')
    return f'{json.dumps(head)[:-1]}, "cells": {{\n' + ",\n".join(cells) + "}}\n"


def load_baseline(path: Path) -> Baseline:
    """The baseline in a file.

    Raises:
        UsageError: there is none, it is of another version, or damaged; says where.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", hint="`mrc-testbed campaign baseline CAMPAIGN -o FILE` writes one"
        ) from error
    except ValueError as error:
        raise UsageError(f"{path}: not a baseline: {error}") from error
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version != BASELINE_SCHEMA_VERSION:
        raise UsageError(
            f"{path}: a baseline of schema version {version}; this version reads {BASELINE_SCHEMA_VERSION}"
        )
    try:
        return Baseline.model_validate_json(json.dumps(found))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {where}: {first['msg']}") from error


def check(cells: Sequence[Cell], baseline: Baseline, tolerance: float) -> tuple[GateFinding, ...]:
    """Every figure of the baseline against what was measured now.

    Args:
        cells: of the campaign.
        baseline: what they are held against.
        tolerance: share by which a median may be worse, such as 0.05.
    """
    now = {cell.key: cell for cell in cells}
    pairs: list[tuple[str, str, bool, BaselineFigure, CellFigure]] = []
    gone: list[GateFinding] = []
    for key, reference in baseline.cells.items():
        cell = now.get(key)
        if cell is None or not cell.counted:
            said = "the campaign has no such cell" if cell is None else "none of its runs counts"
            gone.append(GateFinding(key, "", None, None, "gone", said))
            continue
        for name, expected in reference.figures.items():
            figure = cell.figures.get(name)
            if figure is None:
                gone.append(GateFinding(key, name, None, expected, "gone", "no run measured it"))
            else:
                pairs.append((key, name, reference.exact and cell.is_exact, expected, figure))
    judged = judge([(figure.values, expected.values) for *_, expected, figure in pairs])
    return (
        *gone,
        *(
            _finding(key, name, expected, figure, effect, tolerance, is_exact=is_exact)
            for (key, name, is_exact, expected, figure), effect in zip(pairs, judged, strict=True)
        ),
    )


def gate_status(findings: Sequence[GateFinding]) -> int:
    """The exit status: 4 when something got worse or is gone, 7 when something cannot be decided, else 0."""
    outcomes = {finding.outcome for finding in findings}
    if outcomes & {"worse", "gone"}:
        return Status.FAILED.exit_code
    return Status.UNTRUSTED.exit_code if "cannot tell" in outcomes else 0


def _finding(
    cell: str,
    name: str,
    expected: BaselineFigure,
    figure: CellFigure,
    effect: Effect,
    tolerance: float,
    *,
    is_exact: bool,
) -> GateFinding:
    change = _change(figure.values, expected)
    certainty = f"p = {effect.p:.2g}"
    if abs(change) <= tolerance:
        outcome: Outcome = "within"
    elif is_exact:
        outcome, certainty = "worse" if change > 0 else "better", "exact"
    elif effect.finding in ("more", "less"):
        outcome = "worse" if change > 0 else "better"
    elif change < 0:
        outcome = "within"
    else:
        outcome, certainty = "cannot tell", effect.verdict(expected.better)
    return GateFinding(cell, name, figure, expected, outcome, certainty)


def _change(values: Sequence[float], expected: BaselineFigure) -> float:
    """By which share of the median then the median now is worse; infinite from 0 to anything else."""
    now, then = median(values), median(expected.values)
    worse = then - now if expected.better == "more" else now - then
    if worse == 0:
        return 0.0
    return math.copysign(math.inf, worse) if then == 0 else worse / abs(then)
