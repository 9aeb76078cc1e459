"""The folder of a campaign: its plan, a journal that survives anything, the runs' own folders, the summary.

campaigns/<name>/<UTC>-<id>/    campaign.yaml   as it was written
plan.json       the runs, in order
plans/          each run's plan and scenario: what a resume carries out
journal.jsonl   one line per finished run, the last of a run counts
runs/           result folders, as `run` writes them
summary.md, summary.json, junit.xml, report.html; runs.csv: a row per run that has ended
variants/       a page and a figure for each scenario with variants; of one alone, the report itself
"""

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self, TextIO

from mrc_testbed.campaign.cell_expectation import CampaignExpectation
from mrc_testbed.campaign.plan import CampaignPlan, PlannedRun, Shard
from mrc_testbed.document.envelope import Metadata
from mrc_testbed.document.one_step import latest_of, point_latest, room_hint, write_in_one_step, writing
from mrc_testbed.document.text_file import read_result, read_rows
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.fabric.paths import LAB_NAME_LENGTH_MAX
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.kept_times import FILE_NAME as HISTOGRAMS
from mrc_testbed.scenario.report.kept_times import load_histograms
from mrc_testbed.scenario.report.run_record import load_manifest
from mrc_testbed.scenario.spec.plan import dump_plan, load_plan

SCHEMA_VERSION: Final = 2
_ID_BYTES: Final = 3
_REFUSED: Final = "refused.txt"
"""Beside the folders of a campaign: when and why a newer execution did not begin."""

_RUN_FOLDER: Final = re.compile(r"runs/[a-z0-9-]+/\w[\w-]*")
"""From the campaign's own; it leads nowhere else, whoever wrote the journal."""

NOT_RUN: Final = "not run"
"""Status of a run before its first end."""

FINISHED: Final = frozenset({"passed", "failed", "aborted", "untrusted"})
"""Statuses of runs that a resume does not repeat; `error` and `interrupted` are not among them."""


@dataclass(frozen=True, slots=True)
class RunEntry:
    key: str  # which run
    status: str  # as in its manifest
    exit_code: int  # of the command that would have run it alone
    reason: str  # one sentence
    folder: str | None  # its result folder, from the campaign's own; None when it did not get that far
    ended_utc: str  # when
    why: str = ""  # of a run that follows an UNTRUSTED one, or that 0.3 asked for; else empty


def runs_of(campaign: Path) -> Path:
    """Where the result folders of the runs of a campaign's folder are."""
    return campaign / "runs"


class CampaignFolder:
    def __init__(self, path: Path, plan: CampaignPlan) -> None:
        self.path = path
        self.plan = plan
        self._entries: dict[str, list[RunEntry]] = {}
        for entry in _read_journal(path / "journal.jsonl"):
            self._take(entry)

    @classmethod
    def create(cls, campaigns: Path, plan: CampaignPlan) -> Self:
        """A new folder for *plan* below *campaigns*."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = campaigns / plan.name / f"{stamp}-{secrets.token_hex(_ID_BYTES)}"
        try:
            (path / "plans").mkdir(parents=True)
            (path / "campaign.yaml").write_text(plan.source, encoding="utf-8")
            for run in plan.runs:
                (path / _plan_name(run.index)).write_text(dump_plan(run.plan), encoding="utf-8")
                (path / _source_name(run.index)).write_text(run.source, encoding="utf-8")
            (path / "plan.json").write_text(_dump(plan), encoding="utf-8")
            (path / "journal.jsonl").touch()
        except OSError as error:
            raise TestbedError(
                f"the campaign cannot be written to {path}: {error.strerror or error}",
                hint=f"{room_hint(error)}choose another folder with --campaigns",
            ) from error
        point_latest(path)
        with contextlib.suppress(OSError):
            (path.parent / _REFUSED).unlink()
        return cls(path, plan)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of a campaign that was begun before."""
        try:
            found = json.loads(read_result(path / "plan.json"))
            if found["schema_version"] != SCHEMA_VERSION:
                raise UsageError(f"{path}: a campaign of schema version {found['schema_version']}")
            runs = tuple(_load_run(path, each) for each in found["runs"])
            plan = CampaignPlan(
                found["name"],
                found["description"],
                read_result(path / "campaign.yaml").decode(),
                runs,
                found.get("baseline", {}),
                tuple(CampaignExpectation(**each) for each in found.get("expect", ())),
                Shard.parse(found["shard"]) if found.get("shard") is not None else None,
            )
        except OSError as error:
            raise UsageError(
                f"there is no campaign at {path}: {error.strerror}",
                hint="`mrc-testbed campaign list` shows those that were begun",
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(f"{path / 'plan.json'}: not the plan of a campaign: {error}") from error
        return cls(path, plan)

    @property
    def runs(self) -> Path:
        """Where its runs' result folders are."""
        return runs_of(self.path)

    @property
    def lab(self) -> str:
        """Name of the lab that its runs share: the same for every resume, and no other execution's."""
        name, folder = (_as_words(text) for text in (self.plan.name, self.path.resolve().name))
        execution = folder[-2 * _ID_BYTES :].lstrip("-")
        room = LAB_NAME_LENGTH_MAX - len(f"campaign--{execution}")
        return f"campaign-{name[:room].rstrip('-')}-{execution}"

    def entry(self, run: PlannedRun) -> RunEntry | None:
        """The journal's last word on a run; None before its first end."""
        return next(reversed(self.entries(run)), None)

    def entries(self, run: PlannedRun) -> Sequence[RunEntry]:
        """Everything that the journal says of a run, oldest first."""
        return self._entries.get(run.key, ())

    def last(self, run: PlannedRun) -> RunEntry:
        """The same; before the first end, an entry that says `not run`."""
        return self.entry(run) or RunEntry(run.key, NOT_RUN, 0, "", None, "")

    def result_folder(self, run: PlannedRun) -> Path | None:
        """Result folder of a run; None when it did not get that far."""
        folder = self.last(run).folder
        return None if folder is None else self.path / folder

    @property
    def begun_utc(self) -> str:
        """The time when it began, as its name has it."""
        return self.path.resolve().name.partition("-")[0]

    def file(self, run: PlannedRun, name: str) -> Path | None:
        """Path of a file in the result folder of a run, which may be missing there; None without a folder."""
        folder = self.result_folder(run)
        return None if folder is None else folder / name

    def untrusted_before(self, run: PlannedRun) -> int:
        """Number of times that a run was UNTRUSTED before its last end."""
        return sum(each.status == Status.UNTRUSTED.value for each in self.entries(run)[:-1])

    @property
    def wanted(self) -> list[PlannedRun]:
        """Runs that are done, in order; of extra ones those that were."""
        return [run for run in self.plan.own_runs if not run.is_extra or self.entry(run) is not None]

    def _take(self, entry: RunEntry) -> None:
        self._entries.setdefault(entry.key, []).append(entry)

    def pending(self, retry: frozenset[str] = frozenset()) -> list[PlannedRun]:
        """Runs that are not finished, in order; those that ended with a status of *retry* are not either."""
        return [run for run in self.wanted if self.last(run).status not in FINISHED - retry]

    def note(self, entry: RunEntry) -> None:
        """Appends to the journal, and sees to it that the line is on the disk."""
        self._take(entry)
        try:
            with (self.path / "journal.jsonl").open("a+", encoding="utf-8") as journal:
                # an entry that a full disk or a crash cut short must not take this one with it
                journal.write("" if _ends_whole(journal) else "\n")
                journal.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
                journal.flush()
                os.fsync(journal.fileno())
        except OSError as error:
            raise TestbedError(f"{self.path}: the journal cannot be written: {error.strerror}") from error

    def manifest(self, run: PlannedRun) -> dict[str, Any] | None:
        """manifest.json of a run that ended; None when it has none."""
        path = self.file(run, "manifest.json")
        try:
            return None if path is None else load_manifest(path)
        except OSError:
            return None  # somebody removed it: the journal still has the status

    def histograms(self, run: PlannedRun) -> dict[str, Histogram]:
        """Times of a run that ended; empty when it has none, or was run before they were kept."""
        path = self.file(run, HISTOGRAMS)
        try:
            return {} if path is None else load_histograms(read_result(path).decode())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise UsageError(f"{path}: {error}") from error

    def flows(self, run: PlannedRun) -> dict[str, float]:
        """Goodput (bit/s) of each flow of a run that ended, all its QPs together; empty when it has none."""
        found: dict[str, float] = {}
        for row in self.rows(run, "flows.csv"):
            name = f"{row['source']} to {row['target']}"
            found[name] = found.get(name, 0.0) + float(row["goodput_bps"])
        return found

    def rows(self, run: PlannedRun, name: str) -> Iterator[dict[str, str]]:
        """Rows of a CSV file in the result folder of a run; none when it is missing."""
        path = self.file(run, name)
        if path is not None and os.path.lexists(path):
            yield from read_rows(path)

    def write(self, name: str, content: str | bytes) -> None:
        """Writes one of the summary's files in one step."""
        path = self.path / name
        with writing(path):
            path.parent.mkdir(exist_ok=True)
            write_in_one_step(path, content)


def note_refused(campaigns: Path, name: str, reason: str) -> None:
    """Note that an execution of a campaign, not its first, did not begin."""
    if (campaigns / name).is_dir():
        now = datetime.now(UTC).isoformat(" ", "seconds")
        write_in_one_step(campaigns / name / _REFUSED, f"{now}: {reason}\n")


def require_latest(campaigns: Path, name: str) -> None:
    """Return if *name* is a path, or no execution of that campaign was refused after the latest."""
    refused = campaigns / name / _REFUSED
    if not os.path.lexists(Path(name) / "plan.json") and os.path.lexists(refused):
        raise UsageError(
            f"the newest execution of {name} did not begin: {read_result(refused).decode().strip()}",
            hint=f"to judge an earlier one, give its folder: {latest_of(campaigns / name).resolve()}",
        )


def find_campaign(campaigns: Path, name: str) -> Path:
    """The folder that *name* means: a path, or the latest execution of the campaign of that name."""
    given = Path(name)
    return given if os.path.lexists(given / "plan.json") else latest_of(campaigns / name)


def all_campaigns(campaigns: Path) -> list[Path]:
    """Folders of all executions below *campaigns*, oldest first."""
    found = {path.parent.resolve() for path in campaigns.glob("*/*/plan.json")}
    return sorted(found, key=lambda path: (path.name, path.parent.name))


def _ends_whole(journal: TextIO) -> bool:
    """Return True if nothing follows the journal's last newline."""
    end = journal.seek(0, os.SEEK_END)
    return not end or os.pread(journal.fileno(), 1, end - 1) == b"\n"


def _as_words(text: str) -> str:
    """Small letters and digits of a text, hyphens between its words."""
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


def _read_journal(path: Path) -> Iterator[RunEntry]:
    """The lines of a journal; one that a crash cut short is passed over."""
    content = read_result(path) if os.path.lexists(path) else b""
    for line in content.split(b"\n"):
        try:
            entry = RunEntry(**json.loads(line))
        except (ValueError, TypeError):
            continue
        require_inside(path.parent, entry)
        yield entry


def require_inside(campaign: Path, entry: RunEntry) -> None:
    """Raise UsageError if the folder of an entry, whoever wrote it, leads out of the campaign's."""
    if entry.folder is not None:
        if not _RUN_FOLDER.fullmatch(entry.folder):
            raise UsageError(f"{campaign}: {entry.folder!r} is no folder of a run")
        folder = campaign / entry.folder
        for each in (folder, *folder.parents[:2]):
            if each.is_symlink():
                raise UsageError(f"{each}: is a symbolic link, not a folder of results")


def _plan_name(index: int) -> str:
    return f"plans/{index:04d}.json"


def _source_name(index: int) -> str:
    return f"plans/{index:04d}.yaml"


def _dump(plan: CampaignPlan) -> str:
    runs = [
        {
            "index": run.index,
            "key": run.key,
            "scenario": run.scenario,
            "varied": dict(run.varied),
            "axes": dict(run.axes),
            "expect": list(run.expect),
            "compare": list(run.compare),
            "published": list(run.published),
            "metadata": run.metadata.model_dump(mode="json"),
            "extra": run.is_extra,
            "plan": _plan_name(run.index),
        }
        for run in plan.runs
    ]
    whole = {
        "schema_version": SCHEMA_VERSION,
        "name": plan.name,
        "description": plan.description,
        "baseline": dict(plan.baseline),
        "expect": [asdict(each) for each in plan.expect],
        "shard": None if plan.shard is None else str(plan.shard),
        "runs": runs,
    }
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _load_run(path: Path, found: Mapping[str, Any]) -> PlannedRun:
    metadata = Metadata.model_validate_json(json.dumps(found["metadata"]))
    index = int(found["index"])
    return PlannedRun(
        index=index,
        scenario=metadata.name,
        varied=found["varied"],
        axes=found["axes"],
        expect=tuple(found["expect"]),
        compare=tuple(found["compare"]),
        published=tuple(found.get("published", ())),
        metadata=metadata,
        plan=load_plan(path / _plan_name(index)),
        is_extra=found.get("extra", False),
        source=read_result(path / _source_name(index)).decode(),
    )
