"""The differences between a run and its repetition: verdict, figures, versions and machine, bytes."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from mrc_testbed.campaign.run_figures import ComparedFigure, compare_runs
from mrc_testbed.campaign.tables import RunFolder
from mrc_testbed.document.text_file import read_result

LIVE_TOLERANCE: Final = 0.05

_MEASURED_FILES: Final = ("events.jsonl", "series.csv", "flows.csv", "operations.csv", "histograms.json")
"""Files that hold nothing but what happened: no name of the run, date or machine."""
_OF_THE_EXECUTION: Final = ("run", "started_utc", "ended_utc", "time_zero_utc", "provenance")
"""Keys of a manifest that differ between any two runs."""
_CONDITIONS: Final = (
    "mrc_testbed",
    "python",
    "kernel",
    "architecture",
    "cpu",
    "cpu_count",
    "memory_bytes",
    "runtime",
)
_SHOWN_CHARACTERS: Final = 60
_SHOWN_BEFORE: Final = 20
"""Characters of a line shown before the first one that differs."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A version, or something of the machine, that is another one; None where a run does not say."""

    name: str
    before: str | int | None
    after: str | int | None


@dataclass(frozen=True, slots=True)
class FileDifference:
    """A file that is not the same, and the first line where it is not."""

    name: str  # of the file
    line: int  # from 1
    # before, after: the line where it differs, cut; empty past the end
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Repetition:
    key: str  # what it is called in its campaign; of a run alone, its scenario
    folder: Path  # result folder of the repetition
    # before, after: verdicts
    before: str
    after: str
    conditions: tuple[Condition, ...]  # versions, and what of the machine is another
    figures: int  # how many were compared
    beyond: tuple[ComparedFigure, ...]  # those that differ by more than the tolerance
    # those that are not the same to the byte; None unless both took place in virtual time
    files: tuple[FileDifference, ...] | None
    is_exact: bool  # whether files have to be the same
    is_late: bool = False  # whether the figures of one of them are those of a late machine

    @property
    def is_same(self) -> bool:
        """Return True if it repeated: the same verdict, figures within the tolerance, the same bytes."""
        return self.before == self.after and not self.beyond and not (self.is_exact and self.files)


def compare_repetition(key: str, before: RunFolder, after: RunFolder, tolerance: float | None) -> Repetition:
    """Compare a run with its repetition.

    Args:
        key: what to call it.
        tolerance: share of its first value by which a figure may differ; None: not at all and to the byte
            between two runs in virtual time, LIVE_TOLERANCE otherwise.
    """
    manifests = before.manifest, after.manifest
    are_virtual = before.is_virtual and after.is_virtual
    is_exact = are_virtual and tolerance is None
    share = (0.0 if is_exact else LIVE_TOLERANCE) if tolerance is None else tolerance
    figures = compare_runs(*manifests)
    first, second = (each["provenance"] for each in manifests)
    return Repetition(
        key=key,
        folder=after.path,
        before=before.manifest["status"],
        after=after.manifest["status"],
        conditions=tuple(
            Condition(name, first.get(name), second.get(name))
            for name in _CONDITIONS
            if first.get(name) != second.get(name)
        ),
        figures=len(figures),
        beyond=tuple(figure for figure in figures if _is_beyond(figure, share)),
        files=tuple(_differences(before, after)) if are_virtual else None,
        is_exact=is_exact,
        is_late=any(each.get("late") for each in manifests),
    )


def _is_beyond(figure: ComparedFigure, share: float) -> bool:
    if figure.before is None or figure.after is None:
        return figure.before != figure.after
    return abs(figure.after - figure.before) > share * abs(figure.before)


def _differences(before: RunFolder, after: RunFolder) -> Iterator[FileDifference]:
    for name in ("manifest.json", *_MEASURED_FILES):
        first, second = (_lines(run, name) for run in (before, after))
        for number, (one, other) in enumerate(zip_longest(first, second, fillvalue=""), 1):
            if one != other:
                same = next(
                    (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0
                )
                start = max(0, same - _SHOWN_BEFORE)
                yield FileDifference(name, number, *(_cut(line, start) for line in (one, other)))
                break


def _lines(run: RunFolder, name: str) -> list[str]:
    """The lines of a file that are compared; empty if the run has no such file."""
    if name == "manifest.json":
        kept = {key: value for key, value in run.manifest.items() if key not in _OF_THE_EXECUTION}
        return json.dumps(kept, indent=1).splitlines(keepends=True)
    path = run.path / name
    return read_result(path).decode().splitlines(keepends=True) if os.path.lexists(path) else []


def _cut(line: str, start: int) -> str:
    text = line.rstrip("\n")
    end = start + _SHOWN_CHARACTERS
    return f"{'...' if start else ''}{text[start:end]}{'...' if text[end:] else ''}"
