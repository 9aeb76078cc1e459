"""The CPU time of the machine: /proc/stat, its differences, and windows of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

PROC_STAT: Final = Path("/proc/stat")

USE_WINDOW_NS: Final = 1_000_000_000
"""Time over which use is averaged; ticks of 10 ms make less than a second meaningless."""

SATURATED_BUSY_RATIO: Final = 0.98
"""A CPU as busy as this over a window is saturated."""

_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_FIELD_COUNT: Final = 8  # guest times, which follow, are contained in user and nice


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Clock ticks one CPU has spent since boot."""

    cpu: str  # name as in /proc/stat without its `cpu`: `0`, `1`, ..
    # total, idle, softirq, steal: ticks; idle includes waiting for disks
    total: int
    idle: int
    softirq: int
    steal: int

    def since(self, earlier: Self) -> "CpuUse":
        """The use of the CPU between *earlier* and now; all zero without a tick in between."""
        total = max(1, self.total - earlier.total)
        busy = self.total - earlier.total - (self.idle - earlier.idle)
        return CpuUse(
            self.cpu,
            # idle time may step back by a tick when the kernel corrects it
            busy_ratio=min(1.0, max(0.0, busy / total)),
            softirq_ratio=max(0.0, (self.softirq - earlier.softirq) / total),
            steal_ratio=max(0.0, (self.steal - earlier.steal) / total),
        )


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Shares of an interval, 0 to 1."""

    cpu: str  # as in CpuTimes
    busy_ratio: float  # not idle
    softirq_ratio: float  # in softirqs, where XDP and the queue engine run
    steal_ratio: float  # taken away by a hypervisor


@dataclass(frozen=True, slots=True)
class CpuReading:
    """The CPUs at one moment."""

    time_ns: int  # CLOCK_MONOTONIC
    cpus: tuple[CpuTimes, ...]  # one per CPU that is online

    def since(self, earlier: Self) -> tuple[CpuUse, ...]:
        """Use of each CPU that was online at both moments."""
        before = {times.cpu: times for times in earlier.cpus}
        return tuple(times.since(before[times.cpu]) for times in self.cpus if times.cpu in before)


def parse_cpu_times(text: str) -> tuple[CpuTimes, ...]:
    """The CPUs of /proc/stat's *text*, without the line that adds them up."""
    cpus = []
    for line in text.splitlines():
        name, _, numbers = line.partition(" ")
        cpu = name.removeprefix("cpu")
        if cpu == name or not cpu:
            continue
        fields = [int(number) for number in numbers.split()[:_FIELD_COUNT]]
        idle = fields[_IDLE] + fields[_IOWAIT]
        cpus.append(CpuTimes(cpu, sum(fields), idle, fields[_SOFTIRQ], fields[_STEAL]))
    return tuple(cpus)


def read_cpus(time_ns: int, path: Path = PROC_STAT) -> CpuReading:
    """The machine's CPUs now, which the caller's clock calls *time_ns*."""
    return CpuReading(time_ns, parse_cpu_times(path.read_text(encoding="ascii")))


def is_saturated(use: Sequence[CpuUse]) -> bool:
    """Return True if a CPU had next to no idle time: a flow stays on the core that started it."""
    return any(cpu.busy_ratio >= SATURATED_BUSY_RATIO for cpu in use)


def window_edges(times_ns: Sequence[int]) -> list[int]:
    """Indices of times at least USE_WINDOW_NS apart, first to last; a shorter rest joins the last window."""
    edges: list[int] = []
    for index, time_ns in enumerate(times_ns):
        if not edges or time_ns - times_ns[edges[-1]] >= USE_WINDOW_NS:
            edges.append(index)
    return [*edges[: max(1, len(edges) - 1)], len(times_ns) - 1] if len(times_ns) > 1 else edges


def split_windows(readings: Sequence[CpuReading]) -> list[tuple[CpuUse, ...]]:
    """Use of the CPUs over consecutive windows."""
    edges = window_edges([reading.time_ns for reading in readings])
    return [readings[later].since(readings[earlier]) for earlier, later in pairwise(edges)]


class RecentCpuUse:
    """Use of the CPUs over the last second or more; shorter stretches say little, for ticks last 10 ms."""

    def __init__(self, first: CpuReading) -> None:
        self._last = first
        self._use: tuple[CpuUse, ...] = ()

    def update(self, reading: CpuReading) -> tuple[CpuUse, ...]:
        """The use up to about *reading*; empty in the first second."""
        if reading.time_ns - self._last.time_ns >= USE_WINDOW_NS:
            self._use = reading.since(self._last)
            self._last = reading
        return self._use
