"""up | down | status: labs as a whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from testbed.cli.exit_codes import ExitCode
from testbed.cli.observe_options import GrafanaUrl, PrometheusUrl, TokenFile
from testbed.cli.options import Settings, command
from testbed.cli.overload import OverloadGate, OverloadOption
from testbed.cli.queues import describe_queues
from testbed.cli.render import bad, good, key_values, plain_table, say, show
from testbed.cli.stack_text import describe_stack
from testbed.errors import CleanupError, FabricError, TestbedError, UsageError
from testbed.fabric import lab
from testbed.fabric.build import Progress as BuildProgress
from testbed.fabric.known_labs import labs_elsewhere, names
from testbed.fabric.lab import LabStatus
from testbed.fabric.queue_engine import EngineState, QueueEngine
from testbed.fabric.state import Phase, RuntimeName, lab_paths, read_state
from testbed.faults.attendance import attend, hosts_under_faults, mend
from testbed.faults.ledger import Ledger
from testbed.topology.port_selection import other_rates
from testbed.topology.resolve import load_topology, resolve_topology
from testbed.topology.spec import TopologySpec
from testbed.units import format_duration_ns, format_rate_bps

SCHEMA_VERSION: Final = 1
PANEL: Final = "Labs"


def known_topology(settings: Settings) -> TopologySpec:
    """The topology of -t, else of the lab that is up under that name, else the default one."""
    if settings.topology is None:
        spec = live_topology(settings)
        if spec is not None:
            return spec
        if settings.names_lab:
            raise UsageError(
                f"there is no lab {settings.name!r}", hint="mrc-testbed up, or give a file with -t"
            )
    return given_topology(settings)


def given_topology(settings: Settings) -> TopologySpec:
    """The topology of -t, else the default one.

    Raises:
        UsageError: lists everything that is wrong with the file.
    """
    return TopologySpec() if settings.topology is None else load_topology(settings.topology)


def live_topology(settings: Settings) -> TopologySpec | None:
    """The topology of the lab that is up under the name in *settings*; None for none. Needs no root."""
    state = read_state(lab_paths(settings.name))
    return None if state is None else state.spec


def register(app: typer.Typer) -> None:
    """Adds the commands of this module to *app*."""
    command(
        app, "up", heeds=("topology", "name", "dry_run"), panel=PANEL, aliases=("deploy",), needs_root=True
    )(up)
    command(app, "down", heeds=("name", "dry_run"), panel=PANEL, aliases=("destroy",), needs_root=True)(down)
    command(app, "status", heeds=("name",), panel=PANEL, needs_root=True)(status)


def up(
    settings: Settings,
    runtime: Annotated[
        RuntimeName | None,
        typer.Option(
            "--runtime", help="What nodes are made of; left out, docker where it is ready, else netns."
        ),
    ] = None,
    reconfigure: Annotated[
        bool, typer.Option("--reconfigure", help="Replace a lab that is up with another topology or runtime.")
    ] = False,
    overload: OverloadOption = False,
    observe: Annotated[
        bool,
        typer.Option("--observe", show_default=False, help="Also start Prometheus and Grafana: observe up."),
    ] = False,
    grafana_url: GrafanaUrl = None,
    prometheus_url: PrometheusUrl = None,
    token_file: TokenFile = None,
) -> int:
    """Stand a fabric up and return to the shell. Also called deploy.

    Without -t the default lab: 4 planes of 2 T0 and 2 T1 switches, 8 hosts,
    unshaped. The same topology again only gets back processes that do not work;
    another one shows the difference and needs --reconfigure. If anything fails,
    all is undone.

    [bold]Examples[/bold]

      mrc-testbed up                              the default lab
      mrc-testbed up -t lab.yaml --runtime netns  from a file, without Docker
      mrc-testbed up -n second                    a second lab beside the first
      mrc-testbed up --observe                    ends with the dashboards' URL
    """
    spec = given_topology(settings)
    gate = OverloadGate(insists=overload)
    gate.topology(spec, settings.topology)
    gate.say_warnings(settings)
    if settings.is_dry_run:
        summary = _summary_of(spec)
        show(
            settings,
            "LabPlan",
            SCHEMA_VERSION,
            {"name": settings.name, "runtime": runtime, **summary},
            lambda: Group(Text(f"lab {settings.name} would be brought up:"), key_values(_fabric_lines(spec))),
        )
        return ExitCode.PASS
    status_now = lab.up(
        spec,
        name=settings.name,
        runtime=runtime,
        reconfigure=reconfigure,
        spared=hosts_under_faults(settings.name),
        progress=lambda progress: _tell(settings, progress),
    )
    if status_now.note:
        say(settings.stderr, status_now.note)
    for line in mend(settings.name):
        say(settings.stderr, line)
    item = _status_document(status_now)
    shown: list[Callable[[], RenderableType]] = [lambda: _details(status_now, item)]
    if observe:
        stack_item = _observe(settings, grafana_url, prometheus_url, token_file)
        item["observe"] = stack_item
        shown += [Text, lambda: describe_stack(stack_item)]
    show(settings, "LabStatus", SCHEMA_VERSION, item, lambda: Group(*(part() for part in shown)))
    return ExitCode.PASS if status_now.is_healthy else ExitCode.ERROR


def _observe(
    settings: Settings, grafana_url: str | None, prometheus_url: str | None, token_file: Path | None
) -> dict[str, Any]:
    """The stack, brought up beside the lab; that the lab is up is said when the stack is not."""
    from testbed.cli import observe  # noqa: PLC0415 - the SDK of Docker takes a third of a second to import

    try:
        return observe.bring_up(settings, observe.known_settings(grafana_url, prometheus_url), token_file)
    except TestbedError as error:
        error.add_note(f"lab {settings.name!r} is up, only the stack is not: mrc-testbed observe up")
        raise


def down(
    settings: Settings,
    all_labs: Annotated[bool, typer.Option("--all", help="Every lab of this state folder.")] = False,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Also labs of this machine that another state folder knows.")
    ] = False,
) -> None:
    """Remove a lab and everything of it, whatever state it is in. Also called destroy.

    Needs no topology file, and works on a lab that is half built or whose
    state is lost. Removing what does not exist is a success. Faults end with
    the lab. A lab that cannot be removed keeps --all from no other one; labs
    that another state folder knows stay, unless --everywhere is given.

    [bold]Examples[/bold]

      mrc-testbed down
      mrc-testbed down -n second
      mrc-testbed down --all
    """
    if all_labs and settings.names_lab:
        raise UsageError("--all and --name contradict each other", hint="leave one of them out")
    known: Sequence[str] = (settings.name,)
    if all_labs:
        known = (*names(), *(labs_elsewhere() if everywhere else ()))
    removed, failures = [], []
    for name in known:
        settings.progress(f"removing lab {name}")
        try:
            existed = (
                all_labs or name in names() if settings.is_dry_run else lab.down(name, everywhere=everywhere)
            )
            removed.append({"name": name, "existed": existed})
        except TestbedError as error:
            if not all_labs:
                raise
            failures.append(error)
    show(
        settings,
        "LabsRemoved",
        SCHEMA_VERSION,
        {"dry_run": settings.is_dry_run, "labs": removed},
        lambda: _removed(removed, is_dry_run=settings.is_dry_run),
        lines="labs",
    )
    if all_labs and _has_stack():
        say(settings.stderr, "Prometheus and Grafana go on: mrc-testbed observe down")
    if all_labs and not everywhere:
        for name, root in labs_elsewhere().items():
            say(settings.stderr, f"lab {name} stays: it belongs to state folder {root} (--everywhere)")
    if failures:
        reasons = "\n".join(f"- {error.message}" for error in failures)
        raise CleanupError(f"{len(failures)} of {len(known)} labs stay:\n{reasons}", hint=failures[0].hint)


def _has_stack() -> bool:
    """Whether Prometheus and Grafana were started beside the labs."""
    from testbed.observe.state import stack_paths  # noqa: PLC0415 - only `down --all` asks

    return stack_paths().state_file.exists()


def status(settings: Settings) -> int:
    """What labs there are and how they do; with -n one lab in detail.

    Looks at every node and process, and asks every agent. A fault that is
    overdue is ended. The exit status is 1 when anything is wrong; `up` and
    `restart` get back processes that do not work.

    [bold]Examples[/bold]

      mrc-testbed status
      mrc-testbed status -n default -o json
    """
    found = [_observe_lab(name) for name in ((settings.name,) if settings.names_lab else names())]
    items = [_status_document(one) for one in found]
    if settings.names_lab:
        show(settings, "LabStatus", SCHEMA_VERSION, items[0], lambda: _details(found[0], items[0]))
    else:
        elsewhere = list(labs_elsewhere().items())
        show(
            settings,
            "LabList",
            SCHEMA_VERSION,
            {"labs": items, "elsewhere": [{"name": name, "root": str(root)} for name, root in elsewhere]},
            lambda: _overview(found, items, elsewhere),
            lines="labs",
        )
    return ExitCode.PASS if all(one.is_healthy for one in found) else ExitCode.ERROR


def _observe_lab(name: str) -> LabStatus:
    """How a lab and its faults do; a fault that is overdue is ended."""
    one = lab.status(name, spared=hosts_under_faults(name))
    if one.phase is not Phase.UP:
        return one
    return replace(one, problems=(*one.problems, *attend(name)))


def _tell(settings: Settings, progress: BuildProgress) -> None:
    settings.progress(progress.what, progress.done_count, progress.total_count)


def _summary_of(spec: TopologySpec) -> dict[str, Any]:
    number = resolve_topology(spec).numbering
    return {
        "switches": number.switch_count,
        "hosts": number.host_count,
        "links": number.link_count,
        "topology": spec.model_dump(mode="json", exclude_none=True),
    }


def _status_document(one: LabStatus) -> dict[str, Any]:
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
        item |= _summary_of(one.spec)
        item["faults"] = list(Ledger(lab_paths(one.name).faults).entries())
        if one.phase is Phase.UP:
            try:
                with QueueEngine(lab_paths(one.name), is_shaped=one.spec.is_shaped) as engine:
                    item["queues"] = asdict(engine.state())
            except FabricError as error:
                item["problems"].append(error.message)
    return item


def describe_fabric(spec: TopologySpec) -> str:
    """One line: planes, switches, hosts, rate and delay."""
    clos = resolve_topology(spec)
    number = clos.numbering
    rate = (
        "unshaped"
        if spec.port_rate is None
        else f"{format_rate_bps(spec.port_rate)} ports{other_rates(clos)}"
    )
    delay = f", {format_duration_ns(spec.link_delay)} per link" if spec.link_delay else ""
    return f"{spec.planes} planes x ({spec.t0} T0 + {spec.t1} T1), {number.host_count} hosts, {rate}{delay}"


def _fabric_lines(spec: TopologySpec) -> list[tuple[str, RenderableType]]:
    number = resolve_topology(spec).numbering
    return [
        ("fabric", describe_fabric(spec)),
        ("nodes", f"{number.switch_count} switches, {number.host_count} hosts"),
        ("links", f"{number.link_count}"),
    ]


def _health(one: LabStatus) -> Text:
    return good("healthy") if one.is_healthy else bad(f"{len(one.problems)} problems")


def _details(one: LabStatus, item: Mapping[str, Any]) -> RenderableType:
    faults = item["faults"]
    lines: list[tuple[str, RenderableType]] = [
        ("lab", Text(one.name, style="bold")),
        ("state", Text.assemble(str(one.phase or "unknown"), ", ", _health(one))),
        ("runtime", str(one.runtime or "unknown")),
        *(_fabric_lines(one.spec) if one.spec is not None else []),
        ("faults", bad(", ".join(faults)) if faults else Text("none")),
    ]
    if "queues" in item:
        lines.insert(-1, ("queues", describe_queues(EngineState(**item["queues"]))))
    return Group(key_values(lines), *(Text(f"! {problem}", style="red") for problem in one.problems))


def _overview(
    found: Sequence[LabStatus], items: Sequence[Mapping[str, Any]], elsewhere: Sequence[tuple[str, Path]]
) -> RenderableType:
    others = [Text(f"lab {name} belongs to state folder {root}") for name, root in elsewhere]
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


def _removed(removed: Sequence[Mapping[str, Any]], *, is_dry_run: bool) -> RenderableType:
    if not removed:
        return Text("there is no lab")
    verb = "would be removed" if is_dry_run else "is removed"
    return Group(
        *(
            Text(f"lab {item['name']} {verb}" if item["existed"] else f"there was no lab {item['name']}")
            for item in removed
        )
    )
