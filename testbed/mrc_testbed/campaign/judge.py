"""Judgement of a campaign's expectations, cell by cell."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from mrc_testbed.campaign.cell_expectation import CampaignExpectation, CellId, ParsedExpectation, Quota
from mrc_testbed.campaign.cells import MeasuredRun, group_by_cell, measured_runs, merged_times
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.statistics import ALL_TIMES, MEDIAN_OF_RUNS
from mrc_testbed.report.table import Table, judged
from mrc_testbed.scenario.measure.expectation import Answer, evaluate
from mrc_testbed.scenario.measure.measurement import Measures
from mrc_testbed.scenario.measure.recording import NotMeasured
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.kept_times import times_name
from mrc_testbed.scenario.spec.expression_tree import Comparison, Quantity
from mrc_testbed.scenario.spec.quantity import percentile_ratio

_SHOWN_MAX: Final = 3
_STATUS: Final = {"failed": Status.FAILED.value, "cannot tell": Status.UNTRUSTED.value}


@dataclass(frozen=True, slots=True)
class CellOutcome:
    text: str  # as written
    cell: str  # its key
    outcome: Answer  # `cannot tell` where too few runs count
    reason: str  # one sentence with the numbers

    @property
    def status(self) -> str:
        """The status of a run that would count as much for the campaign."""
        return _STATUS.get(self.outcome, Status.PASSED.value)


def outcome_table(outcomes: Iterable[CellOutcome]) -> Table:
    rows = [judged(each.outcome, each.text, each.cell, each.reason) for each in outcomes]
    return Table(("", "expectation", "cell", "measured"), rows)


class _OfRun(Measures):
    """Values in one run, and in the one of the baseline with the same seed."""

    def __init__(self, own: MeasuredRun, baseline: MeasuredRun | None) -> None:
        self._own = own.values
        self._baseline = {} if baseline is None else baseline.values

    def measure(self, quantity: Quantity) -> float:
        found = (self._own if quantity.variant is None else self._baseline).get(quantity.within_run)
        if found is None:
            raise NotMeasured(f"{quantity} has no value in this run")
        return found


class _OfCell(Measures):
    """Medians over the runs of a cell and of the baseline's; percentiles of all their times together."""

    def __init__(self, own: Sequence[MeasuredRun], baseline: Sequence[MeasuredRun]) -> None:
        self._own, self._baseline = own, baseline
        self.words: dict[str, None] = {}  # what each value is, such as `p99: times of all runs together`

    def measure(self, quantity: Quantity) -> float:
        runs = self._own if quantity.variant is None else self._baseline
        ratio = percentile_ratio(quantity.name)
        times = merged_times(runs, times_name(quantity))
        if ratio is not None and (found := times.percentiles_ns([ratio])) is not None:
            self.words[f"{quantity.name}: {ALL_TIMES}"] = None
            return found[0]
        name = quantity.within_run
        values = [each.values[name] for each in runs if name in each.values]
        if not values:
            raise NotMeasured(f"{quantity} has no value in any run")
        self.words[f"{quantity.name}: {MEDIAN_OF_RUNS}"] = None
        return median(values)


def outcomes_of(folder: CampaignFolder) -> tuple[CellOutcome, ...]:
    """Outcomes of the campaign's expectations; empty before its first run, and for a shard."""
    plan = folder.plan
    if not plan.expect or plan.shard is not None or not any(folder.entry(run) for run in plan.runs):
        return ()
    return judge_cells(plan.expect, measured_runs(folder), plan.baseline)


def judge_cells(
    expectations: Sequence[CampaignExpectation], runs: Sequence[MeasuredRun], baseline: Mapping[str, str]
) -> tuple[CellOutcome, ...]:
    """Outcome of each expectation in each cell that it is of, in order.

    Args:
        runs: all that are wanted, done or not.
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
        if not expectation.is_of(cell):
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


def _of_medians(that: Comparison, sides: Mapping[CellId, Sequence[MeasuredRun]]) -> tuple[Answer, str]:
    """Sum up medians of the cell, and of the baseline if there is one."""
    counted = {cell: [each for each in runs if each.counts] for cell, runs in sides.items()}
    for cell, runs in counted.items():
        if not runs:
            return "cannot tell", f"no run of {cell} counts"
    own, *others = counted.values()
    measures = _OfCell(own, others[0] if others else ())
    outcome = evaluate(that, measures)
    return "held" if outcome.has_passed else "failed", "; ".join([outcome.reason, *measures.words])


def _of_runs(
    parsed: ParsedExpectation,
    quota: Quota,
    runs: Sequence[MeasuredRun],
    baseline: Sequence[MeasuredRun] | None,
) -> tuple[Answer, str]:
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
