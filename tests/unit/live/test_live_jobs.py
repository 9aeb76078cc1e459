"""The jobs of a lab as top and serve show them."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from mrc_testbed.fabric.fault_log import FaultWindow
from mrc_testbed.faults.schedule import Flap, Schedule
from mrc_testbed.live.jobs import JobView, build_jobs
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.workloads.job import Step
from mrc_testbed.workloads.job_ring import RunningJob

MS = 1_000_000
CLOS = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=10_000_000))


def view(
    lengths_ms: list[int],
    *windows: FaultWindow,
    now_ms: int | None = None,
    flaps: Mapping[str, Schedule] = MappingProxyType({}),
) -> JobView:
    steps, begin_ns = [], 0
    for length_ms in lengths_ms:
        steps.append(Step(begin_ns, begin_ns + length_ms * MS, "h1"))
        begin_ns = steps[-1].end_ns
    job = RunningJob("job", "step", ("h0", "h1"), tuple(steps))
    [found] = build_jobs([job], windows, flaps, CLOS, begin_ns if now_ms is None else now_ms * MS)
    return found


def reboot(start_ms: int, end_ms: int | None, name: str = "reboot") -> FaultWindow:
    end_ns = None if end_ms is None else end_ms * MS
    return FaultWindow(name, "switch-reboot", start_ms * MS, end_ns, nodes=("p0-t1-0",))


def test_a_job_without_faults_has_a_pace() -> None:
    found = view([100] * 20)
    assert found.pace is not None
    assert (found.pace.count, found.pace.slowest_rank, found.pace.slowest_share) == (20, "h1", 1.0)
    assert found.headline == "no steps to compare with yet"
    assert found.steps[-1] == (2000 * MS, 100 * MS)


def test_the_latest_fault_makes_the_headline() -> None:
    found = view([100] * 7 + [200] + [100] * 12, reboot(100, 150, "earlier"), reboot(750, 850))
    assert found.headline == (
        "step median 100 ms (n = 5) before, 200 ms (n = 1) while p0-t1-0 was away; "
        "1 step of 200 ms, slower than any before; back after 150 ms; no rank lost"
    )


def cut(start_ms: int, end_ms: int | None) -> FaultWindow:
    end_ns = None if end_ms is None else end_ms * MS
    return FaultWindow("cut", "link-down", start_ms * MS, end_ns, links=("h0:0~p0-t0-0:0",))


def test_all_faults_that_act_are_named() -> None:
    found = view([100] * 10 + [200] * 10, cut(1050, None), reboot(1250, None))
    assert found.headline.startswith(
        "step median 100 ms (n = 10) before, 200 ms (n = 10) while "
        "link h0:0~p0-t0-0:0 was down and p0-t1-0 was away; 10 steps slower than any before, up to 200 ms; "
    )


def test_a_flap_of_a_run_acts_between_its_outages() -> None:
    links = ("h0:0~p0-t0-0:0",)
    outages = [
        FaultWindow("optic", "link-flap", start_ms * MS, (start_ms + 300) * MS, links=links)
        for start_ms in (1000, 2000, 3000)
    ]
    found = view([100] * 36, *outages, reboot(3500, None))
    assert "while link h0:0~p0-t0-0:0 flapped and p0-t1-0 was away; " in found.headline
    over = view([100] * 46, *outages, reboot(4500, None))
    assert "while p0-t1-0 was away; " in over.headline


@pytest.mark.parametrize(
    ("lengths_ms", "end_ms", "now_ms", "is_named"),
    [
        ([100] * 400, 2000, 31_999, True),
        ([100] * 400, 2000, 32_000, False),
        ([100] * 10 + [200] * 12 + [100] * 400, 2000, 33_399, True),
        ([100] * 10 + [200] * 12 + [100] * 400, 2000, 33_400, False),
        ([100] * 10 + [200] * 200, 2000, 41_000, True),
        ([100] * 400, None, 40_000, True),
    ],
    ids=["over", "long over", "back", "long back", "not back", "acting"],
)
def test_a_fault_that_is_over_is_named_until_the_job_has_long_been_back(
    lengths_ms: list[int], end_ms: int | None, now_ms: int, is_named: bool
) -> None:
    done: list[int] = []
    for length_ms in lengths_ms:
        if sum(done) + length_ms <= now_ms:
            done.append(length_ms)
    headline = view(done, reboot(1000, end_ms), now_ms=now_ms).headline
    assert ("while p0-t1-0 was away" in headline) is is_named
    assert headline.endswith(" before, 100 ms in the last 30 s") is not is_named


def test_a_fault_that_comes_again_after_a_long_time_is_another() -> None:
    again = view([100] * 600, reboot(1000, 2000), reboot(50_000, None))
    assert "(n = 480) before, 100 ms (n = 100) while" in again.headline
    soon = view([100] * 60, reboot(1000, 2000), reboot(3000, None))
    assert "(n = 10) before, 100 ms (n = 50) while" in soon.headline


def test_each_outage_of_a_manual_flap_counts() -> None:
    flap = Schedule(550 * MS, 950 * MS, Flap(200 * MS, 50 * MS, jitter_ratio=0.0, seed=0))
    window = FaultWindow("cut", "link-flap", 550 * MS, 950 * MS, links=("h0:0~p0-t0-0:0",))
    found = view([100] * 5 + [150, 150] + [100] * 12, window, flaps={"cut": flap})
    assert "back 50 ms after the last of 2 outages began" in found.headline


def test_a_job_that_is_still_slow_is_not_back_yet() -> None:
    assert view([100] * 5 + [200, 200], reboot(550, 650)).headline.endswith("; not back yet; no rank lost")


def test_the_pace_of_a_young_job_counts_from_its_first_step() -> None:
    pace = view([100] * 20).pace
    assert pace is not None
    assert pace.per_second == 10


def test_a_fault_from_before_the_first_step_leaves_nothing_to_compare_with() -> None:
    assert view([100], reboot(-50, None)).headline == (
        "step median 100 ms (n = 1) while p0-t1-0 was away; no rank lost"
    )
    assert view([100], reboot(-50, -10)).headline == "no steps to compare with yet"


def test_steps_that_no_known_fault_explains_are_compared_with_those_before() -> None:
    assert view([100] * 100 + [300] * 100).headline == "step median 100 ms before, 300 ms in the last 30 s"


def test_a_job_that_stands_still_says_for_how_long() -> None:
    found = view([100] * 10, reboot(950, None), now_ms=5000)
    assert found.headline.startswith(
        "no step has ended for 4 s; too few steps to tell: step median 100 ms (n = 9) before, "
        "100 ms (n = 1) while p0-t1-0 was away; "
    )


def test_a_job_of_long_steps_has_the_pace_of_the_latest() -> None:
    pace = view([5000] * 20, now_ms=200_000).pace
    assert pace is not None
    assert (pace.count, pace.per_second, pace.p99_ns) == (10, 0.2, 5e9)


def test_a_job_that_has_just_begun_has_no_pace() -> None:
    assert view([], now_ms=5).pace is None
