"""An explanation in words: causes by kind and fault, and one sentence. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from mrc_testbed.explain.causes import Cause, CauseKind, Segment
from mrc_testbed.explain.why import Explanation
from mrc_testbed.report.table import Table
from mrc_testbed.shown import format_share, format_time

_PLACES_SHOWN: Final = 2
_NAMED_SHARE: Final = 0.05
"""Part of an operation from which on the sentence names a cause that no fault is behind."""


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
