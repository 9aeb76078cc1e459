"""Results of runs and campaigns as tables: rows of plain values for CSV, Parquet, pandas and R.

Three tables, each row with the `run` it is of: `runs` has one row per run, `figures` one per figure of a run,
`samples` one per value of series.csv, in long form. Of a campaign, `statistics` has one row per figure of a
cell. Times and values are in the base unit that `unit` names.
"""

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from mrc_testbed.campaign.cells import cells_of, compare_cells
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import PlannedRun
from mrc_testbed.campaign.run_figures import run_figures
from mrc_testbed.campaign.statistics import estimate
from mrc_testbed.document.text_file import read_rows
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.report.result_text import Row, samples, write_rows
from mrc_testbed.scenario.report.run_record import has_ended, load_manifest
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.virtual.world import RUNTIME as VIRTUAL

TABLES: Final = ("runs", "figures", "samples")
UNITS: Final = {
    Dimension.COUNT: "1",
    Dimension.RATIO: "1",
    Dimension.TIME: "ns",
    Dimension.RATE: "bit/s",
    Dimension.SIZE: "B",
}


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A finished run: its folder, its manifest, and what a campaign varied for it."""

    path: Path
    manifest: Mapping[str, Any]
    varied: Mapping[str, str]

    @property
    def is_virtual(self) -> bool:
        """Return True if it took place in virtual time."""
        return bool(self.manifest["provenance"]["runtime"] == VIRTUAL)


def finished_runs(path: Path) -> list[RunFolder]:
    """The runs of a result folder, which is one run's or a campaign's, in order."""
    if os.path.lexists(path / "plan.json") and os.path.lexists(path / "journal.jsonl"):
        folder = CampaignFolder.open(path)
        runs = sorted(folder.wanted, key=lambda run: run.index)
        found = [each for run in runs if (each := finished_run(folder, run)) is not None]
    else:
        try:
            manifest = load_manifest(path / "manifest.json")
        except OSError as error:
            raise UsageError(f"{path}: neither a run nor a campaign: {error.strerror}") from error
        found = [RunFolder(path, manifest, {})] if has_ended(manifest) else []
    if not found:
        raise UsageError(f"{path}: no run in it has ended")
    return found


def finished_run(folder: CampaignFolder, run: PlannedRun) -> RunFolder | None:
    """A run of a campaign; None unless it has ended."""
    path, manifest = folder.result_folder(run), folder.manifest(run)
    if path is None or manifest is None or not has_ended(manifest):
        return None
    return RunFolder(path, manifest, run.place)


def run_row(run: RunFolder) -> Row:
    """Varied values, seed, verdict and machine of a run."""
    manifest = run.manifest
    provenance = manifest["provenance"]
    return {
        "run": manifest["run"],
        "scenario": manifest["scenario"],
        **run.varied,
        "seed": manifest["seed"],
        "status": manifest["status"],
        "trusted": int(manifest["trusted"]),
        "late": int(manifest.get("late", False)),
        "started_utc": manifest["started_utc"],
        "duration_ns": manifest["duration_ns"],
        "version": provenance["mrc_testbed"],
        "runtime": provenance["runtime"],
        "machine": provenance.get("machine", ""),
        "kernel": provenance["kernel"],
        "cpu": provenance["cpu"],
    }


def figure_rows(run: RunFolder) -> Iterator[Row]:
    """Each figure of a run: those of its workloads, expectations, comparisons and faults."""
    for name, figure in run_figures(run.manifest).items():
        yield {
            "run": run.manifest["run"],
            "figure": name,
            "value": figure.value,
            "unit": UNITS[figure.dimension],
            "better": figure.better,
        }


def sample_rows(run: RunFolder) -> Iterator[Row]:
    """Each value of a run's series.csv that is not empty: `time_ns` is the end of its interval."""
    path = run.path / "series.csv"
    try:
        for sample in samples(read_rows(path)):
            yield {"run": run.manifest["run"], **sample}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def rows_of(table: str, runs: list[RunFolder]) -> Iterator[Row]:
    """The rows of one of TABLES, run after run."""
    for run in runs:
        match table:
            case "runs":
                yield run_row(run)
            case "figures":
                yield from figure_rows(run)
            case _:
                yield from sample_rows(run)


def statistics_rows(folder: CampaignFolder) -> list[Row]:
    """The median of each figure of a cell, its interval, and what a comparison with the baseline shows."""
    cells = cells_of(folder)
    compared = {(each.cell, each.name): each for each in compare_cells(cells, folder.plan.baseline)}
    rows: list[Row] = []
    for cell in cells:
        for name, figure in cell.figures.items():
            against = compared.get((cell.key, name))
            row: Row = {"scenario": cell.scenario, **cell.place, "figure": name}
            row |= {"unit": UNITS[figure.dimension], "better": figure.better}
            row |= asdict(estimate(figure.values))
            if against is not None:
                row |= {"baseline": against.baseline, "ratio": against.ratio, "verdict": against.verdict}
                row |= {"delta": against.effect.test.delta, "p": against.effect.p}
            rows.append(row)
    return rows


def write_csv(path: Path, rows: Callable[[], Iterable[Row]]) -> None:
    """Write a table; columns are those of all rows, in the order in which they first occur."""
    columns: dict[str, None] = {}
    for row in rows():
        columns |= dict.fromkeys(row)
    with path.open("w", encoding="utf-8", newline="") as stream:
        write_rows(stream, columns, rows())


def build_csv(rows: Sequence[Row]) -> str:
    """Text of a table that is not large."""
    stream = io.StringIO()
    write_rows(stream, dict.fromkeys(column for row in rows for column in row), rows)
    return stream.getvalue()
