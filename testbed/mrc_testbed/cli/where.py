"""Place of a run: a lab of this machine, or virtual time; its options."""

import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.state import RuntimeName

if TYPE_CHECKING:
    from mrc_testbed.cluster.connection import Cluster

_SCHEDULER: Final = re.compile(r"(?:tcp|tls)://[^\s/]+:\d{1,5}")


def parse_scheduler(text: str) -> str:
    """Address of a Dask scheduler, such as tcp://head:8786."""
    if not _SCHEDULER.fullmatch(text):
        raise UsageError(f"{text!r} is not the address of a scheduler; write it like tcp://head:8786")
    return text


RuntimeOption = Annotated[
    RuntimeName | None,
    typer.Option("--runtime", help="Runtime of nodes (default: docker where it is ready, else netns)."),
]
VirtualOption = Annotated[
    bool,
    typer.Option(
        "--virtual",
        help="Run in virtual time: no lab, no root; exact, repeatable, whatever the machine's load.",
    ),
]
JobsOption = Annotated[
    int, typer.Option("--jobs", metavar="N", min=1, help="With --virtual: number of parallel runs.")
]

ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        parser=parse_scheduler,
        metavar="ADDRESS",
        help="Run on the workers of the Dask scheduler at this address, such as tcp://head:8786.",
    ),
]

RetryOption = Annotated[
    int,
    typer.Option(
        "--retry-untrusted",
        metavar="N",
        min=0,
        max=100,
        help="Repeat a run that is UNTRUSTED up to N times; each keeps its results.",
    ),
]


@dataclass(frozen=True, slots=True)
class ExecutionTarget:
    runtime: RuntimeName | None  # for labs that are made; None: as `up` chooses
    is_virtual: bool = False  # in virtual time instead
    jobs: int = 1  # how many at a time, in virtual time
    retries: int = 0  # how often a run that is UNTRUSTED is repeated
    # address of the Dask scheduler whose workers carry the runs out; None: this machine does
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.is_virtual and self.runtime is not None:
            raise UsageError(f"--runtime {self.runtime} makes a lab of this machine; --virtual makes none")
        if self.jobs > 1 and self.cluster is not None:
            raise UsageError("--jobs: workers of a cluster know how many runs they carry out at a time")
        if self.jobs > 1 and not self.is_virtual:
            raise UsageError(
                "--jobs: labs of one machine would disturb each other",
                hint="give --virtual too, or no --jobs",
            )


def cluster_at(address: str | None) -> "AbstractContextManager[Cluster | None]":
    """Connect to the cluster at an address for as long as the context lasts; None without one."""
    if address is None:
        return nullcontext()
    from mrc_testbed.cluster.connection import Cluster  # noqa: PLC0415 - Dask takes a second to import

    return Cluster(address)
