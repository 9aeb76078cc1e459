"""All variants of a scenario over time in one chart, from the files that their runs have left."""

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from testbed.campaign.folder import CampaignFolder
from testbed.campaign.plan import PlannedRun
from testbed.report.chart import SECONDS, STYLES, Axis, Band, Chart, Series
from testbed.scenario.report.panel import TIME_TITLE
from testbed.scenario.spec.plan import Plan
from testbed.shown import format_rate, format_time
from testbed.workloads.job import slowest_of_each, step_word

_POINTS_MAX: Final = 400


def time_chart(folder: CampaignFolder, runs: Sequence[PlannedRun]) -> Chart | None:
    """Step times of the first job, else goodput; None when no run or too many have left any."""
    plan = runs[0].plan
    job = next((each for each in plan.workloads if each.collective is not None), None)
    curves = []
    for run in runs:
        entry = folder.entry(run)
        if entry is None or entry.folder is None:
            continue
        path, name = folder.path / entry.folder, run.plan.variant or ""
        curve = _goodput(path, name) if job is None else _steps(path, name, job.name)
        if curve.y:
            curves.append(curve)
    if not 1 < len(curves) <= STYLES:
        return None
    time = _time_axis(plan, max(curve.x[-1] for curve in curves))
    if job is None or job.collective is None:
        return Chart("Goodput, all variants", "lines", time, Axis("goodput", format_rate), curves)
    name = f"{step_word(job.collective)} time"
    title = f"{name.capitalize()}, all variants"
    return Chart(title, "steps", time, Axis(name, format_time), curves)


def _steps(folder: Path, name: str, job: str) -> Series:
    """Time of each step of a job, from its beginning to that of the next."""
    steps = [
        (float(row["step_begin_ns"]), float(row["end_ns"]))
        for row in _rows(folder / "operations.csv")
        if row["workload"] == job
    ]
    slowest = list(slowest_of_each(steps, _POINTS_MAX, lambda step: step[1] - step[0]))
    edges = [begin for begin, _ in slowest] + [end for _, end in slowest[-1:]]
    return Series(name, edges, [end - begin for begin, end in slowest])


def _goodput(folder: Path, name: str) -> Series:
    """Goodput of all hosts; of a long run, the mean over each few intervals."""
    rows = [
        (float(row["time_ns"]), float(row["interval_ns"]), float(row["goodput_bps"]))
        for row in _rows(folder / "series.csv")
    ]
    spacing_ns = max(1.0, (rows[-1][0] - rows[0][0]) / _POINTS_MAX) if rows else 1.0
    middles, rates_bps = [], []
    for _, group in groupby(rows, key=lambda row: row[0] // spacing_ns):
        joined = list(group)
        length_ns = sum(interval_ns for _, interval_ns, _ in joined)
        rates_bps.append(sum(interval_ns * rate for _, interval_ns, rate in joined) / length_ns)
        middles.append(joined[-1][0] - length_ns / 2)
    return Series(name, middles, rates_bps)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as stream:
            yield from csv.DictReader(stream)


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
