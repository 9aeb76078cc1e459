"""The commands and groups of the command line: module, panel and summary of each.

`--help` and TAB show this table and import no command.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class Listed:
    """A command, or a group of commands, as the overview lists it.

    Attributes:
        name: as typed.
        module: in testbed.cli; its `register` adds the command.
        panel: heading in the overview.
        summary: first paragraph of the command's help.
    """

    name: str
    module: str
    panel: str
    summary: str


LISTED: Final = (
    Listed("up", "lab", "Labs", "Stand a fabric up and return to the shell. Also called deploy."),
    Listed(
        "down",
        "lab",
        "Labs",
        "Remove a lab and everything of it, whatever state it is in. Also called destroy.",
    ),
    Listed("status", "status", "Labs", "What labs there are and how they do; with -n one lab in detail."),
    Listed(
        "inspect",
        "topology",
        "Fabric",
        "Names, numbers, addresses, uSIDs and forwarding tables of a fabric; live counters if it is up.",
    ),
    Listed("graph", "topology", "Fabric", "Draw a fabric."),
    Listed("exec", "node", "Nodes", "Run a program inside a node; its exit status becomes ours."),
    Listed(
        "launch",
        "launch",
        "Nodes",
        "Run a program with ranks, such as a training job: one process on each host.",
    ),
    Listed(
        "logs",
        "node",
        "Nodes",
        "What NIC agents and the lab's own processes have said; without a name all of them.",
    ),
    Listed(
        "restart",
        "node",
        "Nodes",
        "Restart NIC agents: those of the hosts named, or else all that does not work.",
    ),
    Listed(
        "shell",
        "node",
        "Nodes",
        "Mininet's interactive shell on a lab: run commands in nodes, look at links. "
        "Leaves the lab as it is.",
    ),
    Listed(
        "run",
        "scenario",
        "Scenarios",
        "Run one scenario: workload, faults, expectations; a verdict and a result folder.",
    ),
    Listed(
        "plan",
        "scenario",
        "Scenarios",
        "Show what a run would do, with every random choice made: `run --dry-run`.",
    ),
    Listed("report", "scenario", "Scenarios", "Show the results of a run again, and where its report is."),
    Listed(
        "demo",
        "scenario",
        "Scenarios",
        "A first look: bring a lab up, flap links under full load, print the verdict, remove the lab.",
    ),
    Listed(
        "compare",
        "campaign",
        "Scenarios",
        "Two runs side by side: everything that both measured, and the ratio of the second to the first.",
    ),
    Listed(
        "bundle",
        "bundle",
        "Scenarios",
        "Put a run or campaign into one file: report, data, plan, versions, machine.",
    ),
    Listed(
        "unbundle",
        "bundle",
        "Scenarios",
        "Unpack a bundle to FOLDER/NAME/ID, where `run` or `campaign run` would have written it.",
    ),
    Listed(
        "replay",
        "bundle",
        "Scenarios",
        "Repeat a run or campaign as it was planned, and say what differs.",
    ),
    Listed(
        "campaign",
        "campaign",
        "Scenarios",
        "Many runs: scenarios x matrix x seeds, resumed, summed up.",
    ),
    Listed(
        "queues",
        "queues",
        "Use",
        "Port queues of a lab: service and counters; with an option change the service.",
    ),
    Listed("capture", "capture", "Use", "Copy the MRC packets that ports send and receive; Ctrl-C ends it."),
    Listed("top", "live", "Use", "Show a running lab in the terminal, live."),
    Listed("serve", "live", "Use", "Show a running lab in a browser, live, until interrupted."),
    Listed(
        "bench",
        "bench",
        "Use",
        "Measure a running lab: bandwidth, latency, incast, collectives, training.",
    ),
    Listed("fault", "fault", "Use", "Inject faults into a running lab, and take them back."),
    Listed("ev", "ev", "Use", "Entropy values (EVs): what state they are in, what path they take."),
    Listed("probe", "probe", "Use", "Probe the links of a running lab, whatever its traffic."),
    Listed("metrics", "observability", "Use", "Metrics of labs for Prometheus."),
    Listed("observe", "observe", "Use", "Prometheus and Grafana beside the labs."),
    Listed("dashboards", "dashboards", "Use", "The dashboards in a Grafana of your own."),
    Listed(
        "validate",
        "files",
        "Files",
        "Check files: keys, units, names, selectors against the fabric. Runs nothing, needs no root.",
    ),
    Listed("schema", "files", "Files", "JSON Schema of a kind of file: editors complete and check with it."),
    Listed(
        "doctor",
        "machine",
        "Machine",
        "Look whether this machine can carry labs, and say how to fix what it lacks.",
    ),
    Listed("version", "machine", "Machine", "Versions of mrc-testbed and of what it runs on."),
    Listed(
        "completion",
        "completion",
        "Machine",
        "Print the script that completes commands, flags and names in a shell.",
    ),
    Listed("host", "machine", "Machine", "Make this machine ready for labs."),
    Listed("image", "machine", "Machine", "The image that Docker nodes are made of."),
)

ALIASES: Final = {"deploy": "up", "destroy": "down"}
"""Names that are not listed, to what they stand for."""

_MODULES: Final = {each.name: each.module for each in LISTED}


class LazyGroup(TyperGroup):
    """A group that imports the module of a command when that command is typed."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that *args* begin with, its name and the other arguments."""
        name = ALIASES.get(args[0], args[0])
        if name in _MODULES:
            self.commands[args[0]] = get_group(registered([_MODULES[name]])).commands[name]
        return super().resolve_command(ctx, args)


def add_listed(app: typer.Typer) -> None:
    """Adds the table to *app*, whose class is LazyGroup."""
    for each in LISTED:
        app.command(each.name, help=each.summary, rich_help_panel=each.panel)(_not_imported)
    for alias in ALIASES:
        app.command(alias, hidden=True)(_not_imported)


def registered(modules: Iterable[str]) -> typer.Typer:
    """An application with the commands of *modules*."""
    app = typer.Typer(rich_markup_mode="rich")
    for module in modules:
        import_module(f"testbed.cli.{module}").register(app)
    return app


def _not_imported() -> None:
    """Stands for a command until LazyGroup imports it."""
