"""doctor: checks of this machine."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import bad, good, show_rows
from mrc_testbed.fabric.preflight import doctor_checks
from mrc_testbed.report.table import Columns

_COLUMNS: Final[Columns] = {
    "": lambda row: good("ok") if row["met"] else None if row["optional"] else bad("no"),
    "what": "what",
    "found": "found",
}


@command(COMMANDS, "doctor")
def doctor(settings: Settings) -> int:
    """Check this machine and say how to fix what it lacks.

    Changes nothing. The exit status is 3 when something is missing.

    [bold]Examples[/bold]

      mrc-testbed doctor
    """
    settings.progress("checking")
    checks = doctor_checks()
    rows = [
        {
            "what": each.what,
            "met": each.is_met,
            "optional": each.is_optional,
            "found": each.found,
            "fix": None if each.is_met else each.fix,
        }
        for each in checks
    ]
    is_ready = all(each.is_met or each.is_optional for each in checks)
    show_rows(settings, "Doctor", {"checks": rows}, _COLUMNS, tail=[Text(), *_to_do(rows)], version=2)
    return ExitCode.PASS if is_ready else ExitCode.ENVIRONMENT


def _to_do(rows: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for title, is_optional in (("to do", False), ("if you want it", True)):
        unmet = [row for row in rows if not row["met"] and row["optional"] == is_optional]
        if unmet:
            yield Text(title, style="bold")
            yield from (Text(f"  {row['what']}: {row['fix']}") for row in unmet)
    if all(row["met"] or row["optional"] for row in rows):
        yield good("this machine is ready")
