"""Workloads as a user writes them. Pure; `mrc_testbed.workloads.load` binds hosts and flows.

Every workload starts so that its warm-up ends at time 0 of the run; what it sends before that is not
measured. Received memory is compared with what was sent in every kind.
"""

from collections.abc import Iterable
from typing import Annotated, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from mrc_agents.abi import Limit
from mrc_testbed.document.fields import Duration, Factor, Size, StrictModel
from mrc_testbed.workloads.collective import CollectiveKind, DType, ReduceOp
from mrc_testbed.workloads.program import StandIn
from mrc_testbed.workloads.trace import Dependencies, TraceFormat

ITERATIONS_TIMEOUT_NS: Final = 5 * 60 * 10**9
"""Time limit of a workload by iterations, or of a program, that sets none."""

PROGRAM_TRANSPORTS: Final = ("mrc", "rocev2")
"""Kinds of transport that verbs programs have."""

WORKLOAD_NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"

_U32_MAX = 0xFFFFFFFF

Depth = Annotated[int, Field(ge=1, le=Limit.WORK_RING - 1)]
QpCount = Annotated[int, Field(ge=1, le=1024)]  # the most that nic.qps_max allows
HostName = Annotated[str, Field(min_length=1)]


def _form(value: object) -> str:
    """Which form of a field was written, so that errors speak of that form only."""
    return "one" if isinstance(value, str) else "several"


HostNames = Annotated[
    Annotated[HostName, Tag("one")] | Annotated[list[HostName], Field(min_length=1), Tag("several")],
    Discriminator(_form),
]
HostRing = Annotated[
    Annotated[Literal["all"], Tag("one")] | Annotated[list[HostName], Field(min_length=2), Tag("several")],
    Discriminator(_form),
]
RankHosts = Annotated[
    Annotated[Literal["all"], Tag("one")]
    | Annotated[int, Field(ge=1), Tag("number")]
    | Annotated[list[HostName], Field(min_length=1), Tag("several")],
    Discriminator(lambda value: "number" if isinstance(value, int) else _form(value)),
]


class _Named(StrictModel):
    name: str = Field(
        pattern=WORKLOAD_NAME_PATTERN,
        description="Name in expectations and results; unique within a scenario.",
    )


class _Workload(_Named):
    """The common fields of workloads: a name, message size, QPs, and an end."""

    size_bytes: Size = Field(alias="size", ge=1, description="Payload of one message.")
    duration_ns: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        alias="duration",
        description="Measured time; the workload sends messages until its end.",
    )
    iterations: Annotated[int, Field(ge=1, le=_U32_MAX)] | None = Field(
        default=None, description="Instead of duration: messages per QP, or operations of a collective."
    )
    warmup_ns: Duration = Field(
        default=0,
        alias="warmup",
        json_schema_extra={"default": "0s"},
        description="Sending time before time 0, not measured; needs duration.",
    )
    timeout_ns: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None,
        alias="timeout",
        description="Time limit of the iterations, after which the run gives up. Left out: 5m.",
    )

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if (self.duration_ns is None) == (self.iterations is None):
            msg = "a workload needs exactly one end: `duration: <time>` or `iterations: <count>`"
            raise ValueError(msg)
        if self.iterations is not None and self.warmup_ns:
            msg = "warm-up is a time: it goes with `duration`, not with `iterations`"
            raise ValueError(msg)
        if self.duration_ns is not None and self.timeout_ns is not None:
            msg = "`timeout` limits `iterations`; a workload with `duration` ends by itself"
            raise ValueError(msg)
        return self


class _Pairwise(_Workload):
    """Flows from named hosts to named hosts: one to one, one to many, many to one, or pair by pair."""

    from_hosts: HostNames = Field(alias="from", description="Sending host, or a list.")
    to_hosts: HostNames = Field(alias="to", description="Receiving host, or a list.")


class WriteBw(_Pairwise):
    """RDMA WRITEs as fast as the transport allows, `depth` outstanding."""

    kind: Literal["write-bw"]
    qps: QpCount | None = Field(
        default=None, description="QPs per pair of hosts. Left out: the transport's number."
    )
    depth: Depth = Field(default=16, description="Messages outstanding per QP.")


class WriteLat(_Pairwise):
    """One WRITE at a time; the result is half of the time from its first packet to its acknowledgement."""

    kind: Literal["write-lat"]


class SendRecv(_Workload):
    """Every host sends to the host `shift` positions later in the list, and receives from one earlier."""

    kind: Literal["sendrecv"]
    hosts: HostRing = Field(default="all", description="The ring of hosts, or `all`.")
    shift: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Distance to the receiver; hosts_per_t0 makes every flow cross a T1."
    )
    qps: QpCount | None = Field(
        default=None, description="QPs per pair of hosts. Left out: the transport's number."
    )
    depth: Depth = Field(default=4, description="Messages outstanding per QP.")


class Victim(StrictModel):
    """A flow beside an incast, which should not slow it down."""

    from_host: HostName = Field(alias="from", description="Sending host.")
    to_host: HostName = Field(alias="to", description="Receiving host, not that of the incast.")


class Incast(_Workload):
    """Many hosts write to one as fast as the transport allows."""

    kind: Literal["incast"]
    from_hosts: HostRing = Field(
        default="all", alias="from", description="Sending hosts; `all`: all but the receiver."
    )
    to_host: HostName = Field(alias="to", description="The receiving host.")
    victim: Victim | None = Field(
        default=None,
        description="A flow to another host at the same time, as a separate workload: `<name>.victim`.",
    )
    qps: QpCount | None = Field(default=None, description="QPs per sender. Left out: the transport's number.")
    depth: Depth = Field(default=4, description="Messages outstanding per QP.")


class Permutation(_Workload):
    """Every host sends to one host and receives from one host; the seed selects the pairs."""

    kind: Literal["permutation"]
    from_hosts: HostRing = Field(default="all", alias="from", description="Sending hosts, or `all`.")
    to_hosts: HostRing = Field(
        default="all", alias="to", description="Receiving hosts, as many, or `all`; no host sends to itself."
    )
    qps: QpCount | None = Field(
        default=None, description="QPs per pair of hosts. Left out: the transport's number."
    )
    depth: Depth = Field(default=4, description="Messages outstanding per QP.")


class _Ranked(_Workload):
    """Hosts that carry out an operation together; `size` is the data of each of them."""

    hosts: HostRing = Field(default="all", description="The ranks, in the order of the ring, or `all`.")
    dtype: DType = Field(default="float32", description="Type of the elements.")
    reduce: ReduceOp = Field(
        default="sum", description="The operation of all-reduce and reduce-scatter on the elements."
    )
    root: HostName | None = Field(
        default=None, description="The host where a broadcast starts. Left out: the first host."
    )
    qps: QpCount | None = Field(
        default=None,
        description="QPs per pair of ranks, each with a share of the data. Left out: the transport's number.",
    )


class CollectiveSpec(_Ranked):
    """Operations in sequence, each compared with the expected result; `iterations` counts them."""

    kind: CollectiveKind


class Training(_Ranked):
    """Synchronous training steps: every rank computes, then all ranks run a collective together."""

    kind: Literal["training"]
    compute_ns: Annotated[Duration, Field(gt=0)] = Field(
        alias="compute", description="Time that each step computes before it communicates."
    )
    collective: CollectiveKind = Field(
        default="all-reduce", description="The collective of the ranks at the end of a step."
    )


class ProgramSpec(_Named):
    """A program of your own, such as a training job, with one rank per host, as `launch` runs it.

    It ends by itself. A rank reports each step as a line of JSON to the descriptor whose number is in
    $MRC_TESTBED_REPORT_FD: `{"step": 12, "time_s": 0.123, "loss": 1.25}`. Time 0 of the run is when rank 0
    has reported its first step; docs/guide/workloads.md says more.
    """

    duration_ns: ClassVar[int | None] = None
    iterations: ClassVar[int | None] = None
    warmup_ns: ClassVar[int] = 0

    kind: Literal["program"]
    hosts: RankHosts = Field(
        default="all",
        description="Hosts of the ranks, in their order: a number (h0, h1, ...), names, or `all`.",
    )
    command: Annotated[list[str], Field(min_length=1)] = Field(
        description="Program and arguments; it starts in the folder that the run was started in."
    )
    stand_in: StandIn | None = Field(
        default=None,
        alias="as",
        description="Backend that `mrc` takes the place of in PyTorch scripts; needs mrc-torch.",
    )
    environment: dict[str, str] = Field(default={}, description="Variables that all ranks have besides.")
    compute: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="Time that a step computes. Virtual time only; needed there."
    )
    steps: bool = Field(
        default=True,
        description="Ranks report steps, and time 0 is the end of the first one. `false`: time 0 is the "
        "start, as for perftest.",
    )
    timeout_ns: Annotated[Duration, Field(gt=0)] = Field(
        default=ITERATIONS_TIMEOUT_NS,
        alias="timeout",
        json_schema_extra={"default": "5m"},
        description="Time limit of its first step, from its start, and of its end, from time 0.",
    )


class TraceSpec(_Named):
    """The trace of a job, of this testbed or of other projects, with one rank per host.

    Nodes that compute wait, collectives and messages are carried by the fabric, and dependencies are kept.
    docs/guide/training.md says which files are read.
    """

    duration_ns: ClassVar[int | None] = None
    warmup_ns: ClassVar[int] = 0

    kind: Literal["trace"]
    format: TraceFormat = Field(default="chakra", description="Form of the files.")
    files: Annotated[str, Field(min_length=1)] = Field(
        description="File of each rank, with {} in place of its number, or one of all ranks; relative to "
        "the scenario file."
    )
    hosts: RankHosts = Field(
        default="all",
        description="Hosts of the ranks, in their order: a number (h0, h1, ...), names, or `all`: as many "
        "as the trace has ranks, all where one file is that of all.",
    )
    compute: Factor = Field(
        default=1.0, json_schema_extra={"default": "x1"}, description="Factor of times that nodes compute."
    )
    bytes: Factor = Field(
        default=1.0, json_schema_extra={"default": "x1"}, description="Factor of sizes of what is sent."
    )
    dependencies: Dependencies = Field(
        default="all",
        description="Dependencies of a Chakra trace that are kept: `data` leaves out ctrl_deps, which are "
        "call stacks where older converters have written them.",
    )
    iterations: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=1, description="Number of times that each rank goes through its trace."
    )
    timeout_ns: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, alias="timeout", description="Time limit of all of them. Left out: 5m."
    )


Workload = Annotated[
    WriteBw
    | WriteLat
    | SendRecv
    | Incast
    | Permutation
    | CollectiveSpec
    | Training
    | ProgramSpec
    | TraceSpec,
    Field(discriminator="kind"),
]


def has_operations(workload: Workload) -> bool:
    """Return True if its hosts do something together, which has a beginning and an end."""
    return isinstance(workload, (CollectiveSpec, Training, ProgramSpec, TraceSpec))


def victim_name(incast: str) -> str:
    """Name of the workload that the victim of an incast is in expectations and results."""
    return f"{incast}.victim"


def workload_names(workloads: Iterable[Workload]) -> tuple[str, ...]:
    """Names that expectations may speak of, in order; victims included."""
    names = []
    for workload in workloads:
        names.append(workload.name)
        if isinstance(workload, Incast) and workload.victim is not None:
            names.append(victim_name(workload.name))
    return tuple(names)
