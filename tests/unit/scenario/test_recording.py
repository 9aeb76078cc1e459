import pytest
from hand_made import MS, ZERO_NS, S, applied, cleared, reading, recording
from scenario_text import scenario

from mrc_testbed.metrics.series import HostCounts
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording, Span

FAULTS = scenario(
    "  faults:\n"
    "    - {id: a, at: 100ms, for: 100ms, kind: link-down, select: {links: h0:0}}\n"
    "    - {id: b, at: 400ms, for: 200ms, kind: link-down, select: {links: h0:0}}\n"
)


def run(*, end_ns: int | None = S) -> Recording:
    made = recording(FAULTS, [reading(at * MS) for at in range(0, 1001, 50)], end_ns=end_ns)
    made.fault_changes = [
        applied("a", 100 * MS),
        cleared("a", 200 * MS),
        applied("b", 400 * MS),
        cleared("b", 600 * MS),
    ]
    return made


def span(start_ns: int, end_ns: int) -> Span:
    return Span(ZERO_NS + start_ns, ZERO_NS + end_ns)


@pytest.mark.parametrize(
    ("window", "fault", "expected"),
    [
        ("before", "a", span(0, 100 * MS)),
        ("during", "a", span(100 * MS, 200 * MS + 1000)),
        ("after", "a", span(200 * MS + 1000, 400 * MS)),
        ("before", "b", span(200 * MS + 1000, 400 * MS)),
        ("during", "b", span(400 * MS, 600 * MS + 1000)),
        ("after", "b", span(600 * MS + 1000, S)),
    ],
)
def test_windows_reach_from_fault_to_fault(window: str, fault: str, expected: Span) -> None:
    assert run().window(window, fault) == expected


def test_overlapping_faults_share_what_lies_before_them() -> None:
    made = run()
    made.fault_changes = [
        applied("a", 100 * MS),
        applied("b", 150 * MS),
        cleared("a", 200 * MS),
        cleared("b", 600 * MS),
    ]
    assert made.window("before", "b") == span(0, 150 * MS)
    assert made.window("after", "a") == span(200 * MS + 1000, S)


def test_a_flap_lasts_from_its_first_to_its_last_occurrence() -> None:
    made = run()
    made.fault_changes = [
        applied("a", 100 * MS, 0),
        cleared("a", 120 * MS, 0),
        applied("a", 180 * MS, 1),
        cleared("a", 200 * MS, 1),
    ]
    assert made.window("during", "a") == span(100 * MS, 200 * MS + 1000)


def test_a_fault_never_applied_has_no_window() -> None:
    made = run()
    made.fault_changes = []
    with pytest.raises(NotMeasured, match="a was never applied"):
        made.window("during", "a")


def test_a_run_cut_short_is_measured_up_to_its_last_reading() -> None:
    assert run(end_ns=None).measured_span() == span(0, S)


def test_nothing_is_measured_in_warm_up() -> None:
    made = run()
    made.zero_ns = None
    with pytest.raises(NotMeasured, match="the run ended during warm-up"):
        made.measured_span()


def test_an_interval_lies_between_the_nearest_readings() -> None:
    counts = [HostCounts(acknowledged_bytes=at) for at in (0, 1000, 3000)]
    made = recording(
        FAULTS, [reading(at * 100 * MS, hosts={"h0": counts[at]}) for at in range(3)], end_ns=200 * MS
    )
    interval = made.interval(span(60 * MS, 190 * MS))
    assert (interval.start_ns, interval.end_ns) == (ZERO_NS + 100 * MS, ZERO_NS + 200 * MS)
    assert interval.hosts["h0"].acknowledged_bytes == 2000


def test_a_span_between_two_readings_has_no_interval() -> None:
    with pytest.raises(NotMeasured, match="no two readings lie in these 1000 ns"):
        run().interval(span(110 * MS, 110 * MS + 1000))
