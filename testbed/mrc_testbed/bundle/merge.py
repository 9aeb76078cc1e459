"""Puts the runs of several folders of one campaign together, such as those of its shards."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from mrc_testbed.bundle.difference import compare_repetition
from mrc_testbed.campaign.folder import FINISHED, CampaignFolder
from mrc_testbed.campaign.plan import CampaignPlan, PlannedRun
from mrc_testbed.campaign.summary_files import write_summary
from mrc_testbed.campaign.tables import finished_run
from mrc_testbed.document.one_step import point_latest, scratch_near, writing
from mrc_testbed.document.text_file import open_result
from mrc_testbed.errors import UsageError

_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class Source:
    place: str  # its folder or bundle, for messages
    folder: CampaignFolder  # the campaign


@dataclass(frozen=True, slots=True)
class Merged:
    folder: CampaignFolder  # of the whole campaign
    missing: tuple[str, ...]  # keys of the runs that ended in no source
    doubles: tuple[str, ...]  # a sentence for each run that two sources finished


def merge_campaigns(sources: Sequence[Source], campaigns: Path) -> Merged:
    """A new folder below *campaigns* with the runs of all sources, which stay as they are.

    A run that two sources finished is kept once, if they hold the same run, or took it in virtual time to the
    same bytes.
    """
    first = sources[0]
    for source in sources:
        _expect_same_plan(first, source)
    plan = replace(first.folder.plan, shard=None)
    _expect_same_version(sources, plan)
    doubles: list[str] = []
    ended: list[tuple[PlannedRun, Source]] = []
    for run in plan.runs:
        chosen = _choose(run, sources, doubles)
        if chosen is not None:
            ended.append((run, chosen))
    keys = {run.key for run, _ in ended}
    missing = tuple(run.key for run in plan.runs if not run.is_extra and run.key not in keys)
    return Merged(_write(plan, ended, campaigns), missing, tuple(doubles))


def _expect_same_plan(first: Source, other: Source) -> None:
    plans = first.folder.plan, other.folder.plan
    if plans[0].name != plans[1].name:
        raise _refusal(first, other, "campaign", *(plan.name for plan in plans))
    keys, others = ({run.key for run in plan.runs} for plan in plans)
    if alone := sorted(keys ^ others):
        place = first.place if alone[0] in keys else other.place
        raise UsageError(f"the plans differ: only {place} has the run {alone[0]}")
    if (found := _first_difference(*map(_tree, plans))) is not None:
        raise _refusal(first, other, *found)


def _tree(plan: CampaignPlan) -> dict[str, Any]:
    """A plan without its shard: each run by its key, then what is of the campaign."""
    whole: dict[str, Any] = TypeAdapter(CampaignPlan).dump_python(replace(plan, shard=None), mode="json")
    runs = dict(zip((run.key for run in plan.runs), whole.pop("runs"), strict=True))
    source = whole.pop("source")
    return runs | whole | {"source": source}


def _first_difference(one: Any, two: Any) -> tuple[str, Any, Any] | None:
    """Path to the first value that differs, and the two values; None if all are the same."""
    if isinstance(one, list) and isinstance(two, list):
        one, two = dict(enumerate(one)), dict(enumerate(two))
    if not (isinstance(one, dict) and isinstance(two, dict)):
        return None if one == two else ("", one, two)
    for key in one | two:
        if (found := _first_difference(one.get(key), two.get(key))) is not None:
            path, *values = found
            return f"{key}.{path}".rstrip("."), values[0], values[1]
    return None


def _refusal(first: Source, other: Source, where: str, one: Any, two: Any) -> UsageError:
    values = (json.dumps(value, ensure_ascii=False) for value in (one, two))
    shown = (text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..." for text in values)
    said = ", ".join(f"{text} in {each.place}" for text, each in zip(shown, (first, other), strict=True))
    return UsageError(f"the plans differ: {where}: {said}")


def _expect_same_version(sources: Sequence[Source], plan: CampaignPlan) -> None:
    seen: dict[str, str] = {}
    for source in sources:
        for run in plan.runs:
            if (manifest := source.folder.manifest(run)) is not None:
                seen.setdefault(manifest["provenance"]["mrc_testbed"], f"{run.key} in {source.place}")
    if len(seen) > 1:
        said = ", ".join(f"{version} ran {where}" for version, where in seen.items())
        raise UsageError(f"the runs are of different versions of mrc-testbed: {said}")


def _choose(run: PlannedRun, sources: Sequence[Source], doubles: list[str]) -> Source | None:
    """The source whose results of a run are kept; None if it ended in none."""
    ended = [source for source in sources if source.folder.entry(run) is not None]
    if not ended:
        return None
    finished = [source for source in ended if source.folder.last(run).status in FINISHED]
    for other in finished[1:]:
        _expect_same_results(run, finished[0], other)
        doubles.append(f"{run.key} is in {finished[0].place} and in {other.place}, the same: kept once")
    chosen = next(iter(finished), max(ended, key=lambda source: source.folder.last(run).ended_utc))
    for entry in chosen.folder.entries(run):
        if entry.folder is not None and not (chosen.folder.path / entry.folder).is_dir():
            raise UsageError(f"{chosen.place} lacks the results of {run.key}: {entry.folder}")
    return chosen


def _expect_same_results(run: PlannedRun, first: Source, other: Source) -> None:
    entries = [source.folder.last(run) for source in (first, other)]
    results = [finished_run(source.folder, run) for source in (first, other)]
    if entries[0] == entries[1]:
        return
    why = "a manifest is missing"
    if results[0] is not None and results[1] is not None:
        compared = compare_repetition(run.key, results[0], results[1], None)
        if compared.is_exact and compared.is_same:
            return
        why = "they differ" if compared.is_exact else "runs on a lab are never the same"
    said = f"{entries[0].status} in {first.place}, {entries[1].status} in {other.place}; {why}"
    raise UsageError(f"{run.key} is finished twice: {said}", hint="leave one of the two parts out")


def _copy(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for each in sorted(source.iterdir()):
        try:
            stream = open_result(each)
        except OSError as error:
            raise UsageError(f"{each}: cannot be read: {error.strerror}") from error
        with stream, (target / each.name).open("xb") as copy:
            shutil.copyfileobj(stream, copy)


def _write(plan: CampaignPlan, ended: Sequence[tuple[PlannedRun, Source]], campaigns: Path) -> CampaignFolder:
    base = campaigns.absolute()
    with writing(base, "choose another folder with --campaigns"), scratch_near(base) as scratch:
        draft = CampaignFolder.create(scratch, plan)
        for run, source in ended:
            for entry in source.folder.entries(run):
                if entry.folder is not None:
                    _copy(source.folder.path / entry.folder, draft.path / entry.folder)
                draft.note(entry)
        write_summary(draft)
        target = campaigns / plan.name / draft.path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.path.rename(target)
    point_latest(target)
    return CampaignFolder(target, plan)
