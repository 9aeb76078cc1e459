"""`campaign soak`: universes one after another, and what it keeps of those that fail."""

import json
import signal
from concurrent.futures import Executor, Future
from pathlib import Path

import pytest
from golden_documents import check_document

from mrc_testbed.bundle.bundle import unpack_bundle
from mrc_testbed.cli.app import run
from mrc_testbed.faults.map_target import MapTarget
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.judging import judge, judge_seed
from mrc_testbed.soak.soaking import soak
from mrc_testbed.soak.violation import keep_violation
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
    monkeypatch.setattr("mrc_testbed.soak.soaking.ProcessPoolExecutor", Inline)


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
    found = soak(iter(range(1, 100)), tmp_path, jobs=4, is_over=lambda: next(looks, True))
    assert found.universes == 4


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


def test_a_soak_of_a_lab_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["campaign", "soak"]) == 2
    assert "give --virtual" in capsys.readouterr().err
