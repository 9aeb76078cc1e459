"""The commands and groups of the command line: module, panel and summary of each.

`--help` and TAB show these tables and import no command.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any, ClassVar, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class Listed:
    """A command, or a group of commands, as `--help` lists it."""

    name: str  # as typed
    module: str  # in mrc_testbed.cli; makes the command when it is imported
    summary: str  # first paragraph of the command's help


PANELS: Final = {
    "Lab": (
        Listed("up", "lab", "Bring a lab up. Alias: deploy."),
        Listed("down", "lab", "Remove a lab, whatever state it is in. Alias: destroy."),
        Listed("status", "status", "List labs and their health; with -n show one in detail."),
        Listed("exec", "node", "Run a program in a node and return its exit status."),
        Listed("launch", "launch", "Run a program with one rank per host, such as a training job."),
        Listed("logs", "node", "Show logs of agents and lab processes (default: all)."),
        Listed("restart", "node", "Restart NIC agents (default: every failed process)."),
        Listed("shell", "node", "Open Mininet's shell on a lab."),
    ),
    "Test": (
        Listed("demo", "scenario", "Bring a lab up, flap links under full load, print the verdict."),
        Listed("run", "scenario", "Run one scenario: workload, faults, expectations, verdict."),
        Listed("bench", "bench", "Measure a running lab: bandwidth, latency, incast, collectives."),
        Listed("check", "check", "Check a lab for slow and dead hosts, paths and links, and name them."),
        Listed("fault", "fault", "Inject faults into a running lab and clear them."),
        Listed("scenarios", "scenarios", "List ready scenarios and campaigns; copy them to edit."),
        Listed("campaign", "campaign", "Run scenarios x parameters x seeds and summarise them."),
    ),
    "Results": (
        Listed("report", "report", "Show the results of a finished run and where its report is."),
        Listed("why", "bundle", "Explain why an operation was slow: the causes on its critical path."),
        Listed("compare", "report", "Compare two runs: every figure that both have, and the ratio."),
        Listed("bundle", "bundle", "Pack results into one file, or unpack such a file."),
        Listed("replay", "bundle", "Repeat a run or campaign as planned and report differences."),
        Listed("top", "live", "Show a running lab live in the terminal."),
        Listed("serve", "live", "Show a running lab live in a browser."),
    ),
    "Look closer": (
        Listed("inspect", "inspection", "Show a fabric: sizes, addresses, uSIDs, tables, counters, queues."),
        Listed("graph", "inspection", "Draw a fabric."),
        Listed("ev", "ev", "Show and control entropy values (EVs): state, path, use."),
        Listed("probe", "probe", "Probe the links of a running lab."),
        Listed("capture", "capture", "Capture the MRC packets of ports, until Ctrl-C."),
    ),
    "Machine": (
        Listed("doctor", "setup", "Check this machine and say how to fix what it lacks."),
        Listed("setup", "setup", "Install what labs need on this machine."),
        Listed("observe", "observe", "Run Prometheus and Grafana beside the labs."),
        Listed("size", "size", "Plan a multi-plane Clos fabric: switches, links, optics, losses."),
        Listed("validate", "files", "Check scenario, topology and campaign files; print their schemas."),
    ),
}
LISTED: Final = tuple(chain.from_iterable(PANELS.values()))
OBSERVE: Final = (
    Listed("up", "observe_stack", "Start exporter, Prometheus and Grafana with the dashboards."),
    Listed("down", "observe_stack", "Stop them and delete their samples; labs stay."),
    Listed("status", "observe_stack", "Show the state of the services; exit status 1 on a problem."),
    Listed("open", "observe_stack", "Print the address of the dashboards and open a browser."),
    Listed("alerts", "observe_stack", "Show the alerts that are active now."),
    Listed("export", "observe_export", "Write files for a Prometheus, Alertmanager and Grafana of your own."),
    Listed("metrics", "observe_export", "Serve metrics for Prometheus, until Ctrl-C."),
    Listed("dashboards", "dashboards", "Manage the dashboards in a Grafana of your own."),
)
"""Commands of `observe`."""

ALIASES: Final = {"deploy": "up", "destroy": "down"}
"""Names that are not listed, to what they stand for."""

GONE: Final = {
    "--budget": "a campaign repeats no run by itself: give it more `seeds`, or end it by --timeout",
    "--calibrate": "each run is judged instead, by what the machine does: docs/explanation/fidelity.md",
}
"""Options of older versions, to what takes their place."""


class LazyGroup(TyperGroup):
    """A group that imports the module of a command when that command is typed."""

    modules: ClassVar[Mapping[str, str]]
    """Name of a command -> module."""

    made: ClassVar[typer.Typer]
    """The commands of the modules that are imported."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that *args* begin with and return it with its name and arguments."""
        name = ALIASES.get(args[0], args[0])
        if name in self.modules:
            import_module(f"mrc_testbed.cli.{self.modules[name]}")
            one = typer.Typer(rich_markup_mode="rich")
            one.registered_commands = [each for each in self.made.registered_commands if each.name == name]
            one.registered_groups = [each for each in self.made.registered_groups if each.name == name]
            self.commands[args[0]] = get_group(one).commands[name]
        return super().resolve_command(ctx, args)


class DefaultGroup(TyperGroup):
    """A group whose first command need not be named: `bundle RUN` is `bundle create RUN`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*, with the command's name in front where it is missing."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = [next(iter(self.commands)), *args]
        return super().parse_args(ctx, args)


def lazy(listed: Iterable[Listed], made: typer.Typer) -> type[LazyGroup]:
    """The class of a group with the commands of a table, which their modules add to *made*."""
    modules = {each.name: each.module for each in listed}
    return type("ListedGroup", (LazyGroup,), {"modules": modules, "made": made})


def add_listed(app: typer.Typer, listed: Iterable[Listed], panel: str | None = None) -> None:
    """Add a table to *app*, whose class is `lazy` of it, under the heading *panel*."""
    for each in listed:
        app.command(each.name, help=each.summary, rich_help_panel=panel)(not_imported)


def add_all(app: typer.Typer) -> None:
    """Add all commands and their aliases to *app*, whose class is `lazy` of LISTED."""
    for panel, listed in PANELS.items():
        add_listed(app, listed, panel)
    for alias in ALIASES:
        app.command(alias, hidden=True)(not_imported)


def not_imported() -> None:
    """Stand for a command until its group makes it."""
