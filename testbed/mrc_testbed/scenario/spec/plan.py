"""A scenario with nothing left open: every name bound, every random choice made, every time absolute. Pure.

Times are ns on the run's own axis: 0 is the end of warm-up, warm-up itself is negative. A plan is saved
with the results, and `replay` runs a saved plan again as it is.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config

from mrc_testbed.document.envelope import NAME_PATTERN
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.metrics.fidelity import LATE_RATIO
from mrc_testbed.scenario.spec.figure_spec import PlannedFigure
from mrc_testbed.shown import format_size
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.transport_kind import AnyCongestion, GoneCongestion, GoneKind, TransportKind
from mrc_testbed.workloads.collective import Collective, CollectiveKind
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.program import Program, SharedWork
from mrc_testbed.workloads.trace import JobTrace

PLAN_SCHEMA_VERSION: Final = 3

READING_INTERVAL_NS: Final = 100_000_000
"""Distance of two readings of a run's time series, of one that lasts a second or more."""
_READINGS_OF_SHORT_RUN: Final = 100

FlowKind = Literal["write-bw", "write-lat", "sendrecv", "incast", "permutation"]
WorkloadKind = FlowKind | CollectiveKind | Literal["training", "program", "trace"]


@dataclass(frozen=True, slots=True)
class PlannedTransport:
    """The transport of messages, with the topology's defaults filled in."""

    kind: TransportKind | GoneKind
    evs: int
    congestion: AnyCongestion | GoneCongestion

    def describe_paths(self) -> str:
        """The kind, and how many paths a QP has."""
        match self.kind:
            case "rocev2" | "infiniband" | "tcp":
                paths = "one path"
            case "mptcp":
                paths = "one subflow per plane"
            case _:
                paths = f"{self.evs} EVs"
        return f"{self.kind}, {paths} per QP"


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """A workload with its flows."""

    # name, kind: as written
    name: str
    kind: WorkloadKind
    size_bytes: int  # payload of a message; of a collective, data of a rank; of a program 0
    depth: int  # messages outstanding per QP
    start_ns: int  # when it starts to send; its warm-up ends at 0
    duration_ns: int | None  # measured time; None when it ends by iterations, or is a program
    iterations: int | None  # messages per QP, or operations; None when it ends by time, or is a program
    timeout_ns: int | None  # how long the iterations may take, or the program; None when it ends by time
    flows: tuple[Flow, ...]  # one per QP; none of a program
    collective: Collective | None = None  # what the flows do together; None when each is on its own
    program: Program | None = None  # whose ranks send what they please; None when there is none
    trace: JobTrace | None = None  # whose ranks the flows connect; None when there is none

    @property
    def shared_work(self) -> SharedWork | None:
        """The collective, program or trace of its hosts; None when each flow is on its own."""
        return self.collective or self.program or self.trace

    def describe(self) -> str:
        """Its kind, and what it sends, for people."""
        if self.program is not None:
            return f"program, {shlex.join(self.program.command)}; ranks on {', '.join(self.program.hosts)}"
        if self.trace is not None:
            files = self.trace.files[0] if len(self.trace.files) == 1 else f"{len(self.trace.files)} files"
            return f"trace of {len(self.trace.hosts)} ranks, {files}; {self.iterations} times"
        size = format_size(self.size_bytes)
        return f"{self.kind}, messages of {size}, {len(self.flows)} QPs, {self.depth} outstanding each"

    @property
    def load(self) -> Load:
        return Load(
            name=self.name,
            size_bytes=self.size_bytes,
            depth=self.depth,
            iterations=self.iterations,
            flows=self.flows,
            collective=self.collective,
            program=self.program,
            trace=self.trace,
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """Hosts whose NICs send its messages, each once."""
        if ranked := self.program or self.trace:
            return ranked.hosts
        return tuple(dict.fromkeys(flow.source for flow in self.flows))


@with_config(ConfigDict(defer_build=True))
@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run does."""

    schema_version: Literal[3]  # of this structure when saved
    # the file's metadata.name
    scenario: Annotated[
        str, Field(pattern=NAME_PATTERN)
    ]  # a folder of results has it, and plans come from anybody
    description: str  # the file's metadata.description
    seed: int  # the seed that made the plan
    topology: TopologySpec  # the fabric, with defaults as they stand in the model
    transport: PlannedTransport  # the same for all workloads
    workloads: tuple[PlannedWorkload, ...]  # in the order of the file
    faults: tuple[ScheduledFault, ...]
    expect: tuple[str, ...]  # as written; they were parsed when the plan was made
    abort: tuple[str, ...]
    end_ns: int | None  # when the last workload ends; None when one ends by iterations
    figure: tuple[PlannedFigure, ...] = ()  # what figure.svg draws, from the top down; empty for no such file
    variant: str | None = None  # which variant of the scenario this is; None for none
    measures: tuple[str, ...] = ()  # quantities whose values are wanted besides, to compare variants
    # share of the idle RTT that frames may be late before the run is UNTRUSTED
    late_ratio: float = LATE_RATIO
    # distance of two readings of its time series
    reading_interval_ns: Annotated[int, Field(ge=1)] = READING_INTERVAL_NS

    @property
    def start_ns(self) -> int:
        """When the first workload starts to send; 0 or negative."""
        return min(workload.start_ns for workload in self.workloads)


def reading_interval_ns(length_ns: int | None) -> int:
    """Distance of two readings of a run that lasts that long; None: until its iterations are done."""
    if length_ns is None or length_ns >= 10 * READING_INTERVAL_NS:
        return READING_INTERVAL_NS
    return max(1, length_ns // _READINGS_OF_SHORT_RUN)


_ADAPTER: Final = TypeAdapter(Plan)


def dump_plan(plan: Plan) -> str:
    """*plan* as JSON text; `load_plan` gives it back."""
    return _ADAPTER.dump_json(plan, indent=2).decode() + "\n"


def load_plan(path: Path) -> Plan:
    """The plan saved at *path*."""
    try:
        return _ADAPTER.validate_json(read_result(path), strict=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UsageError(
            f"{path}: not a plan of schema version {PLAN_SCHEMA_VERSION}: {where}: {first['msg']}"
        ) from error
