"""The trust in a lab's results: the machine's behaviour meanwhile, against stated limits. Pure.

An unshaped lab is meant to use all the CPU it can get, so saturation does not make it untrustworthy. Nor does
it a shaped one: under load the drainer polls, and a core is busy however well it keeps up. There the frames
tell: a queue that is served late is no longer the queue of a port with that rate.

Every limit and why it is what it is: docs/explanation/fidelity.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from mrc_testbed.metrics.cpu_use import (
    SATURATED_BUSY_RATIO,
    CpuReading,
    is_saturated,
    split_windows,
    window_edges,
)
from mrc_testbed.metrics.histogram import Histogram

_LATE: Final = "frames left their queues late, p99"
_LATE_QUANTILE: Final = 0.99
_LATENESS_MIN_NS: Final = 100_000
LATE_RATIO: Final = 0.33
"""Share of the idle RTT: less than half of NSCC's target delay, so that lateness alone is no congestion."""


@dataclass(frozen=True, slots=True)
class FidelityLimits:
    """Beyond these a run is UNTRUSTED."""

    # 99 of 100 frames must leave their queues no later than this; shaped labs only
    lateness_ns: int = _LATENESS_MIN_NS
    late_windows_ratio: float = 0.10  # share of the run's seconds in which they may do so nevertheless
    # share of the run's seconds with a saturated CPU, shaped labs without a record of lateness only
    saturated_ratio: float = 0.10
    steal_ratio: float = 0.05  # mean share that a hypervisor may take of a CPU
    pause_ns: int = 500_000_000  # longest time the whole machine may have stood still
    ring_drops_ratio: float = 0.001  # frames that the rings of the links may lose, of data packets sent
    # mean lateness from which nothing bounds what lateness did to a figure; None: not looked at
    mean_lateness_ns: int | None = None
    is_loosened: bool = False  # whether the scenario allows more lateness than a third of the idle RTT


def limits_for(base_rtt_ns: int, late_ratio: float = LATE_RATIO) -> FidelityLimits:
    """The limits of a lab with that idle RTT; 0 for an unshaped one.

    Args:
        base_rtt_ns: a frame that leaves late makes the RTT it is part of longer by as much.
        late_ratio: share of it that 99 of 100 frames may be late; never less than 0.1 ms, which is what a
            machine under load can be held to.
    """
    lateness_ns = max(_LATENESS_MIN_NS, round(base_rtt_ns * late_ratio))
    return FidelityLimits(
        lateness_ns=lateness_ns,
        mean_lateness_ns=max(lateness_ns, base_rtt_ns),
        is_loosened=late_ratio > LATE_RATIO,
    )


class LatenessReading(NamedTuple):
    """Lateness of frames that had left their queues by a moment (CLOCK_MONOTONIC), since the lab was made."""

    time_ns: int
    lateness: Histogram


@dataclass(frozen=True, slots=True)
class Evidence:
    """The behaviour of the machine during a run."""

    cpus: Sequence[CpuReading]  # readings over the run, in order
    pause_ns: int  # how late the latest sample or action was, at worst
    is_shaped: bool  # whether the lab has port rates
    lateness: Sequence[LatenessReading] = ()  # readings over the run, in order; none in an unshaped lab
    data_packets: int = 0  # that hosts sent
    ring_drops: int | None = None  # frames that the receive rings of the links lost; None when nobody looked
    pool_empty_drops: int = 0  # frames that found no room in the queue engine's pool
    events_lost: int = 0  # NIC events that found their ring full


@dataclass(frozen=True, slots=True)
class TrustCheck:
    """One thing that was looked at."""

    what: str  # in a few words
    # measured, limit: with their units, as text
    measured: str
    limit: str
    reason: str | None  # why the run is not to be trusted, one sentence with its numbers; None when it is
    # whether the reason leaves figures within bounds, which `scenario.measure.lateness_bounds` computes
    is_lateness: bool = False


def judge(evidence: Evidence, limits: FidelityLimits) -> tuple[TrustCheck, ...]:
    """All that can be said about the trustworthiness of a run; not to be trusted if any has a reason."""
    lateness = [*_lateness(evidence, limits)]
    return (
        *lateness,
        *([] if lateness or not evidence.is_shaped else _saturation(evidence, limits)),
        *_steal(evidence, limits),
        _pause(evidence, limits, is_lateness=bool(lateness)),
        *_ring_drops(evidence, limits),
        *_losses(evidence.pool_empty_drops, evidence.events_lost),
    )


def judge_simulation(pool_empty_drops: int, events_lost: int, early_frames: int) -> tuple[TrustCheck, ...]:
    """The same of a run in virtual time: no machine makes it late.

    Args:
        pool_empty_drops: frames that found no room in the queue engine's pool.
        events_lost: NIC events that found their ring full.
        early_frames: that crossed a link sooner than its port's rate allows.
    """
    return (
        TrustCheck("virtual", "exact", "-", None),
        _none_lost(
            "frames above a port's rate",
            early_frames,
            "frames crossed links sooner than their ports' rates allow",
        ),
        *_losses(pool_empty_drops, events_lost),
    )


def _losses(pool_empty_drops: int, events_lost: int) -> tuple[TrustCheck, ...]:
    return (
        _none_lost(
            "frames without room in the pool",
            pool_empty_drops,
            "frames found the queue engine's frame pool empty, which no port's buffer explains",
        ),
        _none_lost(
            "NIC events lost",
            events_lost,
            "NIC events were lost, so times of detection and recovery are incomplete",
        ),
    )


def _lateness(evidence: Evidence, limits: FidelityLimits) -> Sequence[TrustCheck]:
    lateness = lateness_of(evidence.lateness)
    late_ns = _p99_ns(lateness)
    if late_ns is None:
        return ()
    windows = [p99_ns for each in seconds_of(evidence.lateness) if (p99_ns := _p99_ns(each)) is not None]
    late = sum(p99_ns > limits.lateness_ns for p99_ns in windows)
    limit = _milliseconds(limits.lateness_ns)
    shown_limit = f"{limit}, loosened by the scenario" if limits.is_loosened else limit
    mean = _mean_lateness(lateness, limits)
    if late_ns > limits.lateness_ns:
        reason = f"frames left their queues late: p99 {_milliseconds(late_ns)} (limit: {limit})"
        return (TrustCheck(_LATE, _milliseconds(late_ns), shown_limit, reason, is_lateness=True), *mean)
    is_often = late > max(1, limits.late_windows_ratio * len(windows))  # one alone is another program
    reason = (
        f"frames left their queues late in {late} of {len(windows)} s, p99 {_milliseconds(max(windows))}"
        f" in the worst (limit: {limit}, in {limits.late_windows_ratio:.0%} of the time)"
    )
    return (
        TrustCheck(_LATE, _milliseconds(late_ns), shown_limit, None, is_lateness=True),
        TrustCheck(
            "seconds with a p99 beyond that",
            f"{late} of {len(windows)}",
            f"{limits.late_windows_ratio:.0%}",
            reason if is_often else None,
            is_lateness=True,
        ),
        *mean,
    )


def _mean_lateness(lateness: Histogram, limits: FidelityLimits) -> Sequence[TrustCheck]:
    """Frames that are late by more than an idle RTT at a mean: then there are no bounds."""
    mean_ns = lateness.mean_ns()
    if mean_ns is None or limits.mean_lateness_ns is None:
        return ()
    measured, limit = _milliseconds(mean_ns), _milliseconds(limits.mean_lateness_ns)
    reason = f"frames left their queues late by {measured} at a mean, which bounds no figure (limit: {limit})"
    is_beyond = mean_ns > limits.mean_lateness_ns
    return (TrustCheck("the same, mean", measured, limit, reason if is_beyond else None),)


def lateness_of(readings: Sequence[LatenessReading]) -> Histogram:
    """Lateness of the frames that left between the first and the last reading; empty without two."""
    return readings[-1].lateness.since(readings[0].lateness) if len(readings) > 1 else Histogram()


def seconds_of(readings: Sequence[LatenessReading]) -> list[Histogram]:
    """The same of each second; a shorter rest belongs to the last."""
    edges = window_edges([reading.time_ns for reading in readings])
    return [lateness_of((readings[earlier], readings[later])) for earlier, later in pairwise(edges)]


def _saturation(evidence: Evidence, limits: FidelityLimits) -> Sequence[TrustCheck]:
    windows = split_windows(evidence.cpus)
    saturated = [use for use in windows if is_saturated(use)]
    if not windows:
        return ()
    reason = None
    if len(saturated) > limits.saturated_ratio * len(windows):
        worst = max((cpu for use in saturated for cpu in use), key=lambda cpu: cpu.busy_ratio)
        reason = (
            f"a CPU was saturated in {len(saturated)} of {len(windows)} s"
            f" (CPU {worst.cpu}: {worst.busy_ratio:.0%} busy, {worst.softirq_ratio:.0%} in softirqs;"
            f" limit: {limits.saturated_ratio:.0%} of the time above {SATURATED_BUSY_RATIO:.0%})"
        )
    measured = f"{len(saturated)} of {len(windows)}"
    return (TrustCheck("seconds with a saturated CPU", measured, f"{limits.saturated_ratio:.0%}", reason),)


def _steal(evidence: Evidence, limits: FidelityLimits) -> Sequence[TrustCheck]:
    if len(evidence.cpus) < 2:
        return ()
    stolen = max((cpu.steal_ratio for cpu in evidence.cpus[-1].since(evidence.cpus[0])), default=0.0)
    limit = f"{limits.steal_ratio:.0%}"
    reason = f"the hypervisor took {stolen:.0%} of a CPU's time (limit: {limit})"
    is_beyond = stolen > limits.steal_ratio
    return (
        TrustCheck("CPU time taken by the hypervisor", f"{stolen:.1%}", limit, reason if is_beyond else None),
    )


def _pause(evidence: Evidence, limits: FidelityLimits, *, is_lateness: bool) -> TrustCheck:
    measured, limit = f"{evidence.pause_ns / 1e9:.2f} s", f"{limits.pause_ns / 1e9:.2f} s"
    reason = f"the machine stood still for {measured} (limit: {limit})"
    is_beyond = evidence.pause_ns > limits.pause_ns
    what = "longest standstill of the machine"
    return TrustCheck(what, measured, limit, reason if is_beyond else None, is_lateness)


def _ring_drops(evidence: Evidence, limits: FidelityLimits) -> Sequence[TrustCheck]:
    if evidence.ring_drops is None:
        return ()
    ratio = evidence.ring_drops / max(1, evidence.data_packets)
    limit = f"{limits.ring_drops_ratio:.1%} of data packets"
    reason = (
        f"the links' receive rings overflowed: {evidence.ring_drops} frames lost, {ratio:.2%} of the data"
        f" packets sent (limit: {limits.ring_drops_ratio:.1%}); this machine lost them, no port of the fabric"
    )
    is_beyond = ratio > limits.ring_drops_ratio
    return (
        TrustCheck(
            "frames lost in receive rings",
            f"{evidence.ring_drops} ({ratio:.2%})",
            limit,
            reason if is_beyond else None,
        ),
    )


def _none_lost(what: str, count: int, consequence: str) -> TrustCheck:
    return TrustCheck(what, str(count), "0", f"{count} {consequence}" if count else None)


def _p99_ns(lateness: Histogram) -> float | None:
    percentiles_ns = lateness.percentiles_ns((_LATE_QUANTILE,))
    return None if percentiles_ns is None else percentiles_ns[0]


def _milliseconds(time_ns: float) -> str:
    return f"{time_ns / 1e6:.2f} ms"
