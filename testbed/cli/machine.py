"""doctor: checks of this machine."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.render import bad, good, key_values
from mrc_testbed.cli.rows import Column, Row, show_rows
from mrc_testbed.errors import PreflightError
from mrc_testbed.fabric.preflight import doctor_checks
from mrc_testbed.metrics.capacity import (
    Capacity,
    calibration_file,
    format_frames,
    keep_capacity,
    known_capacity,
)
from mrc_testbed.scenario.run.calibration import calibrate as measure_capacity

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class CheckRow(Row):
    """A check of the machine; *fix* is None where it is met."""

    what: str
    met: bool
    optional: bool
    found: str
    fix: str | None

    COLUMNS = (
        Column("", lambda row: good("ok") if row.met else None if row.optional else bad("no")),
        Column("what", "what"),
        Column("found", "found"),
    )


def register(app: typer.Typer) -> None:
    command(app, "doctor")(doctor)


def doctor(
    settings: Settings,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate", help="Measure the load that this machine can carry. Needs root; takes 20 s."
        ),
    ] = False,
) -> int:
    """Check this machine and say how to fix what it lacks.

    Changes nothing. The exit status is 3 when something is missing.

    --calibrate brings a lab up and loads it until frames are late. `up`,
    `validate`, `run`, `campaign run` and `bench` warn and refuse by the result,
    which is kept in /var/cache/mrc-testbed/calibration.json.

    [bold]Examples[/bold]

      mrc-testbed doctor
      sudo mrc-testbed doctor --calibrate
    """
    settings.progress("checking")
    checks = doctor_checks()
    rows = [
        CheckRow(each.what, each.is_met, each.is_optional, each.found, None if each.is_met else each.fix)
        for each in checks
    ]
    is_ready = all(row.met or row.optional for row in rows)
    if calibrate:
        if not is_ready:
            raise PreflightError("this machine is not ready for labs", hint="mrc-testbed doctor says why")
        keep_capacity(measure_capacity(settings.progress))
    capacity = known_capacity()
    show_rows(
        settings,
        "Doctor",
        SCHEMA_VERSION,
        {"checks": rows},
        document={"capacity": None if capacity is None else asdict(capacity)},
        tail=[Text(), *_to_do(rows), *_described(capacity)],
    )
    return ExitCode.PASS if is_ready else ExitCode.ENVIRONMENT


def _to_do(rows: Sequence[CheckRow]) -> Iterator[RenderableType]:
    for title, is_optional in (("to do", False), ("if you want it", True)):
        unmet = [row for row in rows if not row.met and row.optional == is_optional]
        if unmet:
            yield Text(title, style="bold")
            yield from (Text(f"  {row.what}: {row.fix}") for row in unmet)
    if all(row.met or row.optional for row in rows):
        yield good("this machine is ready")


def _described(capacity: Capacity | None) -> Iterator[RenderableType]:
    if capacity is None:
        yield Text("its capacity is not known: mrc-testbed doctor --calibrate measures it")
        return
    yield Text()
    yield Text(f"capacity, measured {capacity.taken[:10]} ({calibration_file()})", style="bold")
    yield key_values(
        [
            ("shaped, in time", f"{format_frames(capacity.frame_hops_per_s)} frame hops/s"),
            ("shaped, at most", f"{format_frames(capacity.most_frame_hops_per_s)} frame hops/s"),
            ("unshaped", f"{format_frames(capacity.unshaped_packets_per_s)} packets/s across T1s"),
        ]
    )
