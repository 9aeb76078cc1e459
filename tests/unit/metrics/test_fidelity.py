"""When a run is not to be trusted, and what is said then."""

from dataclasses import replace

import pytest
from histograms import histogram_of

from mrc_testbed.metrics.cpu_use import CpuReading, CpuTimes
from mrc_testbed.metrics.fidelity import Evidence, FidelityLimits, LatenessReading, judge, limits_for

SECOND_NS = 10**9
LIMITS = FidelityLimits(lateness_ns=500_000)


def reading(second: float, *busy_softirq_steal: tuple[float, float, float]) -> CpuReading:
    """A reading whose CPUs were busy for so many of 100 ticks a second since boot."""
    ticks = round(100 * second)
    cpus = [
        CpuTimes(str(cpu), ticks, ticks - round(busy * ticks), round(softirq * ticks), round(steal * ticks))
        for cpu, (busy, softirq, steal) in enumerate(busy_softirq_steal)
    ]
    return CpuReading(round(second * SECOND_NS), tuple(cpus))


def readings(*busy_softirq_steal: tuple[float, float, float]) -> list[CpuReading]:
    return [reading(second, *busy_softirq_steal) for second in range(1, 12)]


IDLE = Evidence(cpus=readings((0.5, 0.3, 0.01), (0.2, 0, 0)), pause_ns=2_000_000, is_shaped=True)
POLLING = Evidence(cpus=readings((0.2, 0, 0), (1.0, 0.1, 0)), pause_ns=0, is_shaped=True)


def lateness(*seconds: list[int]) -> list[LatenessReading]:
    """Readings a second apart; each second adds frames that were so late, in ns."""
    taken = [LatenessReading(SECOND_NS, histogram_of([]))]
    times: list[int] = []
    for second, late_ns in enumerate(seconds, start=2):
        times += late_ns
        taken.append(LatenessReading(second * SECOND_NS, histogram_of(times)))
    return taken


def reasons(evidence: Evidence, limits: FidelityLimits = LIMITS) -> list[str]:
    return [finding.reason for finding in judge(evidence, limits) if finding.reason is not None]


def test_an_idle_machine_is_trusted_and_says_what_it_looked_at() -> None:
    assert reasons(IDLE) == []
    looked_at = {finding.what: (finding.measured, finding.limit) for finding in judge(IDLE, LIMITS)}
    assert looked_at["seconds with a saturated CPU"] == ("0 of 10", "10%")
    assert looked_at["CPU time taken by the hypervisor"] == ("1.0%", "5%")
    assert looked_at["longest standstill of the machine"] == ("0.00 s", "0.50 s")


def test_a_saturated_cpu_spoils_a_shaped_run_and_is_named() -> None:
    (reason,) = reasons(replace(IDLE, cpus=readings((0.2, 0, 0), (1.0, 0.85, 0))))
    assert reason.startswith("a CPU was saturated in 10 of 10 s (CPU 1: 100% busy, 85% in softirqs;")


def test_a_saturated_cpu_does_not_condemn_an_unshaped_run() -> None:
    assert reasons(replace(IDLE, cpus=readings((1.0, 0.9, 0)), is_shaped=False)) == []


def test_stolen_time_and_a_pause_spoil_any_run() -> None:
    stolen, paused = reasons(
        replace(IDLE, cpus=readings((0.5, 0, 0.2)), pause_ns=700_000_000, is_shaped=False)
    )
    assert stolen == "the hypervisor took 20% of a CPU's time (limit: 5%)"
    assert paused == "the machine stood still for 0.70 s (limit: 0.50 s)"


def test_no_readings_give_no_reasons() -> None:
    assert reasons(Evidence(cpus=[], pause_ns=0, is_shaped=True)) == []


def test_a_busy_drainer_is_no_problem_while_frames_leave_in_time() -> None:
    assert reasons(replace(POLLING, lateness=lateness([20_000] * 1000))) == []


def test_frames_that_leave_late_spoil_a_shaped_run() -> None:
    (reason,) = reasons(replace(POLLING, lateness=lateness([20_000] * 900 + [3_000_000] * 100)))
    assert reason.startswith("frames left their queues late: p99 3.0")
    assert reason.endswith("(limit: 0.50 ms)")


def test_late_seconds_spoil_a_run_whose_p99_is_good() -> None:
    busy, late = [20_000] * 1000, [20_000] * 10 + [9_000_000] * 4
    evidence = replace(POLLING, lateness=lateness(busy, busy, late, late, busy))
    (reason,) = reasons(evidence)
    assert reason.startswith("frames left their queues late in 2 of 5 s, p99 9.")
    assert reasons(replace(POLLING, lateness=lateness(busy, late, busy))) == []
    assert reasons(replace(POLLING, lateness=lateness(*[busy] * 20, late, late))) == []


def test_a_second_without_frames_is_not_late() -> None:
    evidence = replace(POLLING, lateness=lateness([20_000] * 10, [], [20_000] * 10))
    assert reasons(evidence) == []
    assert {finding.what: finding.measured for finding in judge(evidence, LIMITS)}[
        "seconds with a p99 beyond that"
    ] == "0 of 2"


def test_overflowing_rings_spoil_a_run() -> None:
    (reason,) = reasons(replace(IDLE, data_packets=10_000, ring_drops=11))
    assert reason.startswith("the links' receive rings overflowed: 11 frames lost, 0.11% of the data packets")
    assert reasons(replace(IDLE, data_packets=10_000, ring_drops=10)) == []
    assert reasons(replace(IDLE, data_packets=0, ring_drops=1)) != []


def test_lost_events_and_an_empty_pool_spoil_a_run() -> None:
    pool, events = reasons(replace(IDLE, pool_empty_drops=3, events_lost=2))
    assert pool.startswith("3 frames found the queue engine's frame pool empty")
    assert events.startswith("2 NIC events were lost")


def test_lateness_of_an_idle_rtt_at_a_mean_has_no_bounds() -> None:
    limits = limits_for(600_000)
    late = replace(POLLING, lateness=lateness([20_000] * 900 + [3_000_000] * 100))
    (finding,) = (each for each in judge(late, limits) if each.reason is not None)
    assert finding.is_lateness
    later = replace(POLLING, lateness=lateness([20_000] * 700 + [3_000_000] * 300))
    by_percentile, by_mean = (each for each in judge(later, limits) if each.reason is not None)
    assert (by_percentile.is_lateness, by_mean.is_lateness) == (True, False)
    assert by_mean.reason == (
        "frames left their queues late by 0.91 ms at a mean, which bounds no figure (limit: 0.60 ms)"
    )
    assert [each.reason for each in judge(later, limits_for(600_000, 10.0)) if each.reason] == []


def test_a_standstill_is_lateness_where_frames_say_how_late_they_were() -> None:
    paused = replace(IDLE, pause_ns=700_000_000)
    (finding,) = (each for each in judge(paused, LIMITS) if each.reason is not None)
    assert not finding.is_lateness
    seen = replace(paused, lateness=lateness([20_000] * 1000))
    (finding,) = (each for each in judge(seen, LIMITS) if each.reason is not None)
    assert finding.is_lateness


def test_a_looser_limit_is_shown_as_such() -> None:
    evidence = replace(POLLING, lateness=lateness([20_000] * 1000))
    limits = [judge(evidence, limits_for(3_000_000, ratio))[0].limit for ratio in (0.05, 0.33, 0.5)]
    assert limits == ["0.15 ms", "0.99 ms", "1.50 ms, loosened by the scenario"]


@pytest.mark.parametrize(
    ("base_rtt_ns", "ratio", "lateness_ns"),
    [(0, 0.5, 100_000), (150_000, 0.5, 100_000), (600_000, 0.5, 300_000), (140_000_000, 0.05, 7_000_000)],
)
def test_lateness_is_judged_by_the_idle_rtt(base_rtt_ns: int, ratio: float, lateness_ns: int) -> None:
    assert limits_for(base_rtt_ns, ratio).lateness_ns == lateness_ns
