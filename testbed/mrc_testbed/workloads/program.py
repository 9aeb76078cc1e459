"""The plan of a program workload, with hosts bound: a rank on each host, whose steps are a job. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias

from mrc_testbed.errors import UsageError
from mrc_testbed.traces.rows import Row
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.printed_figures import PrintedFigure
from mrc_testbed.workloads.trace import JobTrace

StandIn = Literal["gloo", "nccl"]
"""Backends of torch.distributed that mrc-torch can stand in for."""

PEER_BYTES: Final = 1 << 20
"""Memory of a NIC that mrc-torch registers for each other rank: the default of mrc_agents/collectives."""

RANKS_MAX: Final = 65
"""Ranks that mrc-torch connects: one, and PEERS_MAX of mrc_agents/collectives."""

STAND_IN_VARIABLE: Final = "MRC_TORCH_AS"
"""Which mrc-torch reads."""

Output: TypeAlias = Callable[[str, bytes], None]
"""Receives the name of a workload and a line of its output, with its end."""


def check_connected(ranks: int) -> None:
    """Raise UsageError if there are more ranks than mrc-torch connects."""
    if ranks > RANKS_MAX:
        raise UsageError(f"hosts: {ranks}; mrc-torch connects at most {RANKS_MAX} ranks")


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the user, with one rank per host."""

    kind: ClassVar[Literal["program"]] = "program"  # of its steps, beside those of collectives
    is_training: ClassVar[bool] = True  # its operations are the steps of a job

    hosts: tuple[str, ...]  # of the ranks, in their order
    command: tuple[str, ...]  # program and arguments
    environment: Mapping[str, str] = field(default_factory=dict)  # variables of all ranks, as written
    stand_in: StandIn | None = None  # the backend that mrc-torch stands in for; None: none
    compute: str | None = None  # time that a step computes, as written; virtual time only, needed there
    reports_steps: bool | None = True  # whether rank 0 has to report a step; None: it may

    @property
    def peer_memory_bytes(self) -> int:
        """Memory of each host's NIC that mrc-torch registers for all other ranks."""
        return (len(self.hosts) - 1) * PEER_BYTES

    @property
    def variables(self) -> dict[str, str]:
        """Variables that all ranks have besides."""
        stand_in = () if self.stand_in is None else ((STAND_IN_VARIABLE, self.stand_in),)
        return {**dict(stand_in), **self.environment}

    @property
    def ranks(self) -> tuple[str, ...]:
        """Its hosts, as a collective calls them."""
        return self.hosts


@dataclass(frozen=True, slots=True)
class ProgramState:
    """The state of a program that was started."""

    has_stepped: bool  # whether rank 0 has reported a step
    run_ns: int  # from its start to its end, or until now
    # exit status of the rank that failed first, less than 0: the signal that ended it; 0: all have ended
    # without a failure; None: it runs, or was ended with the run
    status: int | None = None
    error: str | None = None  # why it has failed; None: it has not
    printed: tuple[PrintedFigure, ...] = ()  # figures in the output of its ranks
    rows: Sequence[Sequence[Row]] = ()  # of a trace, by rank; they grow while it runs


SharedWork: TypeAlias = Collective | Program | JobTrace
"""Work of hosts together, operation after operation."""
