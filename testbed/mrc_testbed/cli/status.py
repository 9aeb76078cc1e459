"""status: labs and their health."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import bad, good, key_values, plain_table, show
from mrc_testbed.errors import FabricError, TestbedError, UsageError
from mrc_testbed.fabric.known_labs import ForeignLab, foreign_labs, names
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import Phase
from mrc_testbed.shown import format_rate, format_time
from mrc_testbed.topology.port_selection import other_rates
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

if TYPE_CHECKING:
    from mrc_testbed.fabric.status import LabStatus


@command(COMMANDS, "status", flags=("name",), needs_root=True)
def status(settings: Settings) -> int:
    """List labs and their health; with -n show one in detail.

    Checks every node, port, process and agent. A port that is down, or that has
    lost its XDP program, is a problem unless a fault causes it. Clears faults
    that are overdue. The exit status is 1 on a problem; `up` and `restart` repair
    it.

    [bold]Examples[/bold]

      mrc-testbed status
      mrc-testbed status -n default -o json
    """
    found, items = [], []
    for name in (settings.name,) if settings.names_lab else names():
        try:
            one = _observe_lab(name)
            item = status_document(one)
        except UsageError:
            raise
        except (TestbedError, OSError) as error:  # the other labs are to be seen all the same
            from mrc_testbed.fabric.status import LabStatus  # noqa: PLC0415 - takes a while, and no lab needs none

            one = LabStatus(name, None, None, None, (str(error),))
            item = status_document(one)
        found.append(one)
        items.append(item)
    if settings.names_lab:
        show(settings, "LabStatus", items[0], lambda: status_details(found[0], items[0]))
    else:
        foreign = foreign_labs()
        show(
            settings,
            "LabList",
            {"labs": items, "elsewhere": [{"name": each.name, "root": each.root} for each in foreign]},
            lambda: _overview(found, items, foreign),
            lines="labs",
        )
    return ExitCode.PASS if all(one.is_healthy for one in found) else ExitCode.ERROR


def _observe_lab(name: str) -> "LabStatus":
    """Status of a lab and its faults; clears a fault that is overdue."""
    if not lab_paths(name).faults.is_dir():
        from mrc_testbed.fabric.status import status as lab_status  # noqa: PLC0415 - likewise

        return lab_status(name)
    # Most labs have had no fault, and its kinds take longer to import than all else here.
    from mrc_testbed.faults.attendance import attend, status_under_faults  # noqa: PLC0415

    one = status_under_faults(name)
    if one.phase is not Phase.UP:
        return one
    return replace(one, problems=(*one.problems, *attend(name)))


def _fault_ids(name: str) -> list[str]:
    if not lab_paths(name).faults.is_dir():
        return []
    from mrc_testbed.faults.ledger import Ledger  # noqa: PLC0415 - as above

    return list(Ledger(lab_paths(name).faults).shown_entries())


def topology_summary(spec: TopologySpec) -> dict[str, Any]:
    """Size and topology of a fabric, for programs."""
    number = resolve_topology(spec).numbering
    return {
        "switches": number.switch_count,
        "hosts": number.host_count,
        "links": number.link_count,
        "topology": spec.model_dump(mode="json", exclude_none=True),
    }


def status_document(one: "LabStatus") -> dict[str, Any]:
    item: dict[str, Any] = {
        "name": one.name,
        "runtime": one.runtime,
        "phase": one.phase,
        "healthy": one.is_healthy,
        "problems": list(one.problems),
        "faults": [],
        "state_dir": str(lab_paths(one.name).folder),
    }
    if one.spec is not None:
        item |= topology_summary(one.spec)
        item["faults"] = _fault_ids(one.name)
        if one.phase is Phase.UP:
            from mrc_testbed.fabric.queue_engine import QueueEngine  # noqa: PLC0415 - likewise

            try:
                with QueueEngine(lab_paths(one.name), is_shaped=one.spec.is_shaped) as engine:
                    item["queues"] = asdict(engine.state())
            except FabricError as error:
                item["problems"].append(error.message)
    return item


def describe_fabric(spec: TopologySpec) -> str:
    """Describe planes, switches, hosts, rate and delay in one line."""
    clos = resolve_topology(spec)
    number = clos.numbering
    rate = "unshaped" if spec.port_rate is None else f"{format_rate(spec.port_rate)} ports{other_rates(clos)}"
    delay = f", {format_time(spec.link_delay)} per link" if spec.link_delay else ""
    return f"{spec.planes} planes x ({number.switches_by_tier}), {number.host_count} hosts, {rate}{delay}"


def fabric_lines(spec: TopologySpec) -> list[tuple[str, RenderableType]]:
    """Headings and texts about a fabric."""
    number = resolve_topology(spec).numbering
    return [
        ("fabric", describe_fabric(spec)),
        ("nodes", f"{number.switch_count} switches, {number.host_count} hosts"),
        ("links", f"{number.link_count}"),
    ]


def _health(one: "LabStatus") -> Text:
    return good("healthy") if one.is_healthy else bad(f"{len(one.problems)} problems")


def status_details(one: "LabStatus", item: Mapping[str, Any]) -> RenderableType:
    """Describe one lab; *item* is its document."""
    faults = item["faults"]
    lines: list[tuple[str, RenderableType]] = [
        ("lab", Text(one.name, style="bold")),
        ("state", Text.assemble(str(one.phase or "unknown"), ", ", _health(one))),
        ("runtime", str(one.runtime or "unknown")),
        *(fabric_lines(one.spec) if one.spec is not None else []),
        ("faults", bad(", ".join(faults)) if faults else Text("none")),
    ]
    if "queues" in item:
        from mrc_testbed.fabric.queue_engine import EngineState  # noqa: PLC0415 - likewise

        lines.insert(-1, ("queues", EngineState(**item["queues"]).describe()))
    return Group(key_values(lines), *(Text(f"! {problem}", style="red") for problem in one.problems))


def _overview(
    found: Sequence["LabStatus"], items: Sequence[Mapping[str, Any]], foreign: Sequence[ForeignLab]
) -> RenderableType:
    others = [Text(f"lab {each.name} {each.describe()}") for each in foreign]
    if not found:
        return Group(Text("no lab is up; `mrc-testbed up` brings the default one up"), *others)
    table = plain_table("lab", "state", "runtime", "health", "faults", "fabric")
    problems = []
    for one, item in zip(found, items, strict=True):
        fabric = describe_fabric(one.spec) if one.spec is not None else "unknown"
        faults = str(len(item["faults"])) if item["faults"] else "-"
        table.add_row(
            one.name, str(one.phase or "unknown"), str(one.runtime or "?"), _health(one), faults, fabric
        )
        problems += [Text(f"! {one.name}: {problem}", style="red") for problem in one.problems]
    return Group(table, *problems, *others)
