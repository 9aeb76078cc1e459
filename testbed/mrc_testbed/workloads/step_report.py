"""Steps that the ranks of a program report, and the steps of the job that they are together. Pure.

A report is a line of JSON: {"step": 12, "time_s": 0.123, "loss": 1.25, "bytes": 603176, "slowest_rank": 2,
"end_ns": 123456789, "by": "mrc-torch", "optimizer": "Adam"}; only `step` and `time_s` are required. A loss
that is not finite is null, or what Python's json writes for it. The job has the steps that rank 0 reports.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mrc_testbed.errors import TestbedError, did_you_mean
from mrc_testbed.traces.rows import RankRows
from mrc_testbed.workloads.operation_record import OperationRecord

_LONGEST_STEP_S: Final = 1e9


class ReportError(TestbedError):
    """A rank reported something that is neither a step nor a row of a trace."""


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step, as one rank saw it."""

    rank: int  # which one
    step: int  # its number; each that a rank reports is above the one before
    # begin_ns, end_ns: by the clock of the lab
    begin_ns: int
    end_ns: int
    loss: float | None = None  # of the step, maybe not finite; None: not given
    sent_bytes: int | None = None  # by this rank in the step; None: not given
    slowest_rank: int | None = None  # the rank that the others waited for; None: not given
    is_automatic: bool = False  # mrc-torch reported it, not the script
    optimizer: str | None = None  # kind of the one whose step it is; None: not given


def parse_report(line: bytes, rank: int, hosts: Sequence[str], now_ns: int) -> StepReport:
    """The report in a line.

    Args:
        line: without its end.
        rank: which wrote it.
        now_ns: clock of the lab: the end of a step that gives none.
    """

    def refuse(what: str) -> ReportError:
        return ReportError(f"rank {rank} ({hosts[rank]}) reported no step: {what}")

    try:
        found = json.loads(line)
    except ValueError as error:
        shown = line[:80].decode(errors="replace")
        raise refuse(f"expected a JSON object in one line, got {shown!r}") from error
    if not isinstance(found, dict):
        raise refuse(f"expected a JSON object, got {json.dumps(found)[:80]}")
    fields: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "step": ("a whole number from 0", _is_count),
        "time_s": ("seconds from 0", lambda value: _is_number(value) and 0 <= value < _LONGEST_STEP_S),
        "loss": ("a number or null", lambda value: isinstance(value, float | None) or _is_number(value)),
        "bytes": ("a whole number from 0", _is_count),
        "slowest_rank": (
            f"a rank from 0 to {len(hosts) - 1}",
            lambda value: _is_count(value, len(hosts) - 1),
        ),
        "by": ('"mrc-torch"', lambda value: value == "mrc-torch"),
        "optimizer": ("a name", lambda value: isinstance(value, str)),
        "end_ns": ("CLOCK_MONOTONIC in ns, not after now", lambda value: _is_count(value, now_ns)),
    }
    for name, value in found.items():
        if name not in fields:
            raise refuse(f"{name}: there is no such field{did_you_mean(name, fields)}")
        expected, is_right = fields[name]
        if not is_right(value):
            raise refuse(f"{name}: expected {expected}, got {json.dumps(value)[:80]}")
    for name in ("step", "time_s"):
        if name not in found:
            raise refuse(f"{name}: expected {fields[name][0]}, got nothing")
    loss = found.get("loss")
    end_ns = found.get("end_ns", now_ns)
    return StepReport(
        rank=rank,
        step=found["step"],
        begin_ns=end_ns - max(1, round(found["time_s"] * 1e9)),
        end_ns=end_ns,
        loss=math.nan if loss is None and "loss" in found else loss,
        sent_bytes=found.get("bytes"),
        slowest_rank=found.get("slowest_rank"),
        is_automatic="by" in found,
        optimizer=found.get("optimizer"),
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max


def _is_count(value: object, most: int = 2**63 - 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


class JobSteps:
    """Gathers the reports of all ranks of a program into the steps of its job.

    Which ranks report is known by what they do: before rank 0 reports its second step, all may; after that
    those that have. A step is over when each of them has reported it, or a later one; of steps that mrc-torch
    reports, a later one. A line of the script behind mrc-torch's gives the step its loss: it takes the place
    of mrc-torch's, which is then no loss in any rank's step.

    Args:
        hosts: of the ranks, in their order.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self._hosts = hosts
        self.rows = tuple(RankRows(len(hosts)) for _ in hosts)  # of a trace, by rank
        self._last: dict[int, int] = {}
        self._open: dict[int, dict[int, StepReport]] = {}
        self._done = -1
        self._is_settled = False
        self._is_automatic: dict[int, bool] = {}  # by rank: as its first report
        self._has_own_loss = False

    @property
    def has_begun(self) -> bool:
        """Return True if rank 0 has reported a step: time 0 of the run."""
        return 0 in self._last

    def take(self, line: bytes, rank: int, now_ns: int) -> list[OperationRecord]:
        """The steps that are over with a line of a rank; a row of a trace is kept.

        Args:
            now_ns: see `parse_report`.
        """
        if line.startswith(b"["):
            try:
                self.rows[rank].take(line)
            except ValueError as error:
                where = f"rank {rank} ({self._hosts[rank]})"
                raise ReportError(f"{where} reported no row of a trace: {error}") from error
            return []
        report = parse_report(line, rank, self._hosts, now_ns)
        over = self.add(report)
        self.rows[rank].end_step(report.step, report.end_ns)
        return over

    def add(self, report: StepReport) -> list[OperationRecord]:
        """The steps that are over with this report, in order."""
        before = self._last.get(report.rank, -1)
        self._has_own_loss |= not report.is_automatic and report.loss is not None
        is_automatic = self._is_automatic.setdefault(report.rank, report.is_automatic)
        if is_automatic != report.is_automatic:
            latest = self._open.get(before, {}).get(report.rank)
            if is_automatic and latest is not None and report.loss is not None:
                self._open[before][report.rank] = replace(latest, loss=report.loss, is_automatic=False)
            return []
        if report.step <= before:
            where = f"rank {report.rank} ({self._hosts[report.rank]})"
            raise ReportError(
                f"{where} reported no step: step: expected more than {before}, got {report.step}"
            )
        self._is_settled |= report.rank == 0 and before >= 0
        self._last[report.rank] = report.step
        if report.step > self._done:
            self._open.setdefault(report.step, {})[report.rank] = report
        if not self._is_settled and len(self._last) < len(self._hosts):
            return []
        lag = 1 if any(self._is_automatic.values()) else 0
        return self._over(min(self._last.values()) - lag if self.has_begun else -1)

    def finish(self) -> list[OperationRecord]:
        """The steps left that rank 0 has reported, once no report will follow."""
        return self._over(self._last.get(0, -1))

    def _over(self, last: int) -> list[OperationRecord]:
        self._done = max(self._done, last)
        closed = [self._open.pop(step) for step in sorted(self._open) if step <= last]
        return [self._record(reports) for reports in closed if 0 in reports]

    def _record(self, reports: Mapping[int, StepReport]) -> OperationRecord:
        of_ranks = [reports[rank] for rank in sorted(reports)]
        named = (each.slowest_rank for each in of_ranks if each.slowest_rank is not None)
        latest = max(of_ranks, key=lambda each: each.end_ns)
        counted = [each for each in of_ranks if not (self._has_own_loss and each.is_automatic)]
        losses = list(_given(each.loss for each in counted))
        sent = list(_given(each.sent_bytes for each in of_ranks))
        begin_ns = min(each.begin_ns for each in of_ranks)
        return OperationRecord(
            step_begin_ns=begin_ns,
            begin_ns=begin_ns,
            end_ns=latest.end_ns,
            reaction_ns=0,
            compared_bytes=0,
            wrong_bytes=0,
            last_rank=self._hosts[next(named, latest.rank)],
            loss=sum(losses) / len(losses) if losses else None,
            sent_bytes=round(sum(sent)) if sent else None,
            optimizer=reports[0].optimizer,
        )


def _given(values: Iterator[float | None]) -> Iterator[float]:
    return (value for value in values if value is not None)
