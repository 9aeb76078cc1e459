"""`campaign soak`: universes one after another, and what it keeps of those that fail."""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import Executor, Future
from itertools import count
from pathlib import Path

import pytest
from document_text import document
from golden_documents import check_document
from waiting import DEADLINE_S, poll_until

from mrc_testbed.bundle.bundle import unpack_bundle
from mrc_testbed.cli.app import run
from mrc_testbed.faults.map_target import MapTarget
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.soaking import Control, Soak, soak
from mrc_testbed.soak.universe import judge, judge_seed
from mrc_testbed.soak.violation import Violation, keep_violation
from tests.universes.plans import read_plan

SLOW_LINK_SEED = 42


class Inline(Executor):
    """Does what is submitted at once, in this process, which tests have changed."""

    def __init__(self, *_: object) -> None:
        self.count = 0

    def submit(self, function, /, *arguments, **keywords):
        self.count += 1
        if self.count == 2:
            self.interfere()
        future: Future = Future()
        future.set_result(function(*arguments, **keywords))
        return future

    def interfere(self) -> None:
        pass


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_testbed.soak.soaking.run_processes", Inline)


@pytest.fixture
def slow_links_stay(monkeypatch: pytest.MonkeyPatch, inline: None) -> None:
    set_rate = MapTarget.set_rate
    monkeypatch.setattr(MapTarget, "set_rate", lambda self, port_id, _: set_rate(self, port_id, 0.5))


def test_good_universes_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["campaign", "soak", "--virtual", "--seed", "11", "--universes", "3", "--jobs", "2"]
    assert run([*arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_document("Soak", found)
    judged = [judge_seed(seed) for seed in (11, 12, 13)]
    assert (found["universes"], found["bad"], found["violations"]) == (3, 0, [])
    assert found["simulated_ns"] == sum(each.time_ns for each in judged)
    assert found["events"] == sum(each.events for each in judged)
    assert not Path("soak").exists()


def test_a_signal_for_the_process_group_ends_a_soak_in_good_order() -> None:
    """The processes that judge get it too, and die of it."""
    command = [sys.executable, "-m", "mrc_testbed.cli", "campaign", "soak", "--virtual", "-o", "json"]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as running:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        poll_until(
            lambda: len(children.read_text().split()) == 2, what="the tracker of resources, and a judge"
        )
        os.killpg(running.pid, signal.SIGTERM)
        found = json.loads(running.communicate(timeout=DEADLINE_S)[0])
    assert (running.returncode, found["is_interrupted"]) == (130, True)


def test_a_violation_is_kept_as_a_small_scenario_and_a_bundle(
    slow_links_stay: None, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["campaign", "soak", "--virtual", "--seed", str(SLOW_LINK_SEED), "--universes", "1"]
    assert run([*arguments, "-o", "json"]) == 4
    found = json.loads(capsys.readouterr().out)
    check_document("Soak", found)
    assert found["bad"] == 1
    (violation,) = found["violations"]
    scenario = Path(violation["scenario"])
    assert scenario.read_text().startswith("# fault: port_table is not as it was\n")
    assert [fault["kind"] for fault in read_plan(scenario)["spec"]["faults"]] == ["slow-link"]
    unpacked = unpack_bundle(Path(violation["bundle"]), Path("opened"))
    assert (unpacked.folder / "scenario.yaml").read_bytes() == scenario.read_bytes()
    assert run(["run", str(scenario), "--virtual"]) == 0
    assert judge(read_plan(scenario)).failures


def test_a_soak_is_over_in_time(inline: None, tmp_path: Path) -> None:
    looks = iter((False, False, False, False, True))
    found = Soak()
    soak(found, iter(range(1, 100)), tmp_path, Control(lambda: next(looks, True)), jobs=4)
    assert found.universes == 4


class Elsewhere(Inline):
    """Judges on other machines, which come after a while."""

    def __init__(self) -> None:
        super().__init__()
        self.rooms = [0, 0, 3]

    def room(self) -> int:
        return self.rooms.pop(0) if len(self.rooms) > 1 else self.rooms[0]


def test_judges_elsewhere_are_awaited(inline: None, tmp_path: Path) -> None:
    judges, found = Elsewhere(), Soak()
    soak(found, range(1, 11), tmp_path, judges=judges)
    assert found.universes == 10
    assert judges.count == 3


def test_a_soak_is_over_also_without_judges(inline: None, tmp_path: Path) -> None:
    judges = Elsewhere()
    judges.rooms = [0]
    soak(Soak(), count(), tmp_path, Control(lambda: True), judges=judges)
    assert judges.count == 0


def test_an_interrupted_soak_says_what_it_has(
    inline: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Inline, "interfere", lambda _: signal.raise_signal(signal.SIGINT))
    assert run(["campaign", "soak", "--virtual", "--for", "1h", "-o", "json"]) == 130
    found = json.loads(capsys.readouterr().out)
    assert found["is_interrupted"]
    assert found["universes"] == 2


def test_what_fails_is_kept_unshrunk_in_a_hurry(slow_links_stay: None, tmp_path: Path) -> None:
    kept = keep_violation(judge_seed(SLOW_LINK_SEED), tmp_path, lambda: True)
    document = draw_universe(SLOW_LINK_SEED)
    assert read_plan(kept.scenario)["spec"] == document["spec"]
    assert kept.scenario.read_text().startswith("# fault: ")
    assert ending_of(kept) == "interrupted by request"


def test_results_of_what_does_not_end_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("mrc_testbed.soak.universe.EVENTS_MAX", 10)
    monkeypatch.setattr("mrc_testbed.soak.violation.SHRINK_EVENTS_MAX", 0)
    of_mrc = next(seed for seed in count(1) if draw_universe(seed)["spec"]["transport"]["kind"] == "mrc")
    kept = keep_violation(judge_seed(of_mrc), tmp_path)
    assert kept.scenario.read_text().startswith("# events: no end after ")
    assert ending_of(kept) == "interrupted by the limit of 10 events"


def ending_of(violation: Violation) -> str:
    """Reason for which the run of the results ended."""
    folder = unpack_bundle(violation.bundle, Path("opened")).folder
    reason: str = json.loads((folder / "manifest.json").read_text())["reason"]
    return reason


@pytest.mark.parametrize("places", [[], ["--virtual", "--live"]])
def test_a_soak_takes_place_in_virtual_time_or_on_a_lab(
    places: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["campaign", "soak", *places]) == 2
    assert "give either --virtual or --live" in capsys.readouterr().err


def test_rounds_on_a_lab_come_one_after_another(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["campaign", "soak", "--live", "--jobs", "2"]) == 2
    assert "--jobs: labs of one machine would disturb each other" in capsys.readouterr().err


# ---- campaign shrink

FLAKY = document("""\
Scenario {name: flaky, description: of no use}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 2, port_rate: 100Mbit}
  workloads:
  - {name: main, kind: sendrecv, shift: 2, size: 64KiB, warmup: 0.02 s, duration: 200ms}
  - {name: side, kind: write-bw, from: [h0, h1], to: [h2, h3], size: 4 KiB, duration: 50ms}
  faults:
  - {id: down, kind: plane-down, at: 60ms, for: 90ms, select: {planes: 1}}
  - {id: loss, kind: loss, ratio: 10%, at: 10ms, until: cleared, select: {links: "h0:*"}}
  - {kind: clear, at: 20ms, faults: [loss]}
  expect:
  - goodput(main) during down >= 90% of goodput(main) before down
  - wrong_bytes == 0
""")


def test_a_scenario_is_shrunk_by_its_expectation(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flaky.yaml").write_text(FLAKY)
    assert run(["campaign", "shrink", "flaky.yaml", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    check_document("ShrunkScenario", found)
    assert found["before"] == {"faults": 3, "workloads": 2, "hosts": 4, "run_ns": 220_000_000}
    assert (found["after"]["faults"], found["after"]["workloads"], found["after"]["hosts"]) == (1, 1, 2)
    assert found["after"]["run_ns"] < 10_000_000
    small = Path("flaky-small.yaml")
    assert small.read_text().startswith("# goodput(main) during down >= 90%")
    spec = read_plan(small)["spec"]
    assert spec["expect"] == ["goodput(main) during down >= 90% of goodput(main) before down"]
    assert run(["run", str(small), "--virtual"]) == 4


def test_as_many_runs_as_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flaky.yaml").write_text(FLAKY)
    arguments = ["campaign", "shrink", "flaky.yaml", "--runs-max", "2", "--into", "small.yaml"]
    assert run([*arguments, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2
    assert run(["run", "small.yaml", "--virtual"]) == 4


def test_a_scenario_that_fails_by_an_invariant_alone_is_shrunk_by_that(
    slow_links_stay: None, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = "  - {id: slow, kind: slow-link, to: 50%, at: 1ms, for: 2ms, select: {links: h0:0}}\n  expect:"
    whole = "goodput(main) during down >= 90% of goodput(main) before down"
    Path("flaky.yaml").write_text(FLAKY.replace("  expect:", slow).replace(whole, "goodput(main) > 0bit"))
    assert run(["campaign", "shrink", "flaky.yaml", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fails"] == ["fault: port_table is not as it was"]
    assert [fault["id"] for fault in read_plan(Path("flaky-small.yaml"))["spec"]["faults"]] == ["slow"]


def test_a_scenario_that_does_not_fail_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("fine.yaml").write_text(FLAKY.replace("90% of", "10% of"))
    assert run(["campaign", "shrink", "fine.yaml"]) == 2
    said = capsys.readouterr().err
    assert "fine.yaml: it does not fail: all expectations hold" in said
    assert not Path("flaky-small.yaml").exists()


def test_a_folder_that_cannot_be_written_is_named(
    slow_links_stay: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("")
    arguments = ["campaign", "soak", "--virtual", "--seed", str(SLOW_LINK_SEED), "--universes", "1"]
    assert run([*arguments, "--into", "file/below"]) == 1
    assert "below/fault-42.yaml cannot be written: Not a directory" in capsys.readouterr().err
    Path("flaky.yaml").write_text(FLAKY)
    assert run(["campaign", "shrink", "flaky.yaml", "--into", "none/small.yaml"]) == 2
    assert "there is no folder none" in capsys.readouterr().err
