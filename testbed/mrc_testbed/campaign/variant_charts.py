"""Charts of variants side by side: bars, lines over message sizes where an axis is one of sizes, and all of
them over time, from the files that their runs have left.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.summary import SummaryRow
from mrc_testbed.campaign.variants import size_axis, size_of, without_window
from mrc_testbed.report.chart import SECONDS, STYLES, Axis, Band, Chart, Series, bar_chart, size_chart
from mrc_testbed.scenario.measure.expectation import FORMATS
from mrc_testbed.scenario.report.panel import TIME_TITLE
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.expression_tree import Quantity
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import Scale, format_rate, format_time
from mrc_testbed.workloads.job import slowest_of_each, step_word

_POINTS_MAX: Final = 400


def variant_charts(row: SummaryRow) -> tuple[Chart, ...]:
    """Charts of the variants: one per quantity, its windows side by side; flows at the end."""
    if not row.variants or not any(run.measures for run in row.variants):
        return ()
    sizes = size_axis(row.variants)
    charts = _over_sizes(row, sizes) if sizes is not None else _side_by_side(row)
    return (*charts, *_flows(row))


def _scale(quantity: Quantity) -> Scale:
    """Scale of a quantity's values; of a count that has a unit, with that."""
    return Scale(((1, quantity.kind.unit),)) if quantity.kind.unit else FORMATS[quantity.dimension]


def _over_sizes(row: SummaryRow, sizes: str) -> Iterator[Chart]:
    for name in row.compare:
        curves: dict[str, dict[int, float]] = {}
        for run in row.variants:
            value, size_bytes = run.value(name), size_of(run.values[sizes])
            others = [other for axis, other in run.values.items() if axis != sizes]
            if value is not None and size_bytes is not None:
                curves.setdefault("-".join(others), {})[size_bytes] = value
        quantity = parse_quantity(name)
        yield size_chart(name, without_window(quantity), curves, _scale(quantity))


def _side_by_side(row: SummaryRow) -> Iterator[Chart]:
    by_kind: dict[str, list[Quantity]] = {}
    for name in row.compare:
        quantity = parse_quantity(name)
        by_kind.setdefault(without_window(quantity), []).append(quantity)
    for base, quantities in by_kind.items():
        bars = {
            str(quantity).removeprefix(base).strip(): _values(row, str(quantity)) for quantity in quantities
        }
        title = str(quantities[0]) if len(quantities) == 1 else base
        shown = {"": bars.popitem()[1]} if len(quantities) == 1 else bars
        yield bar_chart(title, base, shown, _scale(quantities[0]))


def _values(row: SummaryRow, quantity: str) -> dict[str, float]:
    found = ((run.name, run.value(quantity)) for run in row.variants)
    return {name: value for name, value in found if value is not None}


def _flows(row: SummaryRow) -> Iterator[Chart]:
    """A bar for each flow, where the scenario draws flows."""
    bars: dict[str, Mapping[str, float]] = {run.name: run.flows for run in row.variants if run.flows}
    if bars:
        yield bar_chart("Goodput of each flow", "goodput", bars, format_rate)


def time_chart(folder: CampaignFolder, runs: Sequence[PlannedRun]) -> Chart | None:
    """Step times of the first job, else goodput; None when no run or too many have left any."""
    plan = runs[0].plan
    job = next((each for each in plan.workloads if each.shared_work is not None), None)
    curves = []
    for run in runs:
        curve = _goodput(folder, run) if job is None else _steps(folder, run, job.name)
        if curve.y:
            curves.append(curve)
    if not 1 < len(curves) <= STYLES:
        return None
    time = _time_axis(plan, max(curve.x[-1] for curve in curves))
    if job is None or job.shared_work is None:
        return Chart("Goodput, all variants", "lines", time, Axis("goodput", format_rate), curves)
    name = f"{step_word(job.shared_work)} time"
    title = f"{name.capitalize()}, all variants"
    return Chart(title, "steps", time, Axis(name, format_time), curves)


def _steps(folder: CampaignFolder, run: PlannedRun, job: str) -> Series:
    """Time of each step of a job, from its beginning to that of the next."""
    steps = [
        (float(row["step_begin_ns"]), float(row["end_ns"]))
        for row in folder.rows(run, "operations.csv")
        if row["workload"] == job
    ]
    slowest = list(slowest_of_each(steps, _POINTS_MAX, lambda step: step[1] - step[0]))
    edges = [begin for begin, _ in slowest] + [end for _, end in slowest[-1:]]
    return Series(run.plan.variant or "", edges, [end - begin for begin, end in slowest])


def _goodput(folder: CampaignFolder, run: PlannedRun) -> Series:
    """Goodput of all hosts; of a long run, the mean over each few intervals."""
    rows = [
        (float(row["time_ns"]), float(row["interval_ns"]), float(row["goodput_bps"]))
        for row in folder.rows(run, "series.csv")
    ]
    spacing_ns = max(1.0, (rows[-1][0] - rows[0][0]) / _POINTS_MAX) if rows else 1.0
    middles, rates_bps = [], []
    for _, group in groupby(rows, key=lambda row: row[0] // spacing_ns):
        joined = list(group)
        length_ns = sum(interval_ns for _, interval_ns, _ in joined)
        rates_bps.append(sum(interval_ns * rate for _, interval_ns, rate in joined) / length_ns)
        middles.append(joined[-1][0] - length_ns / 2)
    return Series(run.plan.variant or "", middles, rates_bps)


def _time_axis(plan: Plan, last_ns: float) -> Axis:
    """The time axis, with the faults as they were planned."""
    bands = []
    for fault in plan.faults:
        periods = tuple(
            (float(start_ns), float(last_ns if end_ns is None else end_ns))
            for start_ns, end_ns in fault.periods
        )
        if periods:
            bands.append(Band(fault.fault_id, periods))
    start_ns = float(min(plan.start_ns, 0))
    return Axis(TIME_TITLE, SECONDS, start_ns, last_ns, bands=tuple(bands), measured=(0.0, last_ns))
