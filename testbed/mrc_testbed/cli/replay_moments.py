"""replay --at, --until and --qp: the lab at moments of a run in virtual time."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import starmap
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.campaign.tables import RunFolder
from mrc_testbed.cli.admission import Admission
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say, show, titled_table
from mrc_testbed.errors import UsageError
from mrc_testbed.explain.moment import (
    STEPS,
    Row,
    changes_between,
    first_moment,
    host_index,
    moments_of,
    parse_condition,
    steps_of,
)
from mrc_testbed.metrics.series import EV_STATES
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import format_size, format_time
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.transport.transport_kind import refuse_gone
from mrc_testbed.units import parse_duration_ns

ROWS_MAX: Final = 20
_WANTED: Final[Mapping[str, Callable[[Row], bool]]] = {
    "qps": lambda row: row["una_psn"] != row["next_psn"] or row["lost"] > 0,
    "evs": lambda row: any(row[state.name] for state in EV_STATES[1:]),
}
_SHOWN: Final = {"ns": format_time, "bytes": format_size}
_MOMENTS: Final = ("time_ns", "since_ns", "timer_due_ns")
_TWO: Final = 2


def show_moments(
    settings: Settings,
    run: RunFolder,
    plan: Plan,
    at: Sequence[str],
    until: str | None,
    qp: tuple[str, str] | None,
) -> int:
    """Print what the options ask for; return the exit status."""
    refuse_gone(plan.transport.kind)
    Admission(is_virtual=True).saved_plan(plan)
    clos = resolve_topology(plan.topology)
    condition = None if until is None else parse_condition(until, clos)
    hosts = [host_index(clos, name) for name in qp or ()]
    times_ns = [parse_moment_ns(text) for text in at]
    count = len(times_ns) + (condition is not None)
    if count > _TWO or (hosts and count < _TWO):
        raise UsageError("give one moment, or two, of which one may be --until; --qp takes two")
    zero_ns, reason = run.manifest["time_zero_monotonic_ns"], None
    if (maker := run.manifest["provenance"]["mrc_testbed"]) != version("mrc-testbed"):
        say(settings.stderr, f"the run is of mrc-testbed {maker}: what this version repeats may differ")
    settings.progress("repeating the run")
    if condition is not None:
        from_ns = times_ns[0] if times_ns else None
        found = first_moment(plan, zero_ns, from_ns, condition)
        if found is None:
            settings.stderr.print(f"{until}: at no moment of the run")
            return ExitCode.EXPECTATION_FAILED
        times_ns, reason = [*times_ns, found[0]], found[1]
    moments, records = moments_of(plan, zero_ns, times_ns, STEPS if hosts else ())
    changes = changes_between(moments[0], moments[-1])
    steps = list(steps_of(records, zero_ns, *hosts)) if hosts else []
    head = " to ".join(exact_ms(each["time_ns"]) for each in moments) + (f": {reason}" if reason else "")
    parts: Row = {part: rows for part, rows in moments[0].items() if part != "time_ns"}
    if hosts:
        parts = {"steps": steps}
    elif count > 1:
        parts = {f"{part} that changed": rows for part, rows in changes.items()}
    show(
        settings,
        "Moment",
        {"of": str(run.path), "reason": reason, "moments": moments, "changes": changes, "steps": steps},
        lambda: Group(Text(head, style="bold"), *_tables(parts)),
        lines="moments",
    )
    return ExitCode.PASS


def parse_moment_ns(text: str) -> int:
    """A time of the run's own axis, such as `12.3ms`, or `-10ms` in warm-up."""
    return -parse_duration_ns(text[1:]) if text.startswith("-") else parse_duration_ns(text)


def exact_ms(time_ns: float) -> str:
    """A moment as --at takes it."""
    return f"{time_ns / 1e6:.6f}".rstrip("0").rstrip(".") + "ms"


def _tables(parts: Row) -> list[RenderableType]:
    """A table of each part, of as many rows as a screen has; of QPs those that send."""
    found: list[RenderableType] = []
    for title, rows in parts.items():
        wanted = [row for row in rows if _WANTED.get(title, bool)(row)]
        if wanted:
            cells = [dict(starmap(_cell, row.items())) for row in wanted[:ROWS_MAX]]
            found += [Text(), titled_table(title, cells)]
        if len(wanted) > ROWS_MAX:
            found.append(Text(f"... and {len(wanted) - ROWS_MAX:,} more: -o json has all"))
    return found or [Text("nothing")]


def _cell(key: str, value: Any) -> tuple[str, Any]:
    """Name and text of a figure, by its unit."""
    name, _, unit = key.rpartition("_")
    shown = exact_ms if key in _MOMENTS else _SHOWN.get(unit)
    return (name or key, value if value is None else shown(value)) if shown else (key, value)
