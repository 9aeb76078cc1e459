"""Judgement of a campaign's expectations, cell by cell. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from testbed.campaign.cell import MeasuredRun, group_by_cell
from testbed.campaign.cell_id import CellId
from testbed.campaign.expectation import CampaignExpectation, ParsedExpectation, Quota
from testbed.campaign.figures import run_figures
from testbed.metrics.histogram import merge
from testbed.scenario.measure.expectation import evaluate
from testbed.scenario.measure.measurement import Measures
from testbed.scenario.measure.recording import NotMeasured
from testbed.scenario.measure.verdict import Status
from testbed.scenario.report.kept_times import times_name
from testbed.scenario.spec.expression_tree import Comparison, Quantity
from testbed.scenario.spec.quantity import percentile_ratio

Held = Literal["held", "failed", "cannot tell"]

_SHOWN_MAX: Final = 3
_STATUS: Final = {"failed": Status.FAILED.value, "cannot tell": Status.UNTRUSTED.value}


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """Outcome of an expectation in a cell.

    Attributes:
        text: as written.
        cell: its key.
        outcome: `cannot tell` where too few runs count.
        reason: one sentence with the numbers.
    """

    text: str
    cell: str
    outcome: Held
    reason: str

    @property
    def status(self) -> str:
        """The status of a run that would count as much for the campaign."""
        return _STATUS.get(self.outcome, Status.PASSED.value)


class _OfRun(Measures):
    """Values in one run, and in the one of the baseline with the same seed."""

    def __init__(self, own: MeasuredRun, baseline: MeasuredRun | None) -> None:
        self._own = _figures(own)
        self._baseline = {} if baseline is None else _figures(baseline)

    def measure(self, quantity: Quantity) -> float:
        found = (self._own if quantity.variant is None else self._baseline).get(quantity.within_run)
        if found is None:
            raise NotMeasured(f"{quantity} has no value in this run")
        return found


class _OfCell(Measures):
    """Medians over the runs of a cell and of the baseline's; percentiles of all their times together."""

    def __init__(self, own: Sequence[MeasuredRun], baseline: Sequence[MeasuredRun]) -> None:
        self._own, self._baseline = own, baseline

    def measure(self, quantity: Quantity) -> float:
        runs = self._own if quantity.variant is None else self._baseline
        ratio = percentile_ratio(quantity.name)
        times = merge(each.times[name] for each in runs if (name := times_name(quantity)) in each.times)
        if ratio is not None and (found := times.percentiles_ns([ratio])) is not None:
            return found[0]
        values = [value for each in runs if (value := _figures(each).get(quantity.within_run)) is not None]
        if not values:
            raise NotMeasured(f"{quantity} has no value in any run")
        return median(values)


def judge_cells(
    expectations: Sequence[CampaignExpectation], runs: Sequence[MeasuredRun], baseline: Mapping[str, str]
) -> tuple[CellOutcome, ...]:
    """Outcome of each expectation in each cell that it is of, in order.

    Args:
        expectations: of the campaign.
        runs: all that are wanted, done or not.
        baseline: what is varied -> value of the cells that others are compared with.
    """
    cells = group_by_cell(runs)
    return tuple(outcome for expectation in expectations for outcome in _judge(expectation, cells, baseline))


def _judge(
    expectation: CampaignExpectation,
    cells: Mapping[CellId, Sequence[MeasuredRun]],
    baseline: Mapping[str, str],
) -> Iterator[CellOutcome]:
    parsed = expectation.parsed
    for cell, runs in cells.items():
        if not expectation.is_of(cell.scenario, dict(cell.values)):
            continue
        reference = cell.with_values(baseline) if parsed.needs_baseline else None
        if reference == cell:
            continue
        others = None if reference is None else cells.get(reference)
        if parsed.quota is not None:
            outcome, reason = _of_runs(parsed, parsed.quota, runs, others)
        else:
            sides = {cell: runs} | ({} if reference is None or others is None else {reference: others})
            outcome, reason = _of_medians(parsed.that, sides)
        yield CellOutcome(expectation.text, str(cell), outcome, reason)


def _of_medians(that: Comparison, sides: Mapping[CellId, Sequence[MeasuredRun]]) -> tuple[Held, str]:
    """Sum up medians of the cell, and of the baseline if there is one."""
    counted = {cell: [each for each in runs if each.counts] for cell, runs in sides.items()}
    for cell, runs in counted.items():
        if not runs:
            return "cannot tell", f"no run of {cell} counts"
    own, *others = counted.values()
    outcome = evaluate(that, _OfCell(own, others[0] if others else ()))
    return "held" if outcome.has_passed else "failed", outcome.reason


def _of_runs(
    parsed: ParsedExpectation,
    quota: Quota,
    runs: Sequence[MeasuredRun],
    baseline: Sequence[MeasuredRun] | None,
) -> tuple[Held, str]:
    others = {run.run.plan.seed: run for run in baseline or () if run.counts}
    held, counted, failed = 0, 0, []
    for each in runs:
        other = others.get(each.run.plan.seed)
        if not each.counts or (baseline is not None and other is None):
            continue
        counted += 1
        outcome = evaluate(parsed.that, _OfRun(each, other))
        held += outcome.has_passed
        if not outcome.has_passed:
            failed.append(f"seed {each.run.plan.seed}: {outcome.reason}")
    wanted = len(runs) if quota.of == 1 else quota.of
    needed = wanted if quota.of == 1 else quota.held
    said = f"held in {held} of {counted} runs"
    if failed:
        more = f"; {len(failed) - _SHOWN_MAX} more" if len(failed) > _SHOWN_MAX else ""
        said += f"; {'; '.join(failed[:_SHOWN_MAX])}{more}"
    if counted >= wanted:
        return ("held" if held * wanted >= needed * counted else "failed"), said
    if len(failed) > wanted - needed:
        return "failed", said
    return "cannot tell", f"{said}; only {counted} of {wanted} runs count"


def _figures(each: MeasuredRun) -> dict[str, float]:
    figures = {} if each.manifest is None else run_figures(each.manifest)
    return {name: float(figure.value) for name, figure in figures.items() if figure.value is not None}
