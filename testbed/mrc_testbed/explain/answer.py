"""An explanation in words: causes by kind and fault, one sentence, and both in the report of the run."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

from mrc_testbed.campaign.tables import RunFolder
from mrc_testbed.document.one_step import write_in_one_step
from mrc_testbed.document.text_file import read_text
from mrc_testbed.explain.causes import Cause, CauseKind, Segment
from mrc_testbed.explain.why import Explanation, explain
from mrc_testbed.report.page import part
from mrc_testbed.report.table import Table
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import format_share, format_time

_PLACES_SHOWN: Final = 2
_NAMED_SHARE: Final = 0.05
"""Part of an operation from which on the sentence names a cause that no fault is behind."""
_BEGIN: Final = '<section id="why">'
_END: Final = "<!-- end of why --></section>\n"


@dataclass(frozen=True, slots=True)
class Share:
    """Time of an operation that has causes of one kind, by one fault or by none."""

    kind: CauseKind
    fault: str  # empty: none
    ns: int
    segments: tuple[Segment, ...]  # the longest first

    def places(self) -> list[tuple[Cause, int, int]]:
        """(longest cause, ns, number) of each place, the longest first."""
        found: defaultdict[str, list[Segment]] = defaultdict(list)
        for each in self.segments:
            found[each.cause.place].append(each)
        rows = [(row[0].cause, sum(each.length_ns for each in row), len(row)) for row in found.values()]
        return sorted(rows, key=lambda row: -row[1])


def shares_of(explanation: Explanation) -> list[Share]:
    """All time of an operation, the longest share first."""
    found: defaultdict[tuple[CauseKind, str], list[Segment]] = defaultdict(list)
    for each in explanation.segments:
        found[each.cause.kind, each.cause.fault].append(each)
    shares = [
        Share(*key, sum(each.length_ns for each in row), tuple(sorted(row, key=lambda each: -each.length_ns)))
        for key, row in found.items()
    ]
    return sorted(shares, key=lambda share: -share.ns)


def sentence(explanation: Explanation) -> str:
    """One sentence: how long it took, and why; what faults have caused comes first."""
    operation = explanation.operation
    took = f"took {format_time(operation.length_ns)}"
    if not operation.is_complete:
        took = f"was not completed in {format_time(operation.length_ns)}"
    acting = f", while {_listed(explanation.acting)} acted" if explanation.acting else ""
    shares = sorted(shares_of(explanation), key=lambda share: (not share.fault, -share.ns))
    parts = [
        f"{format_time(share.ns)} {_part(share)}"
        for share in shares
        if share.fault or share.ns >= _NAMED_SHARE * operation.length_ns
    ]
    return f"{operation.name} {took}{acting}: {'; '.join(parts)}."


def _part(share: Share) -> str:
    (cause, ns, _), *others = share.places()
    by = f" by {share.fault}" if share.fault else ""
    most = f", most at {cause.place} ({format_time(ns)})" if others else f" at {cause.place}"
    match share.kind:
        case "lost packets" | "late packets":
            cause, many = share.segments[0].cause, len(share.segments)
            lost = f" at {format_time(cause.lost_ns)}" if cause.lost_ns is not None else ""
            where = f" at {cause.place}" if cause.place else ""
            kind, found = share.kind.split()[0], "found" if share.kind == "lost packets" else "given up"
            count = f"are one packet {kind}" if many == 1 else f"are {many} {kind} packets, the longest"
            return f"{count}{where}{lost}{by}, {found} by {cause.rule} after {format_time(cause.found_ns)}"
        case "queueing":
            behind = f" behind flow {cause.flow}" if cause.flow else ""
            return f"are queueing{by}{most}{behind}"
        case "held by flow control":
            return f"flow control held frames{by}{most}"
        case "agent did not run":
            return f"the agent of {cause.place} did not run, because of {share.fault}"
        case "could do nothing":
            return f"a QP of {cause.place} could do nothing{by}"
    return f"are {share.kind}{by}"


def cause_table(explanation: Explanation) -> Table:
    """A row for each share, the longest first."""
    length_ns = max(1, explanation.operation.length_ns)
    rows = [
        (
            share.kind,
            format_time(share.ns),
            format_share(share.ns / length_ns),
            share.fault or "-",
            _where(share),
        )
        for share in shares_of(explanation)
    ]
    return Table(("cause", "#time", "#share", "fault", "where"), rows)


def _where(share: Share) -> str:
    """Places of a share, those with most time first."""
    if share.kind in ("lost packets", "late packets"):
        return _part(share).removeprefix("are ")
    rows = [(cause, ns) for cause, ns, _ in share.places() if cause.place]
    texts = [
        f"{cause.place}{f' behind {cause.flow}' if cause.flow else ''}, {format_time(ns)}"
        for cause, ns in rows[:_PLACES_SHOWN]
    ]
    return "; ".join(texts) + (f"; {len(rows) - _PLACES_SHOWN} more" if len(rows) > _PLACES_SHOWN else "")


def document(explanation: Explanation) -> dict[str, Any]:
    """All of it, for programs; times in ns, on the run's axis."""
    operation, zero_ns = explanation.operation, explanation.zero_ns
    return {
        "operation": operation.name,
        "sentence": sentence(explanation),
        "complete": operation.is_complete,
        "begin_ns": operation.begin_ns - zero_ns,
        "end_ns": operation.end_ns - zero_ns,
        "duration_ns": operation.length_ns,
        "faults": list(explanation.acting),
        "causes": [
            {"cause": each.kind, "fault": each.fault or None, "ns": each.ns, "where": _where(each)}
            for each in shares_of(explanation)
        ],
        "messages": [{"hosts": hosts, "ns": ns} for hosts, ns in explanation.messages],
        "segments": [
            {"begin_ns": each.begin_ns - zero_ns, "end_ns": each.end_ns - zero_ns, **each.cause._asdict()}
            for each in explanation.segments
        ],
    }


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def answer(plan: Plan, run: RunFolder, wanted: str | None, *, is_kept: bool) -> tuple[dict[str, Any], Table]:
    """Explain an operation; return document and table, and if it is kept add both to the run's report."""
    found = explain(plan, run.path, run.manifest["time_zero_monotonic_ns"], wanted)
    if is_kept:
        _add_to_report(found, run.path / "report.html")
    return document(found), cause_table(found)


def _add_to_report(explanation: Explanation, path: Path) -> None:
    """Put an explanation into the report at *path*, first of its sections, in place of an earlier one."""
    report = read_text(path)
    before, found, rest = report.partition(_BEGIN)
    if found:
        report = before + rest.partition(_END)[2]
    head, section, tail = report.partition("<section")
    write_in_one_step(path, f"{head}{_section(explanation)}{section}{tail}")


def _section(explanation: Explanation) -> str:
    length_ns = max(1, explanation.operation.length_ns)
    pieces = [
        (
            f"--c{get_args(CauseKind).index(share.kind) % 8}",
            round(100 * share.ns / length_ns, 3),
            f"{share.kind}{f', {share.fault}' if share.fault else ''}: {format_time(share.ns)}",
            "#faults" if share.fault else "#fabric",
        )
        for share in shares_of(explanation)
    ]
    bar = part("causes", sentence(explanation), pieces)
    return f"{_BEGIN}<h2>Why</h2>\n{bar}{cause_table(explanation).html()}{_END}"
