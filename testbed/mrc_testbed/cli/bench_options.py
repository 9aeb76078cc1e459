"""Options that the commands of `bench` share."""

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from mrc_testbed.cli.suggestion import hosts as host_names
from mrc_testbed.document import Tree
from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.topology.clos import Clos
from mrc_testbed.transport.transport_kind import (
    TRANSPORT_KINDS,
    AnyCongestion,
    TransportKind,
    any_algorithms,
    choose_congestion,
    refuse_gone,
)

DEFAULT_SEED: Final = 1
DEFAULT_DURATION: Final = "3s"

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
    typer.Option("--duration", "-d", metavar="TIME", help=f"Sending time (default: {DEFAULT_DURATION})."),
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


@dataclass(frozen=True, slots=True)
class TransportChoice:
    """Values of --transport, --cc and --window."""

    kind: TransportKind
    cc: str | None = None
    window_packets: int | None = None

    def congestion(self, clos: Clos) -> AnyCongestion:
        """Congestion control on a fabric."""
        return choose_congestion(clos, self.kind, self.cc, window_packets=self.window_packets)


def choose_transport(transport: str, cc: str | None, window: int | None) -> TransportChoice:
    """Check the three options."""
    refuse_gone(transport)
    for kind in TRANSPORT_KINDS:
        if kind == transport:
            return TransportChoice(kind, cc, window)
    known = ", ".join(TRANSPORT_KINDS)
    raise UsageError(
        f"--transport: {transport!r}; {known} are accepted{did_you_mean(transport, TRANSPORT_KINDS)}"
    )


def listed_hosts(hosts: str) -> Tree:
    """Host names of a list with commas, or `all`, in the form of a workload."""
    return hosts if hosts == "all" else [host.strip() for host in hosts.split(",")]
