"""Rounds of a soak of a lab: each seed draws one; violations are kept, a lab that is not as before goes."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from virtual_trial import Trial

from mrc_testbed.bundle.bundle import unpack_bundle
from mrc_testbed.cli.app import run
from mrc_testbed.errors import TestbedError
from mrc_testbed.faults.spec import KINDS
from mrc_testbed.scenario.execution import FinishedRun
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.soak.document import plan_of
from mrc_testbed.soak.live_soak import FAULTS_MS, LiveSoak, draw_round, soak_lab
from mrc_testbed.soak.soaking import Control

MS = 1_000_000
S = 1000 * MS
ROUNDS = {seed: draw_round(seed) for seed in range(1, 101)}


def seed_of(kills: bool) -> int:
    """The first round in which an agent is killed, or in which none is."""
    return next(
        seed
        for seed, document in ROUNDS.items()
        if kills == any(fault["kind"] == "nic-agent-kill" for fault in document["spec"]["faults"])
    )


def test_each_seed_is_a_round_whose_faults_end_well_before_the_job() -> None:
    for document in ROUNDS.values():
        plan = plan_of(document)
        ends_ns = [fault.periods[-1][1] for fault in plan.faults]
        assert 1 <= len(ends_ns) <= 5
        assert all(end_ns is not None and end_ns <= FAULTS_MS * MS for end_ns in ends_ns)


def test_all_kinds_are_drawn_that_the_lab_allows() -> None:
    drawn = {fault["kind"] for document in ROUNDS.values() for fault in document["spec"]["faults"]}
    assert drawn == set(KINDS) - {"pause-storm"}  # nothing can be paused without flow control


def test_the_same_seed_is_the_same_round() -> None:
    assert draw_round(7) == ROUNDS[7]


def test_a_round_that_kills_an_agent_expects_no_more_of_the_job() -> None:
    assert ROUNDS[seed_of(kills=True)]["spec"]["expect"] == ["wrong_bytes == 0"]
    assert {len(each["spec"]["expect"]) for each in ROUNDS.values()} == {1, 3, 4}


def test_a_job_with_an_untouched_plane_is_never_to_stall() -> None:
    for document in ROUNDS.values():
        if "interruption(job) <= 2000ms" in document["spec"]["expect"]:
            selected = str([fault["select"] for fault in document["spec"]["faults"]])
            assert not re.search("p0|:0|'planes': 0", selected) or not re.search(
                "p1|:1|'planes': 1", selected
            )


class Labs:
    """A stage of labs in virtual time."""

    def __init__(self) -> None:
        self.events: list[str] = []  # what happened, in order
        self.left: dict[str, list[str]] = {}  # what rounds leave behind, by their names
        self.before_run: Callable[[Trial], None] = undisturbed  # called before each round
        self._last = ""

    @contextmanager
    def __call__(self) -> Iterator["Labs"]:
        self.events.append("up")
        yield self
        self.events.append("down")

    def run(self, plan: Plan, source: str, runs: Path) -> FinishedRun:
        self.events.append(plan.scenario)
        self._last = plan.scenario
        trial = Trial(unhurried(plan), source)
        self.before_run(trial)
        return trial.execute(runs)

    def left_behind(self) -> list[str]:
        return self.left.get(self._last, [])


def undisturbed(_: Trial) -> None:
    """Let a round be as it is."""


def unhurried(plan: Plan) -> Plan:
    """The same round with fewer steps and readings, which costs less."""
    (job,) = plan.workloads
    assert job.collective is not None
    slower = replace(job, collective=replace(job.collective, compute_ns=S // 2))
    return replace(plan, workloads=(slower,), reading_interval_ns=S)


@pytest.fixture
def labs() -> Labs:
    return Labs()


def soak_of(labs: Labs, into: Path, *seeds: int) -> LiveSoak:
    found = LiveSoak()
    soak_lab(found, seeds, into / "soak", labs)
    return found


def test_rounds_that_hold_share_a_lab(labs: Labs, tmp_path: Path) -> None:
    states: list[int] = []
    found = LiveSoak()
    control = Control(report=lambda: states.append(found.universes))
    soak_lab(found, (1, 2, 3), tmp_path / "soak", labs, control)
    assert (found.universes, len(found.failed), found.untrusted, found.violations) == (3, 0, 0, [])
    assert labs.events == ["up", "round-1", "round-2", "round-3", "down"]
    assert states == [1, 2, 3]
    assert not (tmp_path / "soak").exists()


def test_what_a_round_leaves_behind_is_a_violation_and_the_next_has_a_new_lab(
    labs: Labs, tmp_path: Path
) -> None:
    labs.left["round-2"] = ["fault f1 is active", "port h0:1 is down"]
    found = soak_of(labs, tmp_path, 1, 2, 3)
    assert labs.events == ["up", "round-1", "round-2", "down", "up", "round-3", "down"]
    assert (found.universes, len(found.failed)) == (3, 1)
    (violation,) = found.violations
    assert [str(each) for each in violation.failures] == [
        "fault: fault f1 is active",
        "fault: port h0:1 is down",
    ]
    assert violation.scenario == tmp_path / "soak" / "fault-round-2.yaml"
    assert violation.scenario.read_text().startswith("# fault: fault f1 is active\n# fault: port h0:1 is")
    assert load_scenario(violation.scenario).spec.seed == 2
    unpacked = unpack_bundle(violation.bundle, tmp_path / "opened")
    assert load_scenario(unpacked.folder / "scenario.yaml").spec == load_scenario(violation.scenario).spec


def test_a_job_that_does_not_go_on_is_a_violation(labs: Labs, tmp_path: Path) -> None:
    def hang(lab: Trial) -> None:
        lab.change["operations job"].append(lambda steps: steps[:1])

    labs.before_run = hang
    (violation,) = soak_of(labs, tmp_path, seed_of(kills=False)).violations
    assert [failure.invariant for failure in violation.failures] == ["stuck"]


def test_wrong_bytes_are_a_violation(labs: Labs, tmp_path: Path) -> None:
    labs.before_run = lambda lab: lab.damage(1)
    for seed in (seed_of(kills=True), seed_of(kills=False)):
        (violation,) = soak_of(labs, tmp_path, seed).violations
        assert [failure.invariant for failure in violation.failures] == ["bytes"]


def stand_still(lab: Trial) -> None:
    """Have the machine stand still."""
    lab.clock.pause_at_ns, lab.clock.pause_ns = 900 * MS, 800 * MS


def test_an_untrusted_round_counts_for_nothing_but_what_it_leaves(labs: Labs, tmp_path: Path) -> None:
    labs.before_run = stand_still
    labs.left["round-4"] = ["fault f1 is active"]
    found = soak_of(labs, tmp_path, 1, 4)
    assert (found.universes, len(found.failed), found.untrusted) == (2, 1, 2)
    assert [failure.invariant for failure in found.violations[0].failures] == ["fault"]


@pytest.mark.parametrize(("is_late", "status"), [(True, 7), (False, 0)])
def test_a_soak_without_a_trusted_round_is_untrusted(
    is_late: bool, status: int, labs: Labs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mrc_testbed.cli.campaign_soak.live_stage", lambda *_: labs)
    monkeypatch.setattr("mrc_testbed.cli.campaign_soak.require_root", lambda _: None)
    labs.before_run = stand_still if is_late else undisturbed
    assert run(["campaign", "soak", "--live", "--universes", "2"]) == status


def test_a_round_in_error_is_a_violation_and_its_lab_goes(labs: Labs, tmp_path: Path) -> None:
    def break_it(lab: Trial) -> None:
        lab.fail["prepare"] = TestbedError("no memory")

    labs.before_run = break_it
    found = soak_of(labs, tmp_path, 1, 2)
    assert [str(each.failures[0]) for each in found.violations] == ["ending: no memory"] * 2
    assert labs.events == ["up", "round-1", "down", "up", "round-2", "down"]


def test_a_bug_in_a_round_is_a_violation_with_results(labs: Labs, tmp_path: Path) -> None:
    def break_it(lab: Trial) -> None:
        lab.fail["collect"] = ZeroDivisionError("by zero")

    labs.before_run = break_it
    (violation,) = soak_of(labs, tmp_path, 1).violations
    assert str(violation.failures[0]) == "ZeroDivisionError: by zero"
    assert violation.bundle.is_file()


def test_an_interrupted_round_counts_for_nothing(labs: Labs, tmp_path: Path) -> None:
    def interrupt(lab: Trial) -> None:
        lab.clock.interrupt_at_ns = S

    labs.before_run = interrupt
    found = soak_of(labs, tmp_path, 1, 2)
    assert (found.universes, labs.events) == (0, ["up", "round-1", "down"])


def test_no_lab_is_made_for_a_soak_that_is_over(labs: Labs, tmp_path: Path) -> None:
    found = LiveSoak()
    soak_lab(found, (1,), tmp_path, labs, Control(lambda: True))
    assert found.universes == 0
    assert not labs.events
