"""A trace of a job as a workload, with hosts bound: its files, and what they hold."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, takewhile
from pathlib import Path
from typing import ClassVar, Final, Literal

from mrc_testbed.errors import UsageError
from mrc_testbed.traces import chakra, goal
from mrc_testbed.traces.graph import Compute
from mrc_testbed.traces.job import PEERS_MAX, TraceJob
from mrc_testbed.units import format_size_bytes

TraceFormat = Literal["chakra", "goal"]
Dependencies = Literal["all", "data"]

PLACE_OF_RANK: Final = "{}"
_FILE_BYTES_MAX: Final = 1 << 28
_OPERATION_BYTES_MAX: Final = 1 << 32
"""Data of all ranks of an operation, which this machine has in memory."""


@dataclass(frozen=True, slots=True)
class JobTrace:
    """A trace whose ranks are hosts."""

    kind: ClassVar[Literal["trace"]] = "trace"  # of its steps, beside those of collectives
    is_training: ClassVar[bool] = True  # its operations are the steps of a job

    hosts: tuple[str, ...]  # of the ranks, in their order
    format: TraceFormat
    files: tuple[str, ...]  # of each rank; a single one: of all
    digest: str  # SHA-256 of all files
    compute_factor: float  # of times that nodes compute
    size_factor: float  # of bytes that they send
    dependencies: Dependencies = "all"

    @property
    def ranks(self) -> tuple[str, ...]:
        """Its hosts, as a collective calls them."""
        return self.hosts

    def size_bytes(self, recorded_bytes: int) -> int:
        """Bytes of an operation here, at least one."""
        return max(1, round(recorded_bytes * self.size_factor))

    def duration_ns(self, recorded_ns: int) -> int:
        """Time that a node computes here, three years at most: clocks are of 63 bits."""
        return min(10**17, round(recorded_ns * self.compute_factor))

    def check(self, job: TraceJob) -> None:
        """Raise UsageError when an operation is too large, or a rank has too many peers."""
        for part, operation in job.operations.items():
            sizes_bytes = [self.size_bytes(work.size_bytes) for work in operation.works]
            if max(sizes_bytes) * len(sizes_bytes) > _OPERATION_BYTES_MAX:
                size, limit = map(format_size_bytes, (max(sizes_bytes), _OPERATION_BYTES_MAX))
                raise UsageError(
                    f"{job.describe(part)}: {len(sizes_bytes)} ranks x {size}; an operation has {limit} "
                    "at most: give a factor, such as bytes: x0.01"
                )
        peers = Counter(source for source, _ in job.pairs())
        if not peers:
            raise UsageError(f"{self.files[0]}: its ranks do not communicate")
        rank, most = peers.most_common(1)[0]
        if most > PEERS_MAX:
            raise UsageError(
                f"{self.files[0]}: rank {rank} has {most} peers; at most {PEERS_MAX} are connected"
            )

    def least_ns(self, rate_bps: int) -> int:
        """Time of the rank that computes and sends the longest, where NICs have that rate in all."""
        return max(
            sum(
                self.duration_ns(node.duration_ns)
                if isinstance(node.work, Compute)
                else self.size_bytes(getattr(node.work, "size_bytes", 0)) * 8 * 10**9 // rate_bps
                for node in graph.trace.nodes
            )
            for graph in self.load().graphs
        )

    def load(self) -> TraceJob:
        """Read the files again.

        Raises:
            UsageError: they are no trace, or others than when the run was planned.
        """
        job, digest = read_job(self.format, self.files, len(self.hosts), self.dependencies)
        if digest != self.digest:
            raise UsageError(f"{self.files[0]}: this is another trace than when the run was planned")
        return job


def trace_files(template: str) -> tuple[str, ...]:
    """Paths of a trace's files: one without a place for the rank, or those that exist, from rank 0 on."""
    if PLACE_OF_RANK not in template:
        return (template,)
    numbered = (template.replace(PLACE_OF_RANK, str(rank)) for rank in count())
    found = tuple(takewhile(lambda each: Path(each).exists(), numbered))
    return found or (template.replace(PLACE_OF_RANK, "0"),)


def read_job(
    trace_format: TraceFormat, files: Sequence[str], ranks: int | None, dependencies: Dependencies
) -> tuple[TraceJob, str]:
    """The job in files, and their digest.

    Args:
        ranks: their number, where one Chakra file is that of all; None: as the files say.

    Raises:
        UsageError: they cannot be read, are no trace, or can never end.
    """
    contents = tuple(map(_content, files))
    digest = hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in contents)).hexdigest()
    return _job(trace_format, tuple(files), contents, ranks, dependencies), digest


@lru_cache(maxsize=2)
def _job(
    trace_format: TraceFormat,
    files: tuple[str, ...],
    contents: tuple[bytes, ...],
    ranks: int | None,
    dependencies: Dependencies,
) -> TraceJob:
    if trace_format == "goal":
        graphs = goal.parse(contents[0].decode(errors="replace"), files[0])
    else:
        graphs = tuple(
            chakra.decode(each, f"{file}: rank {rank}", with_ctrl_deps=dependencies == "all")
            for rank, (file, each) in enumerate(zip(files, contents, strict=True))
        )
    graphs *= (ranks or 1) if len(graphs) == 1 else 1
    files *= len(graphs) if len(files) == 1 else 1
    return TraceJob(graphs, [f"{file}: rank {rank}" for rank, file in enumerate(files)])


def _content(file: str) -> bytes:
    path = Path(file)
    try:
        if not path.is_file():
            raise UsageError(f"{file}: there is no such file")
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise UsageError(f"{file}: {path.stat().st_size} bytes; at most {_FILE_BYTES_MAX} are read")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
