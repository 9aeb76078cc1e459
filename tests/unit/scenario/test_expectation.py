import pytest
from hand_made import MS, S, applied, back, cleared, left, reading, recording
from scenario_text import scenario

from mrc_testbed.metrics.series import HostCounts
from mrc_testbed.scenario.measure.expectation import Outcome, evaluate_expectations
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.workloads.flow import FlowOutcome

LINK = "p0-t0-0:4~p0-t1-0:0"
TEXT = scenario(
    f'  faults: [{{id: f, at: 400ms, for: 200ms, kind: link-down, select: {{links: "{LINK}"}}}}]\n'
)
EV = Clos(TopologySpec()).ev(0, 0)


def counts(acked_bytes: int, **more: int) -> HostCounts:
    return HostCounts(acknowledged_bytes=acked_bytes, **more)


def run() -> Recording:
    """h0 and h1 each get 1000 bytes per 100 ms acknowledged, 900 during the fault."""
    acked = [0, 1000, 2000, 3000, 4000, 4900, 5800, 6800, 7800, 8800, 9800, 9900]
    readings = [
        reading(
            at * 100 * MS,
            hosts={
                "h0": counts(total, retransmits_sack=min(at, 6), messages=at, qp_errors=int(at == 11)),
                "h1": counts(total, retransmits_timeout=int(at > 4), tx_data_packets=10 * at),
            },
            rtt_ns=tuple([10_000] * 99 * at + [50_000] * at),
            message_ns=(),
            drops={"link_down": 5 * int(at > 4), "loss": 2 * int(at > 4), "queue_full": 3, "pool_empty": at},
        )
        for at, total in enumerate(acked)
    ]
    made = recording(TEXT, readings, end_ns=S)
    made.fault_changes = [applied("f", 400 * MS), cleared("f", 600 * MS, lost=7, last_lost_ns=403 * MS)]
    made.nic_events = [left(402 * MS, EV), back(650 * MS, EV)]
    return made


def outcome(text: str, made: Recording | None = None) -> Outcome:
    return evaluate_expectations([text], made or run())[0]


@pytest.mark.parametrize(
    ("text", "left_value"),
    [
        ("goodput(main) > 0bit", 156_800),
        ("goodput(main) before f > 0bit", 160_000),
        ("goodput(main) during f > 0bit", 144_000),
        ("goodput(main) after f > 0bit", 160_000),
        ("goodput(main) during f / goodput(main) before f > 0%", 0.9),
        ("retransmits >= 0", 7),
        ("retransmits during f >= 0", 3),
        ("retransmit_ratio >= 0%", 7 / 110),
        ("retransmit_ratio during f >= 0%", 3 / 20),
        ("queue_drop_ratio >= 0%", 11 / 110),
        ("lost_ratio(f) >= 0%", 7 / 20),
        ("messages before f >= 0", 4),
        ("fault_drops >= 0", 7),
        ("fault_drops before f >= 0", 0),
        ("queue_drops >= 0", 11),
        ("qp_errors >= 0", 1),
        ("qp_errors during f >= 0", 0),
        ("assumed_bad >= 0", 1),
        ("assumed_bad before f >= 0", 0),
        ("detect(f) > 0ns", 2 * MS),
        ("avoid(f) > 0ns", 3 * MS),
        ("restore(f) > 0ns", 50 * MS),
        ("2 * messages - 3 > 0", 19),
        ("(messages + 1) / 2 > 0", 6),
        ("retransmits / messages > 0%", 7 / 11),
    ],
)
def test_value_of(text: str, left_value: float) -> None:
    assert outcome(text).left == pytest.approx(left_value)


def test_percentiles_come_from_the_times_of_the_window() -> None:
    within_bucket = 0.032
    assert outcome("p50(packet_rtt) > 0ns").left == pytest.approx(10_000, rel=within_bucket)
    assert outcome("p99.9(packet_rtt) during f > 0ns").left == pytest.approx(50_000, rel=within_bucket)
    assert outcome("max(packet_rtt) > 0ns").left == 50_000
    assert outcome("mean(packet_rtt) before f > 0ns").left == pytest.approx(10_400)


def test_reason_of_a_comparison_with_a_number() -> None:
    held = outcome("detect(f) < 5ms")
    assert held.has_passed
    assert held.reason == "detect(f) was 2 ms, less than 5 ms was expected"


def test_reason_of_a_failure_names_every_number() -> None:
    missed = outcome("goodput(main) during f >= 97% of goodput(main) before f")
    assert not missed.has_passed
    assert missed.reason == (
        "goodput(main) during f was 144 kbit/s, at least 155 kbit/s was expected "
        "(97% of goodput(main) before f; goodput(main) before f was 160 kbit/s)"
    )


def test_values_that_round_alike_are_shown_apart() -> None:
    missed = outcome("goodput(main) > 156.801kbit")
    assert missed.reason == "goodput(main) was 156.8 kbit/s, more than 156.801 kbit/s was expected"


@pytest.mark.parametrize(
    ("text", "has_passed"),
    [
        ("messages == 11", True),
        ("messages != 11", False),
        ("messages < 11", False),
        ("messages <= 11", True),
        ("messages > 11", False),
        ("messages >= 11", True),
    ],
)
def test_comparisons(text: str, has_passed: bool) -> None:
    assert outcome(text).has_passed is has_passed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p99(message_completion) < 1s", "p99(message_completion): no time was recorded in it"),
        ("mean(message_completion) < 1s", "mean(message_completion): no time was recorded in it"),
        (
            "wrong_bytes == 0",
            "wrong_bytes: received memory was not compared, because the run did not get that far",
        ),
        ("messages / fault_drops before f > 0%", "it divides by a measured zero"),
    ],
)
def test_what_was_not_measured_did_not_hold(text: str, reason: str) -> None:
    missed = outcome(text)
    assert not missed.has_passed
    assert missed.reason == f"not measured: {reason}"
    assert (missed.left, missed.right, missed.measured) == (None, None, ())


def test_a_fault_not_restored_has_no_time_to_compare() -> None:
    made = run()
    made.nic_events.pop()
    assert outcome("restore(f) < 1s", made).reason == (
        "not measured: restore(f): EVs were still avoided when the next occurrence began or the run ended"
    )


def flows(made: Recording, **changes: int) -> list[FlowOutcome]:
    values = {"messages": 1, "payload_bytes": 100, "compared_bytes": 100, "wrong_bytes": 0} | changes
    return [
        FlowOutcome(flow=flow, qpn=256, start_ns=0, end_ns=1, error=None, **values)
        for flow in made.plan.workloads[0].flows
    ]


def test_wrong_bytes_of_all_flows_are_added() -> None:
    made = run()
    made.outcomes = flows(made, wrong_bytes=2)
    assert outcome("wrong_bytes == 0", made).reason == "wrong_bytes was 16, exactly 0 was expected"


def test_memory_that_was_not_compared_is_not_taken_for_right() -> None:
    made = run()
    made.outcomes = flows(made, compared_bytes=0)
    assert outcome("wrong_bytes == 0", made).reason == (
        "not measured: wrong_bytes: nothing that h4 received from h0 was compared"
    )
