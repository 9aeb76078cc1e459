"""The machine's CPU time from /proc/stat, over windows."""

import threading
import time

import pytest

from mrc_testbed.metrics.cpu_use import (
    CpuReading,
    CpuTimes,
    CpuUse,
    RecentCpuUse,
    is_saturated,
    parse_cpu_times,
    read_cpus,
    split_windows,
)

SECOND_NS = 10**9
STAT = """\
cpu  300 20 100 5000 40 0 60 10 5 0
cpu0 200 10 60 2000 10 0 50 10 5 0
cpu12 100 10 40 3000 30 0 10 0 0 0
intr 12345 0 9
softirq 99 1 2
"""


def reading(second: float, *busy_softirq_steal: tuple[float, float, float]) -> CpuReading:
    """A reading whose CPUs were busy for so many of 100 ticks a second since boot."""
    ticks = round(100 * second)
    cpus = [
        CpuTimes(str(cpu), ticks, ticks - round(busy * ticks), round(softirq * ticks), round(steal * ticks))
        for cpu, (busy, softirq, steal) in enumerate(busy_softirq_steal)
    ]
    return CpuReading(round(second * SECOND_NS), tuple(cpus))


def test_cpus_are_read_from_proc_stat() -> None:
    first, second = parse_cpu_times(STAT)
    # guest time is part of user time and must not count twice
    assert first == CpuTimes("0", total=2340, idle=2010, softirq=50, steal=10)
    assert second == CpuTimes("12", total=3190, idle=3030, softirq=10, steal=0)


def test_use_is_what_changed_between_two_readings() -> None:
    then = CpuTimes("0", total=1000, idle=900, softirq=10, steal=0)
    now = CpuTimes("0", total=1200, idle=950, softirq=90, steal=20)
    assert now.since(then) == CpuUse("0", busy_ratio=0.75, softirq_ratio=0.4, steal_ratio=0.1)


def test_use_without_a_tick_in_between_is_zero() -> None:
    times = CpuTimes("0", 1000, 900, 10, 0)
    assert times.since(times) == CpuUse("0", 0.0, 0.0, 0.0)


def test_a_cpu_that_came_online_later_is_left_out() -> None:
    assert [use.cpu for use in reading(2, (0, 0, 0), (0, 0, 0)).since(reading(1, (0, 0, 0)))] == ["0"]


def test_one_busy_cpu_saturates_the_machine() -> None:
    assert is_saturated([CpuUse("0", 0.2, 0, 0), CpuUse("1", 0.99, 0.9, 0)])
    assert not is_saturated([CpuUse("0", 0.9, 0, 0), CpuUse("1", 0.97, 0.9, 0)])


def test_windows_are_at_least_a_second_and_lose_no_time() -> None:
    readings = [reading(1 + tenth / 10, (0.5, 0, 0)) for tenth in range(26)]
    windows = split_windows(readings)
    assert len(windows) == 2
    assert windows[-1][0].busy_ratio == pytest.approx(0.5, abs=0.05)
    assert split_windows(readings[:1]) == []
    assert len(split_windows(readings[:3])) == 1


def test_this_machine_counts_the_time_a_busy_thread_takes() -> None:
    before = read_cpus(time.monotonic_ns())
    begun_ns = time.thread_time_ns()
    while time.thread_time_ns() - begun_ns < 100_000_000:  # ten ticks of CPU time
        threading.get_ident()
    use = read_cpus(time.monotonic_ns()).since(before)
    assert any(cpu.busy_ratio > 0 for cpu in use)
    assert all(0 <= cpu.busy_ratio <= 1 for cpu in use)


def test_recent_use_waits_for_a_second_of_ticks() -> None:
    recent = RecentCpuUse(reading(1, (1.0, 0, 0)))
    assert recent.update(reading(1.5, (1.0, 0, 0))) == ()
    (cpu,) = recent.update(reading(2, (1.0, 0, 0)))
    assert cpu.busy_ratio == 1.0
    # a scrape that follows at once shows the same, another scraper does not shorten the stretch
    assert recent.update(reading(2.1, (0.0, 0, 0))) == (cpu,)
