"""Options that the commands of `bench` share."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mrc_testbed.cli.suggestion import hosts as host_names
from mrc_testbed.cli.where import VirtualOption
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.transport.transport_kind import TRANSPORT_KINDS, any_algorithms, refuse_gone

DEFAULT_DURATION: Final = "3s"
VIRTUAL_DURATION: Final = "1ms"
"""Eight hosts with ports of 100 Gbit/s send a million frames in it."""
ITERATIONS_TIMEOUT: Final = "24h"
"""So long that whoever waits for a bench by iterations ends it before."""
FLAGS: Final = ("name", "topology", "seed", "overload")

Source = Annotated[str, typer.Argument(metavar="FROM", autocompletion=host_names, help="Sending host.")]
Target = Annotated[str, typer.Argument(metavar="TO", autocompletion=host_names, help="Receiving host.")]
SizeOption = Annotated[str, typer.Option("--size", metavar="SIZE", help="Payload of a message.")]
QpsOption = Annotated[int, typer.Option("--qps", min=1, metavar="NUMBER", help="QPs per pair of hosts.")]
DepthOption = Annotated[
    int, typer.Option("--depth", min=1, metavar="NUMBER", help="Messages outstanding per QP.")
]
IterationsOption = Annotated[
    int | None, typer.Option("--iterations", "-i", min=1, metavar="NUMBER", help="Messages per QP.")
]
DurationOption = Annotated[
    str | None,
    typer.Option(
        "--duration",
        "-d",
        metavar="TIME",
        help=f"Sending time (default: {DEFAULT_DURATION}; in virtual time {VIRTUAL_DURATION}).",
    ),
]
TransportOption = Annotated[
    str,
    typer.Option(
        "--transport",
        metavar="KIND",
        autocompletion=lambda: TRANSPORT_KINDS,
        help="Transport: mrc, rocev2, infiniband, spray-gbn.",
    ),
]
CcOption = Annotated[
    str | None,
    typer.Option(
        "--cc",
        metavar="NAME",
        autocompletion=any_algorithms,
        help="Congestion control: fixed, that of the topology's NICs (nscc, unless it says another), dcqcn "
        "(default: by transport and fabric).",
    ),
]
WindowOption = Annotated[
    int | None,
    typer.Option(
        "--window", min=1, max=1024, metavar="PACKETS", help="Fixed window (default: of the topology)."
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Write the Scenario file that this bench is, for `run`."),
]
ReportOption = Annotated[
    bool, typer.Option("--report", show_default=False, help="Keep results and report, in runs/.")
]

Options = Mapping[str, tuple[Any, Any]]
"""Parameter of a command -> its option or argument, and its default."""

SHARED: Final[Options] = {
    "transport": (TransportOption, "mrc"),
    "cc": (CcOption, None),
    "window": (WindowOption, None),
    "virtual": (VirtualOption, False),
    "save": (SaveOption, None),
    "report": (ReportOption, False),
}
"""Options of all commands of `bench`; see BenchOptions."""


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """Values of SHARED."""

    # transport, cc, window: how messages are carried
    transport: str
    cc: str | None
    window: int | None
    virtual: bool  # whether in virtual time
    save: Path | None  # where the scenario is written
    report: bool  # whether results are kept

    def __post_init__(self) -> None:
        refuse_gone(self.transport)
        if self.transport not in TRANSPORT_KINDS:
            known = ", ".join(TRANSPORT_KINDS)
            meant = did_you_mean(self.transport, TRANSPORT_KINDS)
            raise UsageError(f"--transport: {self.transport!r}; {known} are accepted{meant}")

    def transport_fields(self) -> dict[str, Tree] | None:
        """The transport as a file has it; None: none was asked for."""
        fields = {"kind": self.transport, "cc": self.cc, "window": self.window}
        given: dict[str, Tree] = {key: value for key, value in fields.items() if value is not None}
        return None if given == {"kind": "mrc"} else given


def parameters(options: Options) -> list[inspect.Parameter]:
    """Keyword parameters with *options*."""
    return [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for key, (annotation, default) in options.items()
    ]


def listed_hosts(hosts: str) -> Tree:
    """Host names of a list with commas, or `all`, in the form of a workload."""
    return hosts if hosts == "all" else [host.strip() for host in hosts.split(",")]
