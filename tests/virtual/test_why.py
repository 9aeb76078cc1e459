"""`why` names the cause that a scenario injects, and all of an operation's time has a cause."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from runs import run

from mrc_testbed.cli import app
from mrc_testbed.explain.answer import sentence, shares_of
from mrc_testbed.explain.why import Explanation, explain
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.soak.document import Values, plan_of
from mrc_testbed.soak.draw import draw_universe

FABRIC = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 4, "port_rate": "50Mbit"}
WRITES = {"name": "main", "kind": "write-bw", "from": "h0", "to": "h4", "size": "64KiB", "duration": "400ms"}
LINK = "p0-t0-0~p0-t1-0"

SCENARIOS: Mapping[str, tuple[Values, str]] = {
    "flap": (
        {"kind": "link-flap", "every": "100ms", "down": "40ms", "select": {"links": LINK}},
        r"packets? lost .*at p0-t[01]-0:\d .*by fault, found by ",
    ),
    "dead-link": (
        {"kind": "link-down", "select": {"links": LINK}},
        r"packets? lost .*at p0-t[01]-0:\d .*by fault, found by ",
    ),
    "gray-loss": (
        {"kind": "loss", "ratio": "30%", "direction": "a-to-b", "select": {"links": LINK}},
        r"packets? lost at p0-t0-0:4 at .* by fault, found by ",
    ),
    "slow-link": (
        {"kind": "slow-link", "to": "5%", "select": {"links": LINK}},
        r"packet late at p0-t0-0:4 by fault, given up by ",
    ),
    "pause": (
        {"kind": "pause-storm", "direction": "b-to-a", "select": {"links": "h4:0"}},
        r"flow control held frames by fault",
    ),
    "killed-agent": (
        {"kind": "nic-agent-kill", "select": {"nodes": "h0"}},
        r"was not completed .*the agent of h0 did not run, because of fault",
    ),
}


def scenario(
    name: str, *workloads: Mapping[str, Any], faults: list[Values] | None = None, **more: Any
) -> Values:
    return {
        "apiVersion": "mrc-testbed/v1",
        "kind": "Scenario",
        "metadata": {"name": name},
        "spec": {"seed": 1, "topology": FABRIC | more, "workloads": list(workloads), "faults": faults or []},
    }


def carried_out(document: Values, runs: Path) -> FinishedRun:
    return run(plan_of(document), runs)


def explained(done: FinishedRun, operation: str | None = None) -> Explanation:
    zero_ns = done.result.recording.zero_ns
    assert zero_ns is not None
    found = explain(done.result.plan, done.folder, zero_ns, operation)
    ends = [each.end_ns for each in found.segments]
    begins = [each.begin_ns for each in found.segments]
    assert [found.operation.begin_ns, *ends] == [
        *begins,
        found.operation.end_ns,
    ]  # no time twice, none left out
    other = sum(each.ns for each in shares_of(found) if each.kind == "not explained")
    assert other <= 0.01 * found.operation.length_ns
    return found


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_injected_cause_is_named_with_its_place(name: str, tmp_path: Path) -> None:
    fault, expected = SCENARIOS[name]
    fault = {"id": "fault", "at": "100ms", "for": "250ms"} | fault
    more = {"planes": 1, "flow_control": "pfc"} if name == "pause" else {}
    done = carried_out(scenario(name, WRITES, faults=[fault], **more), tmp_path)
    found = sentence(explained(done))
    assert f"while fault ({fault['kind']} at " in found
    assert re.search(expected, found), found


def test_an_incast_is_queueing_at_the_ports_of_its_receiver(tmp_path: Path) -> None:
    incast = {"name": "main", "kind": "incast", "to": "h0", "size": "64KiB", "duration": "400ms"}
    found = explained(carried_out(scenario("incast", incast), tmp_path))
    first = shares_of(found)[0]
    assert first.kind == "queueing"
    assert {cause.place for cause, _, _ in first.places()[:2]} == {"p0-t0-0:0", "p1-t0-0:0"}
    assert first.places()[0][0].flow.endswith(" > h0")


def test_a_training_job_under_flaps_of_a_nic_port(tmp_path: Path) -> None:
    job = {
        "name": "job", "kind": "training", "hosts": ["h0", "h4", "h1", "h5"], "compute": "20ms",
        "size": "256KiB", "duration": "900ms",
    }  # fmt: skip
    flap = {
        "id": "optic", "kind": "link-flap", "at": "200ms", "for": "500ms", "every": "100ms", "down": "50ms",
        "select": {"links": "h0:0"},
    }  # fmt: skip
    done = carried_out(scenario("nic-flaps", job, faults=[flap]), tmp_path)
    found = explained(done)
    assert re.search(
        r"^job step \d+ took .* while optic \(link-flap at h0:0~p0-t0-0:0\) acted: ", sentence(found)
    )
    computing = [each.ns for each in shares_of(found) if each.kind == "computing"]
    assert computing == [20_000_000]
    records = done.result.recording.operations["job"]
    slowest = max(records, key=lambda each: each.step_ns)
    assert (found.operation.begin_ns, found.operation.end_ns) == (slowest.step_begin_ns, slowest.end_ns)
    # one message follows the other from the end of computing to the end of the step
    assert found.operation.posted_ns + sum(ns for _, ns in found.messages) == found.operation.end_ns
    third = explained(done, "job step 3")
    assert third.operation.end_ns == records[3].end_ns


@pytest.mark.parametrize("seed", [4, 11, 18, 25, 36, 50, 93, 118, 188])
def test_all_time_of_a_random_universe_has_a_cause(seed: int, tmp_path: Path) -> None:
    explained(carried_out(draw_universe(seed), tmp_path))


@pytest.mark.slow("two hundred universes")
def test_all_time_of_many_universes_has_a_cause(tmp_path: Path) -> None:
    count = 0
    for seed in range(200):
        done = carried_out(draw_universe(seed), tmp_path)
        shared = [each.name for each in done.result.plan.workloads if each.shared_work]
        has_ended = any(done.result.recording.operations[name] for name in shared[:1])
        if has_ended or (not shared and done.result.plan.transport.kind == "mrc"):  # of RC no messages
            explained(done)
            count += 1
    assert count >= 150


def test_the_command_says_it_and_the_report_shows_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = {"id": "fault", "at": "100ms", "for": "250ms"} | SCENARIOS["flap"][0]
    done = carried_out(scenario("flap", WRITES, faults=[fault]), tmp_path)
    assert app.run(["why", str(done.folder), "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(each["ns"] for each in document["causes"]) == document["duration_ns"]
    for _ in range(2):  # the second explanation takes the place of the first
        assert app.run(["why", "flap", "--runs", str(tmp_path), "--slowest"]) == 0
    shown = capsys.readouterr().out
    assert document["sentence"] in shown
    report = (done.folder / "report.html").read_text(encoding="utf-8")
    assert report.count('<section id="why">') == 1
    assert f"{document['sentence'].replace('>', '&gt;')}</p>" in report
    assert report.count('<a href="#f') >= 3


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("mian", "no workload 'mian'; did you mean 'main'?"),
        ("main 999999", "main has messages 0 to "),
        ("main step x", "there is no workload"),
    ],
)
def test_an_unknown_operation_is_refused(
    operation: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = carried_out(scenario("plain", WRITES | {"duration": "50ms"}), tmp_path)
    assert app.run(["why", str(done.folder), operation]) == 2
    assert message in capsys.readouterr().err
