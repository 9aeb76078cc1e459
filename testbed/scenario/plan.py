"""A scenario with nothing left open: every name bound, every random choice made, every time absolute. Pure.

Times are ns on the run's own axis: 0 is the end of warm-up, warm-up itself is negative. A plan is saved
with the results, and `replay` runs a saved plan again as it is.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError

from testbed.errors import UsageError
from testbed.faults.occurrence import FaultKind, FaultOccurrence
from testbed.faults.spec import Direction
from testbed.topology.spec import TopologySpec
from testbed.workloads.flow import Flow

PLAN_SCHEMA_VERSION: Final = 1

WorkloadKind = Literal["write-bw", "write-lat", "sendrecv"]


@dataclass(frozen=True, slots=True)
class PlannedTransport:
    """How messages cross the fabric, with the topology's defaults filled in."""

    kind: Literal["mrc"]
    cc: Literal["fixed"]
    evs: int
    window_packets: int


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """A workload with its flows.

    Attributes:
        name, kind: as written.
        size_bytes: payload of a message.
        depth: messages outstanding per QP.
        start_ns: when it starts to send; its warm-up ends at 0.
        duration_ns: measured time; None when it ends by iterations.
        iterations: messages per QP; None when it ends by time.
        timeout_ns: how long the iterations may take; None when it ends by time.
        flows: one per QP.
    """

    name: str
    kind: WorkloadKind
    size_bytes: int
    depth: int
    start_ns: int
    duration_ns: int | None
    iterations: int | None
    timeout_ns: int | None
    flows: tuple[Flow, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """Hosts whose NICs send its messages, each once."""
        return tuple(dict.fromkeys(flow.source for flow in self.flows))


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault with its links chosen and its occurrences laid out.

    Attributes:
        fault_id: as written.
        kind: what is done to the links.
        links: names, in topology order.
        direction: a is the lower end of a link, b the upper.
        loss_ratio: probability of loss; None unless kind is `loss`.
        seed: for random decisions in the data plane.
        periods: (start_ns, end_ns) of each occurrence; end None: until the run is over.
    """

    fault_id: str
    kind: FaultKind
    links: tuple[str, ...]
    direction: Direction
    loss_ratio: float | None
    seed: int
    periods: tuple[tuple[int, int | None], ...]

    def occurrences(self) -> tuple[FaultOccurrence, ...]:
        """Each period as an injector wants it."""
        return tuple(
            FaultOccurrence(
                fault_id=self.fault_id,
                index=index,
                kind=self.kind,
                links=self.links,
                direction=self.direction,
                start_ns=start_ns,
                end_ns=end_ns,
                loss_ratio=self.loss_ratio,
                seed=self.seed,
            )
            for index, (start_ns, end_ns) in enumerate(self.periods)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a run does.

    Attributes:
        schema_version: of this structure when saved.
        scenario: the file's metadata.name.
        description: the file's metadata.description.
        seed: the seed that made the plan.
        topology: the fabric, with defaults as they stand in the model.
        transport: the same for all workloads.
        workloads, faults: in the order of the file.
        expect, abort: as written; they were parsed when the plan was made.
        end_ns: when the last workload ends; None when one ends by iterations.
    """

    schema_version: Literal[1]
    scenario: str
    description: str
    seed: int
    topology: TopologySpec
    transport: PlannedTransport
    workloads: tuple[PlannedWorkload, ...]
    faults: tuple[PlannedFault, ...]
    expect: tuple[str, ...]
    abort: tuple[str, ...]
    end_ns: int | None

    @property
    def start_ns(self) -> int:
        """When the first workload starts to send; 0 or negative."""
        return min(workload.start_ns for workload in self.workloads)


_ADAPTER: Final = TypeAdapter(Plan)


def dump_plan(plan: Plan) -> str:
    """*plan* as JSON text; `load_plan` gives it back."""
    return _ADAPTER.dump_json(plan, indent=2).decode() + "\n"


def load_plan(path: Path) -> Plan:
    """The plan saved at *path*.

    Raises:
        UsageError: unreadable, or not a plan of this schema version.
    """
    try:
        return _ADAPTER.validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UsageError(
            f"{path}: not a plan of schema version {PLAN_SCHEMA_VERSION}: {where}: {first['msg']}"
        ) from error
