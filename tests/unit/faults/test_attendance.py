"""Messages about a lab whose faults are not attended."""

from pathlib import Path

import pytest

from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import ProcessIdentity, own_identity
from mrc_testbed.faults.attendance import attend
from mrc_testbed.faults.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path))
    lab_paths("lab").folder.mkdir()
    found = Ledger(lab_paths("lab").faults)
    found.create()
    return found


def test_the_lease_of_a_killed_command_that_injected_nothing_is_no_problem(ledger: Ledger) -> None:
    ledger.take_lease(ProcessIdentity(own_identity().pid, start_ticks=1))
    assert attend("lab") == []


def test_the_lease_of_a_live_run_wants_a_reaper(ledger: Ledger) -> None:
    ledger.take_lease(own_identity())
    [problem] = attend("lab")
    assert "the fault reaper is dead" in problem


def test_a_lab_that_has_had_no_fault_needs_no_reaper(tmp_path: Path) -> None:
    assert Ledger(tmp_path / "faults").leases() == []
