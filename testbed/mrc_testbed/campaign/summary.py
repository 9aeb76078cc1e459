"""A campaign, summed up: a row per run, or per scenario with variants."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mrc_testbed.campaign.cell_expectation import CampaignExpectation
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.judge import CellOutcome, outcomes_of
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.run_figures import format_figure, run_figures
from mrc_testbed.campaign.variants import (
    VariantRun,
    in_order,
    judge_across,
    judge_published,
    reason_of,
    worst_status,
)
from mrc_testbed.scenario.measure.expectation import answer_of, format_value
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.quantity import Dimension

_WHOLE: Final = ("passed", "failed", "untrusted")


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One run, or all variants of a scenario."""

    index: int  # its number in the order of the file, from 1
    key: str  # what distinguishes it from the others
    scenario: str  # name of the scenario
    varied: Mapping[str, str]  # dotted key -> value
    seed: int  # of the run
    figure: str  # the published result it reproduces; empty for none
    claim: str  # what it is to show; the description of a scenario without one
    status: str  # of the run; `not run` before it
    reason: str  # one sentence; empty before it
    folder: str | None  # its result folder, from the campaign's own; None without one, and for variants
    expectations: tuple[Mapping[str, Any], ...]  # as in its manifest; of variants, as judged across them
    variants: tuple[VariantRun, ...] = ()  # the runs of a scenario with variants; empty for one without
    compare: tuple[str, ...] = ()  # quantities that they are compared by, before left of during
    untrusted_before: int = 0  # how often it was UNTRUSTED before
    is_late: bool = False  # whether the machine was late and could not have turned an expectation
    # published figures beside the measured ones, as expectations are; empty before the end
    published: tuple[Mapping[str, Any], ...] = ()
    own: str = ""  # the figure of the run that the campaign expects something of; empty for none

    @property
    def page(self) -> str | None:
        """Its report, from the campaign's own folder; None without one."""
        if self.variants:
            return f"variants/{self.index:04d}-{self.scenario}.html"
        return None if self.folder is None else f"{self.folder}/report.html"

    @property
    def fidelity(self) -> str:
        """Trust in the run: `trusted`, `trusted, late`, `UNTRUSTED`, or a dash before the end."""
        if self.status in ("passed", "failed"):
            late = ", late" if self.is_late else ""
            before = f", after {self.untrusted_before} UNTRUSTED" if self.untrusted_before else ""
            return f"trusted{late}{before}"
        return "UNTRUSTED" if self.status == "untrusted" else "-"

    @property
    def measured(self) -> str:
        """The first expectation that failed; else the campaign's own figure, or the first expectation.

        Of a run that did not come to its end, why.
        """
        if not self.expectations or self.status not in _WHOLE:
            return self.reason
        failed = [each for each in self.expectations if answer_of(each) != "held"]
        if not failed and self.own:
            return self.own
        shown = failed[0] if failed else self.expectations[0]
        held = f" ({len(self.expectations) - len(failed)} of {len(self.expectations)} held)" if failed else ""
        held += ", untrusted" if self.status == Status.UNTRUSTED.value else ""
        if shown["left"] is None or shown["right"] is None:
            return f"{shown['reason']}{held}"
        dimension = Dimension(shown["dimension"])
        left, right = (format_value(float(shown[side]), dimension) for side in ("left", "right"))
        return f"{shown['text']}: {left} against {right}{held}"


@dataclass(frozen=True, slots=True)
class Summary:
    # name, description: of the campaign
    name: str
    description: str
    varied: tuple[str, ...]  # dotted keys that are varied, in the order in which they first occur
    rows: tuple[SummaryRow, ...]  # one per run, or per scenario with variants, in the order of the file
    expectations: tuple[CellOutcome, ...] = ()  # of the campaign, cell by cell
    named: tuple[str, ...] = ()  # quantities that its expectations name, in their order
    shard: str | None = None  # the part of the runs that it is of, such as `3/10`; None for all

    @property
    def is_of_variants(self) -> bool:
        """Return True if all rows are variants of one scenario, which are best shown side by side."""
        return len(self.rows) == 1 and bool(self.rows[0].variants) and not self.expectations

    @property
    def statuses(self) -> frozenset[str]:
        """Every status that a run has, or that an expectation of the campaign comes to."""
        return frozenset((*(row.status for row in self.rows), *(each.status for each in self.expectations)))

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of runs by status, most frequent first."""
        return dict(Counter(row.status for row in self.rows).most_common())

    @property
    def title(self) -> str:
        """Name of the campaign, with that of the shard."""
        return self.name if self.shard is None else f"{self.name}, shard {self.shard}"

    @property
    def headline(self) -> str:
        """One line, such as `12 runs: 11 passed, 1 failed`."""
        counted = ", ".join(f"{count} {status}" for status, count in self.counts.items())
        of = "" if self.shard is None else f" of shard {self.shard}"
        runs = (
            f"{len(self.rows)} run{'' if len(self.rows) == 1 else 's'}{of}: {counted or 'none falls to it'}"
        )
        if not self.expectations:
            return runs
        held = sum(each.outcome == "held" for each in self.expectations)
        return f"{runs}; {held} of {len(self.expectations)} expectations of cells held"


def summarize_campaign(folder: CampaignFolder) -> Summary:
    runs = sorted(folder.wanted, key=lambda run: run.index)
    keys = dict.fromkeys(key for run in runs for key in run.varied)
    groups: dict[str, list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    rows = (
        _row(folder, group[0]) if group[0].plan.variant is None else _row_of_variants(folder, group)
        for group in groups.values()
    )
    plan = folder.plan
    named = dict.fromkeys(
        quantity.within_run for each in plan.expect for quantity in each.parsed.that.quantities()
    )
    return Summary(
        plan.name,
        plan.description,
        tuple(keys),
        tuple(rows),
        outcomes_of(folder),
        named=tuple(named),
        shard=None if plan.shard is None else str(plan.shard),
    )


def _row(folder: CampaignFolder, run: PlannedRun) -> SummaryRow:
    last, manifest = folder.last(run), folder.manifest(run)
    is_whole = manifest is not None and not run.axes
    return SummaryRow(
        index=run.index,
        key=run.key,
        scenario=run.scenario,
        varied=run.varied,
        seed=run.plan.seed,
        figure=run.metadata.paper or "",
        claim=run.metadata.claim or run.metadata.description,
        status=last.status,
        reason=last.reason,
        folder=last.folder,
        expectations=() if manifest is None else tuple(manifest.get("expectations", ())),
        untrusted_before=folder.untrusted_before(run),
        is_late=manifest is not None and bool(manifest.get("late")),
        published=judge_published(run.published, [_variant_run(folder, run)]) if is_whole else (),
        own=_own(folder.plan.expect, run, manifest or {}),
    )


def _own(expect: Sequence[CampaignExpectation], run: PlannedRun, manifest: Mapping[str, Any]) -> str:
    """The first figure of a run that the campaign expects something of; empty for none."""
    figures = run_figures(manifest) if expect else {}
    named = (
        quantity.within_run
        for each in expect
        if each.is_of(run.cell)
        for quantity in each.parsed.that.quantities()
    )
    name = next((name for name in named if name in figures), None)
    return "" if name is None else f"{name}: {format_figure(figures[name].value, figures[name].dimension)}"


def _row_of_variants(folder: CampaignFolder, group: Sequence[PlannedRun]) -> SummaryRow:
    first = group[0]
    runs = tuple(_variant_run(folder, run) for run in group)
    planned = sum(each.group == first.group for each in folder.plan.runs)
    is_whole = len(group) == planned and all(run.measures for run in runs)
    expectations = judge_across(first.expect, runs) if is_whole else ()
    status = worst_status(runs, expectations)
    return replace(
        _row(folder, first),
        key=first.group,
        status=status,
        reason=reason_of(status, runs, expectations),
        folder=None,
        expectations=expectations,
        variants=runs,
        compare=in_order(first.compare),
        untrusted_before=0,
        published=judge_published(first.published, runs) if is_whole else (),
    )


def _variant_run(folder: CampaignFolder, run: PlannedRun) -> VariantRun:
    last, manifest = folder.last(run), folder.manifest(run) or {}
    return VariantRun(
        name=run.plan.variant or "",
        values=run.axes,
        status=last.status,
        reason=last.reason,
        folder=last.folder,
        expectations=tuple(manifest.get("expectations", ())),
        measures={each["quantity"]: each for each in manifest.get("measures", ())},
        flows=folder.flows(run) if any(each.kind == "per-flow" for each in run.plan.figure) else {},
    )
