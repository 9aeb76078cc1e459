"""Bounds of what a late run measured, and the verdict on it."""

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from document_text import document
from hand_made import MS, S, applied, cleared, reading, recording
from histograms import histogram_of
from rich.console import Console
from scenario_text import HEAD
from virtual_trial import Trial

from mrc_testbed.cli.report import _finished
from mrc_testbed.errors import UsageError
from mrc_testbed.metrics.series import FlowCounts, HostCounts
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.scenario.measure.expectation import answer_of
from mrc_testbed.scenario.measure.lateness_bounds import Bounds, LatenessBounds
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.report.run_record import load_manifest
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.quantity import QUANTITIES, QuantityKind
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.timing import base_rtt_ns
from mrc_testbed.workloads.flow import FlowOutcome
from mrc_testbed.workloads.operation_record import OperationRecord

TEXT = (
    HEAD
    + """\
  topology: {port_rate: 25Mbit}
  workloads:
    - {name: main, kind: sendrecv, shift: 4, size: 1MiB, duration: 1s}
    - {name: job, kind: training, compute: 60ms, size: 1MiB, duration: 1s}
  faults:
    - {id: f, at: 400ms, for: 200ms, kind: link-down, select: {links: h0:0}}
"""
)
IDLE_NS = base_rtt_ns(resolve_topology(resolve(load_scenario(TEXT)).topology))
LATE_NS = [IDLE_NS // 100] * 90 + [IDLE_NS // 10] * 9 + [IDLE_NS]
"""Lateness of a hundred frames: a mean of 2.8 % of the idle RTT."""
SHARE = sum(LATE_NS) / 100 / IDLE_NS
FLOW_BYTES = 12_500


def late_run(late_ns: Sequence[int] = LATE_NS) -> Recording:
    """Readings 100 ms apart, in which each of eight hosts has 12500 bytes acknowledged and 10 packets sent
    again, of which 4 arrive twice, and in which frames leave late.
    """
    readings = [
        replace(
            reading(
                at * 100 * MS,
                hosts={
                    f"h{host}": HostCounts(
                        acknowledged_bytes=FLOW_BYTES * at,
                        messages=5 * at,
                        retransmits_sack=10 * at,
                        rx_duplicates=4 * at,
                    )
                    for host in range(8)
                },
                rtt_ns=(IDLE_NS,) * 100 * at,
                message_ns=(10 * IDLE_NS,) * 100 * at,
                drops={"link_down": 3 * at, "queue_full": 2 * at},
            ),
            queue_lateness=histogram_of([*late_ns] * at),
            flow=FlowCounts(at, at * MS, at, at * MS),
            plane_tx_bytes=(at * 100, at * 100, at * 100, at * 150),
        )
        for at in range(11)
    ]
    made = recording(TEXT, readings, end_ns=S)
    made.fault_changes = [applied("f", 400 * MS), cleared("f", 600 * MS, lost=10, last_lost_ns=450 * MS)]
    made.operations = {
        "job": [
            OperationRecord(at, at + 60 * MS, at + 100 * MS, 0, 1, 0, "h1")
            for at in range(made.start_ns, made.start_ns + S, 100 * MS)
        ]
    }
    flows = [flow for workload in made.plan.workloads for flow in workload.flows]
    made.outcomes = [FlowOutcome(flow, 1, 0, 1, 1, 1, 1, 0, None) for flow in flows]
    return made


def bounds(text: str, made: Recording | None = None) -> tuple[float, Bounds]:
    """The value of a quantity, and its bounds."""
    quantity = parse_quantity(text)
    run = made or late_run()
    return Measurement(run).measure(quantity), LatenessBounds(run).bounds(quantity)


EDGE = IDLE_NS / S

ADDED_TO = "queue_drops pauses paused_time stalled_time"
"""Quantities that lateness only adds to."""

OFF: dict[str, Callable[[float], float]] = {
    "goodput(main) slowest_flow(main) job_throughput(job) busbw(job)": lambda value: value * (SHARE + EDGE),
    "lowest_goodput(main) lost_goodput(f)": lambda value: value * (SHARE + 5 * EDGE),
    "p50(packet_rtt) mean(packet_rtt)": lambda value: value * SHARE + IDLE_NS / 10,
    "p99(packet_rtt) max(packet_rtt) avoid(f)": lambda value: value * SHARE + IDLE_NS,
    "p50(message_completion)": lambda value: 2 * value * SHARE + IDLE_NS / 10,
    "interruption(main)": lambda _: IDLE_NS + 100 * MS,
    "messages fault_drops operations(job)": lambda value: 1 + value * (SHARE + EDGE),
    "lost(f)": lambda value: 1 + value * (SHARE + 5 * EDGE),
    "lowest_plane_share": lambda _: SHARE + EDGE,
    ADDED_TO: lambda value: value * SHARE,
}
"""Quantities, and how much more each may be on a machine in time."""


@pytest.mark.parametrize(
    ("text", "off"), [(text, off) for texts, off in OFF.items() for text in texts.split()]
)
def test_a_quantity_is_off_by_so_much(text: str, off: Callable[[float], float]) -> None:
    value, found = bounds(text.replace("lost_goodput(f)", "goodput(main) during f"))
    assert found.high - value == pytest.approx(off(value), rel=0.06)
    if "goodput" in text or "rtt" in text:
        assert value - found.low == pytest.approx(off(value), rel=0.06)
    if text in ADDED_TO:
        assert (value > 0, found.low) == (True, 0)


def test_what_is_whole_or_nothing_stays_so() -> None:
    value, found = bounds("fairness(main)")
    assert (value, found.high) == (1, 1)
    assert found.low == pytest.approx(1 - SHARE - EDGE, rel=0.05)
    assert bounds("interruption(main)")[1].low == 0
    assert bounds("deadlocked_ports") == (0, Bounds(0, 0))


def test_a_time_of_many_rtts_meets_the_latest_frames_more_often() -> None:
    made = late_run([0] * 1997 + [IDLE_NS] * 3)
    value, found = bounds("p90(packet_rtt)", made)
    assert value - found.low == pytest.approx(value * 0.0015, rel=0.05)
    value, found = bounds("p90(message_completion)", made)
    assert value - found.low == pytest.approx(10 * value * 0.0015, rel=0.05)


def test_an_rtt_with_much_that_waits_is_stretched_less() -> None:
    made = late_run()
    made.readings[1:] = [
        replace(each, packet_rtt=(histogram_of([3 * IDLE_NS] * 100 * at), *each.packet_rtt[1:]))
        for at, each in enumerate(made.readings[1:], start=1)
    ]
    value, found = bounds("goodput(main)", made)
    assert found.high - value == pytest.approx(value * (SHARE / (3 - SHARE) + EDGE), rel=0.06)


def test_lateness_makes_nothing_faster_where_there_is_no_other_workload() -> None:
    made = late_run()
    plan = made.plan
    for name, text in (("main", "goodput(main)"), ("job", "job_throughput(job)")):
        made.plan = replace(plan, workloads=tuple(each for each in plan.workloads if each.name == name))
        value, found = bounds(text, made)
        assert value - found.low == pytest.approx(value * EDGE, rel=0.05)
        assert found.high - value == pytest.approx(value * (SHARE + EDGE), rel=0.05)
    value, found = bounds("p50(step_time(job))", made)
    assert value - found.low == pytest.approx(2 * value * SHARE + IDLE_NS / 10, rel=0.05)
    assert found.high - value == pytest.approx(IDLE_NS / 10, rel=0.05)
    value, found = bounds("p50(packet_rtt)", made)
    assert found.high - value == pytest.approx(value - found.low)


def test_packets_that_came_twice_may_have_been_sent_again_for_lateness() -> None:
    value, found = bounds("retransmits")
    assert (value, found.low) == (800, 800 - 320)
    assert found.high == pytest.approx(800 * (1 + SHARE))
    value, found = bounds("assumed_bad")
    assert (value, found) == (0, Bounds(0, 0))


def test_lateness_does_not_change_what_is_wrong() -> None:
    assert bounds("wrong_bytes") == (0, Bounds(0, 0))
    assert bounds("qp_errors") == (0, Bounds(0, 0))


def test_only_lateness_around_the_window_counts() -> None:
    made = late_run([0])
    late = histogram_of([0] * 10 + [IDLE_NS // 2] * 1000)
    made.readings[9:] = [replace(each, queue_lateness=late) for each in made.readings[9:]]
    value, before = bounds("goodput(main) before f", made)
    assert before == Bounds(value, value)
    value, after = bounds("goodput(main) after f", made)
    assert after.high > 1.4 * value


def test_a_time_may_be_about_the_worst_second_and_a_mean_is_not() -> None:
    made = late_run([0] * 100)
    last = made.readings[-1]
    much = histogram_of([0] * 1000 + [IDLE_NS] * 100)
    made.readings += [
        replace(last, time_ns=last.time_ns + S),
        replace(last, time_ns=last.time_ns + 2 * S, queue_lateness=much),
    ]
    made.end_ns = made.readings[-1].time_ns
    value, found = bounds("max(packet_rtt)", made)
    assert found.high - value == pytest.approx(value + IDLE_NS, rel=0.05)
    value, found = bounds("mean(packet_rtt)", made)
    assert found.high - value == pytest.approx(value / 11 + IDLE_NS, rel=0.05)


def test_a_standstill_comes_on_top() -> None:
    made = late_run()
    made.latest_ns = 600 * MS
    value, found = bounds("max(packet_rtt)", made)
    assert found.high - value == pytest.approx(value * SHARE + IDLE_NS + 600 * MS, rel=0.05)
    made.latest_ns = 400 * MS
    _, found = bounds("max(packet_rtt)", made)
    assert found.high < 3 * IDLE_NS


def test_what_depends_on_processes_is_off_by_any_standstill() -> None:
    made = late_run([0] * 100)
    made.latest_ns = 90 * MS
    value, found = bounds("max(step_time(job))", made)
    assert (value - found.low, found.high - value) == (90 * MS, 90 * MS)
    applied_late = replace(made.fault_changes[0], after_ns=made.fault_changes[0].before_ns + 30 * MS)
    made.fault_changes[0] = applied_late
    value, found = bounds("avoid(f)", made)
    assert found.high - value == 120 * MS
    value, found = bounds("goodput(main)", made)
    assert found.high - value == pytest.approx(value * 0.09)


OF = {
    None: "",
    "workload": "(main)",
    "collective": "(job)",
    "job": "(job)",
    "program": "(job)",
    "fault": "(f)",
    "latency": "(packet_rtt)",
}


@pytest.mark.parametrize("kind", QUANTITIES, ids=lambda kind: kind.name)
def test_every_quantity_lies_within_its_bounds(kind: QuantityKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Measurement, "measure", lambda *_: 0.5)
    monkeypatch.setattr(Measurement, "packets_sent", lambda *_: 1000)
    quantity = parse_quantity(kind.name.replace("<N>", "99") + OF[kind.argument])
    found = LatenessBounds(late_run()).bounds(quantity)
    assert found.low <= 0.5 <= found.high
    assert found.is_exact is (kind.name in ("loss", "qp_errors", "wrong_bytes"))


LATE_JOB = document("""\
Scenario {name: late}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 25Mbit}
  workloads:
    - {name: job, kind: training, compute: 200ms, size: 1MiB, warmup: 500ms, duration: 5s}
  expect: [EXPECT]
""")


def run_late(expect: str, folder: Path, *, more: str = "", beyond: int = 0) -> FinishedRun:
    """A run of steps of 260 ms with a p99 of lateness of 1.9 ms.

    Args:
        expect: its expectations.
        folder: of the results.
        more: lines of the scenario.
        beyond: NIC events that were lost.
    """
    text = LATE_JOB.replace("EXPECT", expect) + more
    trial = Trial(text)
    trial.be_late([20_000] * 980 + [1_900_000] * 20)
    trial.lose_events(beyond)
    steps = [
        OperationRecord(at, at + 200 * MS, at + 260 * MS, 0, 4 << 20, 0, "h1")
        for at in range(1, 8 * S, 260 * MS)
    ]
    trial.change["operations job"].append(lambda _: steps)
    return trial.execute(folder)


STEPS = "p99(step_time(job)) < 286ms"
LATE = "frames left their queues late: p99 1.88 ms (limit: 0.99 ms)"


def cases(finished: FinishedRun) -> dict[str | None, str]:
    """Name of each case of junit.xml -> what it came to."""
    root = ET.parse(finished.folder / "junit.xml").getroot()  # noqa: S314 - our own file
    return {case.get("name"): next((child.tag for child in case), "passed") for case in root.iter("testcase")}


def test_lateness_that_can_turn_no_expectation_leaves_a_run_trusted(tmp_path: Path) -> None:
    finished = run_late(f"{STEPS}, job_throughput(job) > 3, wrong_bytes == 0", tmp_path)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code, verdict.is_trusted) == (Status.PASSED, 0, True)
    assert verdict.reason == f"all 3 expectations held; {LATE}; this could not have turned the verdict"
    manifest = load_manifest(finished.folder / "manifest.json")
    assert (manifest["trusted"], manifest["late"]) == (True, True)
    findings = [each["trusted"] for each in manifest["fidelity"]]
    assert findings == [each.reason is None for each in finished.result.fidelity]
    assert [each["outcome"] for each in manifest["expectations"]] == ["held"] * 3
    assert set(cases(finished).values()) == {"passed"}
    report = (finished.folder / "report.html").read_text()
    assert f"Late: {LATE}. Figures that no expectation is about may be off." in report
    assert "(untrusted)" not in report


def test_an_expectation_within_the_lateness_of_its_limit_leaves_a_run_untrusted(tmp_path: Path) -> None:
    near = "p99(step_time(job)) < 261ms"
    finished = run_late(f"{STEPS}, {near}", tmp_path)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.exit_code, verdict.is_trusted) == (Status.UNTRUSTED, 7, False)
    assert verdict.reason == f"{LATE}; this could have turned 1 of 2 expectations"
    assert [outcome.answer for outcome in verdict.outcomes] == ["held", "cannot tell"]
    assert cases(finished) == {"run": "skipped", STEPS: "passed", near: "skipped"}
    manifest = json.loads((finished.folder / "manifest.json").read_text())
    assert [each["outcome"] for each in manifest["expectations"]] == ["held", "cannot tell"]
    assert [each["passed"] for each in manifest["expectations"]] == [True, True]
    summary = (finished.folder / "summary.md").read_text()
    assert summary.count("(untrusted)") == 1
    assert f"| `{near}` | **cannot tell** | p99(step_time(job)) was 260 ms" in summary
    report = (finished.folder / "report.html").read_text()
    assert report.count("(untrusted)") == 1
    assert "? cannot tell" in report


def test_a_failure_that_lateness_cannot_explain_fails_a_late_run(tmp_path: Path) -> None:
    finished = run_late("p99(step_time(job)) < 200ms, p99(step_time(job)) < 261ms", tmp_path)
    verdict = finished.result.verdict
    assert (verdict.status, verdict.is_trusted) == (Status.FAILED, True)
    assert (
        verdict.reason == f"1 of 2 expectations did not hold; {LATE}; this could not have turned the verdict"
    )
    assert [outcome.answer for outcome in verdict.outcomes] == ["failed", "cannot tell"]


@pytest.mark.parametrize(
    ("limit", "status"),
    [("286ms", "passed"), ("261ms", "passed"), ("259ms", "untrusted"), ("200ms", "failed")],
)
def test_within_the_limits_of_lateness_only_a_failure_is_doubted(
    limit: str, status: str, tmp_path: Path
) -> None:
    finished = run_late(
        f"p99(step_time(job)) < {limit}, wrong_bytes == 0", tmp_path, more="  fidelity: {late: 150%}\n"
    )
    verdict = finished.result.verdict
    assert (verdict.status.value, verdict.late) == (status, ())
    if status == "untrusted":
        assert verdict.reason == (
            "the machine was late, although within the limits; this could have turned 1 of 2 expectations"
        )


@pytest.mark.parametrize("expect", ["", STEPS])
def test_what_has_no_bounds_taints_a_late_run(expect: str, tmp_path: Path) -> None:
    finished = run_late(expect, tmp_path, beyond=1 if expect else 0)
    verdict = finished.result.verdict
    assert verdict.status is Status.UNTRUSTED
    assert verdict.reason.endswith(LATE)
    assert verdict.untrusted[0].startswith("1 NIC events were lost" if expect else LATE)
    assert {outcome.answer for outcome in verdict.outcomes} <= {"cannot tell"}
    assert set(cases(finished).values()) == {"skipped"}


def test_a_scenario_may_allow_more_lateness_and_reports_say_so(tmp_path: Path) -> None:
    finished = run_late("p99(step_time(job)) < 261ms", tmp_path, more="  fidelity: {late: 150%}\n")
    verdict = finished.result.verdict
    assert (verdict.status, verdict.late) == (Status.PASSED, ())
    assert finished.result.fidelity[0].limit == "4.50 ms, loosened by the scenario"
    assert "loosened by the scenario" in (finished.folder / "report.html").read_text()


def test_the_terminal_says_what_is_untrusted(tmp_path: Path) -> None:
    finished = run_late("p99(step_time(job)) < 261ms, wrong_bytes == 0", tmp_path)
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(_finished(finished, []))
    shown = console.export_text()
    assert "UNTRUSTED" in shown
    assert re.search(r"job .*\(untrusted\)", shown)
    assert re.search(r"cannot tell +p99\(step_time\(job\)\)", shown)
    assert re.search(r"held +wrong_bytes == 0", shown)


def test_a_manifest_that_does_not_know_outcomes_is_read(tmp_path: Path) -> None:
    path = run_late(STEPS, tmp_path).folder / "manifest.json"
    manifest = json.loads(path.read_text())
    (expectation,) = manifest["expectations"]
    del manifest["late"], expectation["outcome"]
    path.write_text(json.dumps(manifest))
    assert answer_of(load_manifest(path)["expectations"][0]) == "held"
    for key, value in (("expectations.0.outcome", [expectation | {"outcome": "perhaps"}]), ("seed", "1")):
        path.write_text(json.dumps(manifest | {key.partition(".")[0]: value}))
        with pytest.raises(UsageError, match=re.escape(key)):
            load_manifest(path)


@pytest.mark.parametrize(("late", "is_accepted"), [("0%", False), ("1000%", True), ("1001%", False)])
def test_a_limit_may_be_ten_rtts_at_most(late: str, *, is_accepted: bool) -> None:
    text = TEXT + f"  fidelity: {{late: {late}}}\n"
    if is_accepted:
        assert resolve(load_scenario(text)).late_ratio == 10
    else:
        with pytest.raises(UsageError, match="late"):
            load_scenario(text)
