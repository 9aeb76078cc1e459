"""An explanation in the report of its run: a bar of all time by cause, and the table of causes."""

from pathlib import Path
from typing import Any, Final, get_args

from mrc_testbed.campaign.tables import RunFolder
from mrc_testbed.document.one_step import write_in_one_step
from mrc_testbed.document.text_file import read_text
from mrc_testbed.explain.answer import cause_table, document, sentence, shares_of
from mrc_testbed.explain.causes import CauseKind
from mrc_testbed.explain.why import Explanation, explain
from mrc_testbed.report.page import part
from mrc_testbed.report.table import Table
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import format_time

_BEGIN: Final = '<section id="why">'
_END: Final = "<!-- end of why --></section>\n"


def answer(plan: Plan, run: RunFolder, wanted: str | None, *, is_kept: bool) -> tuple[dict[str, Any], Table]:
    """Explain an operation, as `explain` does; returns document and table.

    Args:
        is_kept: add the explanation to the run's report.
    """
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
