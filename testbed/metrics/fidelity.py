"""Watches the machine that carries the lab: was there CPU time enough for what it shows to be true?

Thin so far: how late frames left their queues, CPU and softirq saturation from /proc/stat, and how late the
sampler woke up. A calibrated capacity belongs here too.

An unshaped lab is meant to use all the CPU it can get, so saturation does not make it untrustworthy. Nor does
it a shaped one: under load the drainer polls, and a core is busy however well it keeps up. There the frames
tell: a queue that is served late is no longer the queue of a port with that rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

from testbed.metrics.histogram import Histogram

PROC_STAT: Final = Path("/proc/stat")

_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_LATE_QUANTILE: Final = 0.99
_FIELD_COUNT: Final = 8  # guest times, which follow, are contained in user and nice


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Clock ticks one CPU has spent since boot.

    Attributes:
        cpu: name as in /proc/stat without its `cpu`: `0`, `1`, ...
        total, idle, softirq, steal: ticks; idle includes waiting for disks.
    """

    cpu: str
    total: int
    idle: int
    softirq: int
    steal: int

    def since(self, earlier: Self) -> "CpuUse":
        """How the CPU was used between *earlier* and now; all zero without a tick in between."""
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
    """Shares of an interval, 0 to 1.

    Attributes:
        cpu: as in CpuTimes.
        busy_ratio: not idle.
        softirq_ratio: in softirqs, where XDP and the queue engine run.
        steal_ratio: taken away by a hypervisor.
    """

    cpu: str
    busy_ratio: float
    softirq_ratio: float
    steal_ratio: float


@dataclass(frozen=True, slots=True)
class CpuReading:
    """The CPUs at one moment.

    Attributes:
        time_ns: CLOCK_MONOTONIC.
        cpus: one per CPU that is online.
    """

    time_ns: int
    cpus: tuple[CpuTimes, ...]

    def since(self, earlier: Self) -> tuple[CpuUse, ...]:
        """Use of each CPU that was online at both moments."""
        before = {times.cpu: times for times in earlier.cpus}
        return tuple(times.since(before[times.cpu]) for times in self.cpus if times.cpu in before)


@dataclass(frozen=True, slots=True)
class FidelityLimits:
    """Beyond these a run is UNTRUSTED.

    Attributes:
        window_ns: time over which use is averaged; ticks of 10 ms make less than a second meaningless.
        saturated_busy_ratio: a CPU as busy as this over a window is saturated.
        saturated_share: share of the run's windows that may be saturated, shaped labs without a record of
            lateness only.
        lateness_ns: 99 of 100 frames must leave their queues no later than this; shaped labs only.
        steal_ratio: mean share that a hypervisor may take.
        pause_ns: longest time the whole machine may have stood still.
    """

    window_ns: int = 1_000_000_000
    saturated_busy_ratio: float = 0.98
    saturated_share: float = 0.10
    lateness_ns: int = 500_000
    steal_ratio: float = 0.05
    pause_ns: int = 500_000_000


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


def is_saturated(use: Sequence[CpuUse], limits: FidelityLimits) -> bool:
    """Whether a CPU had next to no idle time: one is enough, for a flow stays on the core that started it."""
    return any(cpu.busy_ratio >= limits.saturated_busy_ratio for cpu in use)


def split_windows(readings: Sequence[CpuReading], window_ns: int) -> list[tuple[CpuUse, ...]]:
    """Use of the CPUs over consecutive windows of at least *window_ns*; a shorter rest joins the last one."""
    if len(readings) < 2:
        return []
    edges = [readings[0]]
    for reading in readings[1:]:
        if reading.time_ns - edges[-1].time_ns >= window_ns:
            edges.append(reading)
    if edges[-1] is not readings[-1]:
        edges[max(1, len(edges) - 1) :] = [readings[-1]]
    return [later.since(earlier) for earlier, later in pairwise(edges)]


def judge(
    readings: Sequence[CpuReading],
    latest_ns: int,
    *,
    is_shaped: bool,
    queue_lateness: Histogram | None = None,
    limits: FidelityLimits | None = None,
) -> tuple[str, ...]:
    """Why what was measured is not to be trusted, one sentence each with its numbers; empty when it is.

    Args:
        readings: over the run, in order.
        latest_ns: how late the latest sample was taken.
        is_shaped: whether the lab has port rates.
        queue_lateness: how late frames left their queues during the run.
        limits: those to judge by; None for the usual ones.
    """
    limits = limits or FidelityLimits()
    reasons = []
    windows = split_windows(readings, limits.window_ns)
    saturated = [use for use in windows if is_saturated(use, limits)]
    late = queue_lateness.percentiles_ns((_LATE_QUANTILE,)) if queue_lateness is not None else None
    if late and late[0] > limits.lateness_ns:
        reasons.append(
            f"frames left their queues late: p99 {late[0] / 1e6:.2f} ms"
            f" (limit: {limits.lateness_ns / 1e6:.2f} ms)"
        )
    if is_shaped and late is None and len(saturated) > limits.saturated_share * len(windows):
        worst = max((cpu for use in saturated for cpu in use), key=lambda cpu: cpu.busy_ratio)
        reasons.append(
            f"a CPU was saturated in {len(saturated)} of {len(windows)} s"
            f" (CPU {worst.cpu}: {worst.busy_ratio:.0%} busy, {worst.softirq_ratio:.0%} in softirqs;"
            f" limit: {limits.saturated_share:.0%} of the time above {limits.saturated_busy_ratio:.0%})"
        )
    if windows:
        stolen = max(cpu.steal_ratio for cpu in readings[-1].since(readings[0]))
        if stolen > limits.steal_ratio:
            reasons.append(
                f"the hypervisor took {stolen:.0%} of a CPU's time (limit: {limits.steal_ratio:.0%})"
            )
    if latest_ns > limits.pause_ns:
        reasons.append(
            f"the machine stood still for {latest_ns / 1e9:.2f} s (limit: {limits.pause_ns / 1e9:.2f} s)"
        )
    return tuple(reasons)


class RecentCpuUse:
    """Use of the CPUs over the last second or more; shorter stretches say little, for ticks last 10 ms."""

    def __init__(self, first: CpuReading) -> None:
        self._last = first
        self._use: tuple[CpuUse, ...] = ()

    def update(self, reading: CpuReading) -> tuple[CpuUse, ...]:
        """The use up to about *reading*; empty in the first second."""
        if reading.time_ns - self._last.time_ns >= FidelityLimits().window_ns:
            self._use = reading.since(self._last)
            self._last = reading
        return self._use
