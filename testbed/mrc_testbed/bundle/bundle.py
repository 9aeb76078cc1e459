"""A bundle: the results of a run or campaign in one file, to be looked at on any machine, and run again.

    <id>/bundle.json   the first member: schema version, run or campaign, its name, the version that wrote it
    <id>/...           the result folder, as `run` and `campaign run` write it; <id> is its name

Only files that these two write are in a bundle, and no others are read from one.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mrc_testbed.bundle.archive import LEVEL, read_archive, write_archive
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.tables import finished_runs
from mrc_testbed.document.envelope import NAME_PATTERN
from mrc_testbed.document.one_step import in_one_step, latest_of, scratch_near, writing
from mrc_testbed.document.text_file import read_result, read_text
from mrc_testbed.errors import UsageError
from mrc_testbed.printable import printable
from mrc_testbed.report.page import chart_script, page_head
from mrc_testbed.scenario.report.kept_times import FILE_NAME, load_histograms
from mrc_testbed.scenario.report.run_record import load_manifest
from mrc_testbed.scenario.spec.plan import load_plan

_EVENT: Final = TypeAdapter(dict[str, Any])

BUNDLE_SCHEMA_VERSION: Final = 1
SUFFIX: Final = ".tar.zst"
Holds = Literal["run", "campaign"]

_DEFAULTS: Final[dict[Holds, str]] = {"run": "runs", "campaign": "campaigns"}
HEADER: Final = "bundle.json"
_ID: Final = r"\d{8}T\d{6}Z-[0-9a-f]{6}"
_NAME: Final = r"[a-z0-9][a-z0-9-]{0,62}"
_RUN: Final = (
    r"(?:manifest\.json|plan\.json|scenario\.yaml|events\.jsonl|(?:series|samples|flows|operations)\.csv"
    r"|histograms\.json|figure\.svg|summary\.md|junit\.xml|report\.html|[a-z][a-z0-9_-]{0,31}\.log)"
)
_CAMPAIGN: Final = (
    r"(?:campaign\.yaml|plan\.json|plans/\d{4}\.(?:json|yaml)|journal\.jsonl|summary\.(?:md|json)|junit\.xml"
    rf"|runs\.csv|report\.html|variants/\d{{4}}-{_NAME}\.(?:html|svg)|runs/{_NAME}/{_ID}/{_RUN})"
)
_FILES: Final[dict[Holds, re.Pattern[str]]] = {"run": re.compile(_RUN), "campaign": re.compile(_CAMPAIGN)}
_HTTP_EQUIV: Final = re.compile("http-equiv", re.IGNORECASE)
_TAG: Final = re.compile(
    r"<(?:/?(?:svg|title|desc|style|defs|clipPath|use|g|rect|path|line|text|tspan|circle)"
    r'(?:\s+(?:xlink:href="#[\w-]+"|(?!on)(?![a-zA-Z0-9:-]*href)[a-zA-Z][a-zA-Z0-9:-]*="[^"<>]*"))*\s*/?>)'
)
"""A shape or text of a drawing, with attributes that neither run nor lead out of it."""
_DRAWN_ID: Final = re.compile(r'[\s:]id="([^"]*)"')
_USED: Final = re.compile(r'href="#([^"]*)"')
_WITHIN: Final = re.compile(r"url\(#[\w-]+\)")
_LOADS: Final = re.compile(r"url\(|image(?:-set)?\(|src\(|@import|\\", re.IGNORECASE)
"""By which a style loads something; an escape may stand for any of it."""


def contain_page(text: str) -> str:
    """A page whose browser runs no script but that of our reports, loads nothing, and goes nowhere by itself.

    One that begins as ours do is left as it is. Any other gets our beginning, whose policy holds for all that
    comes after it, and its own directives to the browser, which might take it elsewhere, are none any more.
    """
    heads = [page_head(script) for script in (chart_script(), "")]
    if any(map(text.startswith, heads)) and len(_HTTP_EQUIV.findall(text)) == 1:
        return text
    return f"{heads[0]}\n{_HTTP_EQUIV.sub('data-http-equiv', text)}"


def is_plain_drawing(text: str) -> bool:
    """Check that an SVG file is shapes that we draw, without links, scripts and anything loaded."""
    if "<" in _TAG.sub("", text) or _LOADS.search(_WITHIN.sub("", text)):
        return False
    tags = [found[0] for found in _TAG.finditer(text)]
    # What is used again and again is one path: uses of uses would grow beyond measure.
    once = {name for tag in tags if not tag.startswith("<path ") for name in _DRAWN_ID.findall(tag)}
    return once.isdisjoint(_USED.findall(text)) and "&" not in "".join(_DRAWN_ID.findall(text))


class Header(BaseModel):
    """bundle.json."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)

    schema_version: Literal[1]
    holds: Holds
    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    mrc_testbed: str


@dataclass(frozen=True, slots=True)
class Unpacked:
    header: Header  # its bundle.json
    folder: Path  # the result folder


def find_results(what: str, runs: Path, campaigns: Path) -> Path:
    """The result folder that *what* means: a path, or the latest of the scenario or campaign of that name."""
    if os.path.lexists(Path(what) / "plan.json"):
        return Path(what)
    found = [
        each
        for each in (latest_of(runs / what), latest_of(campaigns / what))
        if os.path.lexists(each / "plan.json")
    ]
    if not found:
        raise UsageError(
            f"there is no run or campaign at {what}, {runs / what} or {campaigns / what}",
            hint="name a result folder, or a scenario or campaign and its --runs or --campaigns",
        )
    if len(found) > 1:
        raise UsageError(
            f"{what!r} is a scenario and a campaign", hint=f"name the folder: {found[0]} or {found[1]}"
        )
    return found[0]


def held_in(folder: Path) -> Holds:
    return "campaign" if os.path.lexists(folder / "journal.jsonl") else "run"


def write_bundle(folder: Path, path: Path | None = None, *, level: int = LEVEL) -> Path:
    """The bundle of the result folder *folder*, at *path* or, for None, named after it in the present folder.

    The same folder gives the same bytes.
    """
    folder = folder.resolve()
    finished_runs(folder)
    if not re.fullmatch(_ID, folder.name):
        raise UsageError(
            f"{folder}: not the name of a result folder",
            hint="give it its old name back, such as 20261121T170000Z-3fa2b1",
        )
    holds = held_in(folder)
    plan = json.loads(read_result(folder / "plan.json"))
    name = plan["name" if holds == "campaign" else "scenario"]
    header = {
        "schema_version": BUNDLE_SCHEMA_VERSION,
        "holds": holds,
        "name": name,
        "mrc_testbed": version("mrc-testbed"),
    }
    text = json.dumps(header, indent=2) + "\n"
    _load_header(printable(str(folder)), text)
    into = path or Path(f"{name}-{folder.name}{SUFFIX}")

    def members() -> Iterator[tuple[str, bytes]]:
        yield f"{folder.name}/{HEADER}", text.encode()
        for each in sorted(_names(folder, holds)):
            yield f"{folder.name}/{each}", read_result(folder / each)

    with writing(into), in_one_step(into) as stream:
        write_archive(stream, members(), level)
    return into


def unpack_bundle(path: Path, into: Path | None = None) -> Unpacked:
    """The result folder that the bundle at *path* holds, now at *into*/<name>/<id>.

    Args:
        into: folder, made if there is none; None: `runs` or `campaigns`, as it holds the one or the other.
    """
    base = Path("." if into is None else into).absolute()
    with writing(base), scratch_near(base) as scratch:
        found = read_bundle(path, scratch)
        parent = Path(_DEFAULTS[found.header.holds]) if into is None else into
        target = parent / found.header.name / found.folder.name
        if target.exists():
            raise UsageError(
                f"{target} is there already", hint="remove it, or name another folder with --into"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        found.folder.rename(target)
        return Unpacked(found.header, target)


@contextmanager
def opened(what: Path, holds: Holds | None = None) -> Iterator[Path]:
    """The result folder that *what* is, or that the bundle *what* holds for as long as the context lasts.

    Args:
        what: a folder, which is given back as it is, or a file.
        holds: what the bundle is to hold; None for either.
    """
    if not what.is_file():
        yield what
        return
    with tempfile.TemporaryDirectory(prefix=".mrc-testbed-") as scratch:
        found = read_bundle(what, Path(scratch))
        if holds not in (None, found.header.holds):
            raise UsageError(f"{printable(str(what))}: a bundle of a {found.header.holds}, not of a {holds}")
        yield found.folder


def read_bundle(path: Path, scratch: Path) -> Unpacked:
    """The checked content of the bundle at *path*, now in the folder *scratch*; see `unpack_bundle`."""
    guard = _Guard(path, scratch)
    read_archive(path, scratch, guard.accepts)
    header, folder = guard.header(), scratch / guard.folder
    wanted = "manifest.json" if header.holds == "run" else "journal.jsonl"
    if not (folder / wanted).is_file():
        raise UsageError(f"{printable(str(path))}: the bundle of a {header.holds} without its {wanted}")
    try:
        check_results(folder)
        _contain(folder)
    except UnicodeDecodeError as error:
        raise UsageError(f"{printable(str(path))}: a page or drawing is not UTF-8") from error
    except UsageError as error:
        within = error.message.replace(f"{scratch}/", "")
        raise UsageError(f"{printable(str(path))}: {within}", hint=error.hint) from error
    return Unpacked(header, folder)


def _contain(folder: Path) -> None:
    """Keeps what its sender drew from running anything in a browser."""
    for page in folder.rglob("*.html"):
        page.write_text(contain_page(read_result(page).decode()), encoding="utf-8")
    for drawing in folder.rglob("*.svg"):
        if not is_plain_drawing(read_result(drawing).decode()):
            raise UsageError(f"{drawing}: holds more than shapes and text, as drawings of ours do not")


class _Guard:
    """Knows which names come next: bundle.json first, then what that says."""

    def __init__(self, path: Path, scratch: Path) -> None:
        self._path = path
        self._scratch = scratch
        self._header: Header | None = None
        self.folder = ""

    def accepts(self, name: str) -> bool:
        """Return True if a file of that name may come now."""
        first = re.fullmatch(rf"({_ID})/{re.escape(HEADER)}", name)
        if not self.folder and first is not None:
            self.folder = first[1]
            return True
        inner = name.removeprefix(f"{self.folder}/")
        return bool(self.folder) and inner != name and bool(_FILES[self.header().holds].fullmatch(inner))

    def header(self) -> Header:
        """bundle.json, once it is there."""
        if self._header is None:
            file = self._scratch / self.folder / HEADER
            self._header = _load_header(printable(str(self._path)), read_text(file) if self.folder else "")
        return self._header


def _load_header(shown: str, text: str) -> Header:
    try:
        found = json.loads(text)
        newer = found.get("schema_version", 0) > BUNDLE_SCHEMA_VERSION
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise UsageError(f"{shown}: no bundle of mrc-testbed: {error}") from error
    if newer:
        raise UsageError(
            f"{shown}: a bundle of schema version {found['schema_version']}; this mrc-testbed reads "
            f"{BUNDLE_SCHEMA_VERSION}",
            hint="open it with the version that wrote it, or a later one",
        )
    try:
        return Header.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{shown}: {HEADER}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _names(folder: Path, holds: Holds) -> Iterator[str]:
    """The files of a result folder that a bundle holds, from that folder."""
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if _FILES[holds].fullmatch(name) and path.is_file() and not path.is_symlink():
            yield name


def check_results(folder: Path) -> None:
    """Read every file of data in a result folder; that of a campaign with all its runs."""
    runs = [folder]
    if os.path.lexists(folder / "journal.jsonl"):
        CampaignFolder.open(folder)
        runs = sorted(path.parent for path in folder.glob("runs/*/*/manifest.json"))
    for run in runs:
        _check_run(run)


def _check_run(folder: Path) -> None:
    load_manifest(folder / "manifest.json")
    if os.path.lexists(folder / "plan.json"):
        load_plan(folder / "plan.json")
    path = folder / FILE_NAME
    try:
        if os.path.lexists(path):
            load_histograms(read_result(path).decode())
        path = folder / "events.jsonl"
        for line in read_result(path).decode().splitlines() if os.path.lexists(path) else ():
            _EVENT.validate_json(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {printable(str(error))}") from error
