"""The jobs of a lab as top and serve show them."""

from collections.abc import Mapping
from types import MappingProxyType

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
    assert found.headline == "no fault was active; no rank lost"
    assert found.steps[-1] == (2000 * MS, 100 * MS)


def test_the_latest_fault_makes_the_headline() -> None:
    found = view([100] * 5 + [200] + [100] * 12, reboot(100, 150, "earlier"), reboot(550, 650))
    assert found.headline == "step p99 100 to 200 ms while p0-t1-0 was away; back after 150 ms; no rank lost"


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


def test_a_fault_before_the_first_step_says_nothing_of_the_job() -> None:
    assert view([100], reboot(0, None)).headline == "no fault was active; no rank lost"


def test_a_job_that_stands_still_says_for_how_long() -> None:
    found = view([100] * 10, reboot(950, None), now_ms=5000)
    assert found.headline.startswith(
        "no step has ended for 4 s; step p99 100 to 100 ms while p0-t1-0 was away"
    )


def test_a_job_of_long_steps_has_the_pace_of_the_latest() -> None:
    pace = view([5000] * 20, now_ms=200_000).pace
    assert pace is not None
    assert (pace.count, pace.per_second, pace.p99_ns) == (10, 0.2, 5e9)


def test_a_job_that_has_just_begun_has_no_pace() -> None:
    assert view([], now_ms=5).pace is None
