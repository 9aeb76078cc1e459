"""Whatever ends `up` early, nothing stays: by roll-back if it can still act, by `down` if it cannot."""

import fcntl
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_leftovers import SMALL, observe_leftovers
from refused_program import objects_with_a_refused_one
from waiting import DEADLINE_S

from mrc_testbed.cli.app import run
from mrc_testbed.errors import CleanupError, FabricError, Interrupted, PreflightError
from mrc_testbed.fabric import data_plane, lab, lock
from mrc_testbed.fabric.build import BuildProgress
from mrc_testbed.fabric.known_labs import names, orphans
from mrc_testbed.fabric.paths import lab_folders, lab_paths
from mrc_testbed.fabric.process import find_marked, kill_processes
from mrc_testbed.fabric.state import Phase, read_state
from mrc_testbed.scenario.run.stage import lab_for_run

SHAPED = SMALL.model_copy(update={"port_rate": 100_000_000})
STEPS = (
    "a place for pinned maps",
    "switches and hosts",
    "links",
    "switch data plane",
    "NIC data planes",
    "ports",
    "queue drainer",
    "NIC agents",
    "a packet through every plane",
)

KILLED_UP = """
import os, signal, sys
from mrc_testbed.fabric import lab
from mrc_testbed.topology.spec import TopologySpec

def die(progress):
    if progress.what == sys.argv[2] and progress.done_count >= int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

spec = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1, port_rate=100_000_000)
lab.up(spec, name=sys.argv[1], runtime="netns", progress=die)
"""


KILLED_RESTART = """
import os, signal, sys
from mrc_testbed.fabric import lab, repair

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

repair._recorded = die
lab.restart(sys.argv[1], sys.argv[2:])
"""


@pytest.mark.parametrize("step", STEPS)
def test_ctrl_c_in_any_step_rolls_back(step: str, lab_name: str, state_dir: Path) -> None:
    def interrupt(progress: BuildProgress) -> None:
        if progress.what == step and progress.done_count:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="rolled back"):
        lab.up(SHAPED, name=lab_name, runtime="netns", progress=interrupt)
    assert observe_leftovers([lab_name], state_dir) == []


@pytest.mark.parametrize(
    "done_count", [0, pytest.param(1, marks=pytest.mark.slow("nine labs; each step is interrupted at 0 too"))]
)
@pytest.mark.parametrize("step", STEPS)
def test_down_removes_what_a_killed_up_left(
    step: str, done_count: int, lab_name: str, state_dir: Path
) -> None:
    command = [sys.executable, "-c", KILLED_UP, lab_name, step, str(done_count)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert lab_name in names()
    assert lab.down(lab_name) is True
    assert observe_leftovers([lab_name], state_dir) == []


def test_up_after_a_killed_up_starts_afresh(lab_name: str) -> None:
    command = [sys.executable, "-c", KILLED_UP, lab_name, "ports", "1"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    status = lab.status(lab_name)
    assert status.phase is Phase.BUILDING
    assert "it is building" in status.problems
    with pytest.raises(FabricError, match="is not up, but building"):
        lab.attach(lab_name)
    lab.up(SMALL, name=lab_name, runtime="netns")
    assert lab.status(lab_name).is_healthy
    lab.down(lab_name)


def test_a_run_rebuilds_a_half_built_lab_and_removes_it(lab_name: str, state_dir: Path) -> None:
    command = [sys.executable, "-c", KILLED_UP, lab_name, "ports", "1"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert any("is gone: `up` rebuilds it" in problem for problem in lab.status(lab_name).problems)
    with lab_for_run(SMALL, name=lab_name, runtime="netns") as live:
        assert lab.status(live.name).is_healthy
    assert observe_leftovers([lab_name], state_dir) == []


KILLED_RUN = """
import os, signal, sys
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.topology.spec import TopologySpec

with lab_for_run(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1), name=sys.argv[1], runtime="netns"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_a_run(lab_name: str) -> None:
    command = [sys.executable, "-c", KILLED_RUN, lab_name]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert any("the run that it was made for" in problem for problem in lab.status(lab_name).problems)


def test_a_run_takes_over_the_lab_of_a_killed_one_and_removes_it(lab_name: str, state_dir: Path) -> None:
    kill_a_run(lab_name)
    left = read_state(lab_paths(lab_name))
    with lab_for_run(SMALL, name=lab_name, runtime="netns") as live:
        assert left is not None
        assert live.state.processes == left.processes
        assert lab.status(lab_name).is_healthy
    assert observe_leftovers([lab_name], state_dir) == []


@pytest.mark.slow("two labs")
@pytest.mark.ci
def test_a_run_in_another_lab_removes_that_of_a_killed_one(
    lab_name: str, other_lab_name: str, state_dir: Path
) -> None:
    kill_a_run(lab_name)
    said: list[str] = []
    with lab_for_run(SHAPED, name=other_lab_name, runtime="netns", progress=said.append):
        assert lab_folders() == (other_lab_name,)
    assert f"removing lab {lab_name}, whose run is gone" in said
    assert observe_leftovers([lab_name, other_lab_name], state_dir) == []


def test_up_makes_the_lab_of_a_killed_run_the_users_own(lab_name: str) -> None:
    kill_a_run(lab_name)
    assert lab.up(SMALL, name=lab_name, runtime="netns").is_healthy
    with lab_for_run(SMALL, name=lab_name):
        assert orphans() == ()
    assert lab.status(lab_name).is_healthy
    lab.down(lab_name)


def test_down_all_goes_on_after_a_lab_that_cannot_be_removed_and_names_it(
    small_lab: str, other_lab_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.up(SMALL, name=other_lab_name, runtime="netns")
    first, second = sorted((small_lab, other_lab_name))
    with lab_paths(first).lock_file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run(["down", "--all"]) == 6
    out, err = capsys.readouterr()
    assert f"lab {second} is removed" in out
    assert "1 of 2 labs stay:" in err
    assert f"lab '{first}' is being changed by" in err
    assert lab_folders() == (first,)


def test_down_works_without_the_state_folder(small_lab: str, state_dir: Path) -> None:
    paths = lab_paths(small_lab)
    for file in (paths.state_file, paths.ledger_file):
        file.unlink()
    (problem,) = lab.status(small_lab).problems
    assert problem.startswith("it has no state, but there remain: processes ")
    with pytest.raises(FabricError, match="there are remains of an earlier lab"):
        lab.up(SMALL, name=small_lab, runtime="netns")
    assert small_lab in names()
    assert lab.down(small_lab) is True
    assert observe_leftovers([small_lab], state_dir) == []


def test_a_damaged_state_file_is_reported_and_down_works(small_lab: str, state_dir: Path) -> None:
    state_file = lab_paths(small_lab).state_file
    state_file.write_text(state_file.read_text()[:100])
    for attempt in (lambda: lab.attach(small_lab), lambda: lab.up(SMALL, name=small_lab)):
        with pytest.raises(FabricError, match=r"lab\.json cannot be read") as caught:
            attempt()
        assert caught.value.hint == f"remove the lab: mrc-testbed down -n {small_lab}"
    assert not lab.status(small_lab).is_healthy
    assert lab.down(small_lab) is True
    assert observe_leftovers([small_lab], state_dir) == []


def test_a_dead_agent_and_a_missing_node_are_reported(small_lab: str) -> None:
    with lab.attach(small_lab) as live:
        agent = next(process for process in live.state.processes if process.node == "h0")
    descriptor = os.pidfd_open(agent.pid)
    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    os.waitid(os.P_PIDFD, descriptor, os.WEXITED) if _is_child(agent.pid) else _await_exit(descriptor)
    os.close(descriptor)
    subprocess.run(["ip", "netns", "delete", f"mrc-{small_lab}-p1-t1-0"], check=True)
    problems = lab.status(small_lab).problems
    assert "node p1-t1-0 is gone" in problems
    assert f"the agent of h0 (pid {agent.pid}) is dead" in problems


@pytest.mark.parametrize("victim", ["h0", None], ids=["agent", "drainer"])
def test_restart_ends_what_a_killed_restart_has_started_and_not_recorded(
    lab_name: str, state_dir: Path, victim: str | None
) -> None:
    lab.up(SHAPED, name=lab_name, runtime="netns")
    state = read_state(lab_paths(lab_name))
    assert state is not None
    [old] = [process.identity for process in state.processes if process.node == victim]
    kill_processes([old])
    killed = subprocess.run([sys.executable, "-c", KILLED_RESTART, lab_name], check=False)
    assert killed.returncode == -signal.SIGKILL
    strays = set(find_marked(lab_name)) - {process.identity for process in state.processes}
    assert len(strays) == 1
    lab.restart(lab_name)
    state = read_state(lab_paths(lab_name))
    assert state is not None
    assert set(find_marked(lab_name)) == {process.identity for process in state.processes}
    assert lab.status(lab_name).is_healthy
    lab.down(lab_name)
    assert observe_leftovers([lab_name], state_dir) == []


def test_two_commands_do_not_race(lab_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_EXEC_NS", 100_000_000)  # the pid that is named here is nobody's
    lock_file = lab_paths(lab_name).lock_file
    lock_file.parent.mkdir()
    with lock_file.open("w") as held:
        held.write("up (pid 4711)")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        for attempt in (lambda: lab.up(SMALL, name=lab_name), lambda: lab.down(lab_name)):
            with pytest.raises(FabricError, match=r"is being changed by up \(pid 4711\)"):
                attempt()
    assert lab.down(lab_name) is True


@pytest.mark.slow("a lab of its own")
@pytest.mark.ci
def test_a_refusal_of_the_verifier_is_kept_in_a_file_and_rolled_back(
    lab_name: str, state_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = objects_with_a_refused_one(tmp_path, "nic/bpf/nic.bpf.c")
    monkeypatch.setattr(data_plane, "OBJECTS_DIR", objects)
    with pytest.raises(PreflightError) as caught:
        lab.up(SMALL, name=lab_name, runtime="netns")
    log = lab_paths(lab_name).verifier_log
    assert caught.value.message.endswith(f"the verifier's log is {log}")
    assert "\n" not in caught.value.message
    assert "invalid access to packet" in log.read_text()
    log.unlink()
    assert observe_leftovers([lab_name], state_dir) == []


def _is_child(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1] == str(os.getpid())


def _await_exit(descriptor: int) -> None:
    assert select.select([descriptor], [], [], DEADLINE_S)[0]


@pytest.fixture
def stuck_folder(small_lab: str) -> Iterator[Path]:
    """A folder of the lab that cannot be removed: something is mounted on it."""
    folder = lab_paths(small_lab).node_folder("h0") / "stuck"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "stuck", folder], check=True)
    yield folder
    if folder.is_mount():
        subprocess.run(["umount", folder], check=True)


def test_what_cannot_be_removed_is_named_and_the_rest_is_gone(
    small_lab: str, stuck_folder: Path, state_dir: Path
) -> None:
    with pytest.raises(CleanupError) as caught:
        lab.down(small_lab)
    assert caught.value.message.startswith(f"lab '{small_lab}' is not completely removed:\n- ")
    assert str(stuck_folder.name) in caught.value.message
    assert caught.value.hint == f"fix the cause, then: mrc-testbed down -n {small_lab}"
    left = observe_leftovers([small_lab], state_dir)
    assert [line.split()[0] for line in left] == ["claim", "mount", "file"]
    assert lab.status(small_lab).phase is Phase.REMOVING

    subprocess.run(["umount", stuck_folder], check=True)
    assert lab.down(small_lab) is True
    assert observe_leftovers([small_lab], state_dir) == []
