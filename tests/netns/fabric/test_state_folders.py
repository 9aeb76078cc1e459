"""A lab belongs to the state folder that made it: no other one takes it away, whatever state it is in."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_leftovers import SMALL, observe_leftovers

from mrc_testbed.cli.app import run
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.fabric import known_labs, lab
from mrc_testbed.fabric.build import BuildProgress
from mrc_testbed.fabric.known_labs import foreign_labs, names, orphans
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import find_marked, kill_processes
from mrc_testbed.scenario.run.stage import lab_for_run

STEP = "links"
"""While this is done there are nodes and no processes."""


@contextmanager
def state_folder(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_TESTBED_STATE_DIR", str(folder))
        yield


@pytest.fixture
def stranger() -> Iterator[Path]:
    """Another state folder; nothing is left in it."""
    with tempfile.TemporaryDirectory(prefix="mrc-") as folder:
        yield Path(folder)
        assert observe_leftovers([], Path(folder)) == []


def assert_stays(name: str, stranger: Path, owner: Path | None, capsys: pytest.CaptureFixture[str]) -> None:
    """No command in the folder of a stranger takes the lab; each says whose it is."""
    whose = (
        "belongs to no known state folder" if owner is None else f"belongs to another state folder, {owner}"
    )
    with state_folder(stranger):
        assert name not in names()
        assert {each.name: each.root for each in foreign_labs()}[name] == (str(owner) if owner else None)
        capsys.readouterr()
        assert run(["status"]) == 0
        assert f"lab {name} {whose}" in capsys.readouterr().out
        assert run(["down", "--all"]) == 0
        assert f"lab {name} stays: it {whose}" in capsys.readouterr().err
        for words in (["status"], ["down"], ["down", "--dry-run"], ["bench", "write-lat", "h0", "h1"]):
            assert run(["-n", name, *words]) == 2
            assert f"lab '{name}' {whose}" in capsys.readouterr().err
        with pytest.raises(UsageError, match=whose):
            lab.up(SMALL, name=name, runtime="netns")


def test_a_lab_stays_its_owners(
    small_lab: str, stranger: Path, state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_stays(small_lab, stranger, state_dir, capsys)
    kill_processes(find_marked(small_lab))
    assert_stays(small_lab, stranger, state_dir, capsys)
    assert lab.up(SMALL, name=small_lab).is_healthy
    known_labs.remove_claim(small_lab)  # version 0.3 writes none
    assert_stays(small_lab, stranger, None, capsys)
    assert lab.up(SMALL, name=small_lab).is_healthy
    assert_stays(small_lab, stranger, state_dir, capsys)
    with state_folder(stranger):
        assert run(["down", "--all", "--everywhere", "--dry-run"]) == 0  # labs of others are up, too
        assert f"lab {small_lab} would be removed" in capsys.readouterr().out
        assert run(["-n", small_lab, "down", "--everywhere"]) == 0
    assert observe_leftovers([small_lab], state_dir) == []


def test_a_lab_that_is_being_built_stays_its_owners(
    lab_name: str, stranger: Path, state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[BuildProgress] = []

    def attack(progress: BuildProgress) -> None:
        if progress.what == STEP and not seen:
            seen.append(progress)
            assert_stays(lab_name, stranger, state_dir, capsys)
            with state_folder(stranger), pytest.raises(FabricError, match=r"is being changed by up \(pid"):
                lab.down(lab_name, everywhere=True)

    assert lab.up(SMALL, name=lab_name, runtime="netns", progress=attack).is_healthy
    assert seen
    lab.down(lab_name)


KILLED_UP = f"""
import os, signal, sys
from mrc_testbed.fabric import lab
from mrc_testbed.topology.spec import TopologySpec

def die(progress):
    if progress.what == {STEP!r}:
        os.kill(os.getpid(), signal.SIGKILL)

lab.up(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1), name=sys.argv[1], runtime="netns", progress=die)
"""


def test_half_a_lab_stays_its_owners(
    lab_name: str, stranger: Path, state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run([sys.executable, "-c", KILLED_UP, lab_name], check=False)
    assert_stays(lab_name, stranger, state_dir, capsys)
    assert lab.up(SMALL, name=lab_name).is_healthy
    lab.down(lab_name)
    known_labs.claim_lock(lab_name).parent.mkdir(0o700)
    known_labs.write_claim(lab_name, known_labs.Claim.own())  # a `down` that is killed at its end leaves it
    assert lab_name not in names()
    lab.down(lab_name)


def test_a_lab_whose_state_folder_is_deleted_goes_only_with_everywhere(
    lab_name: str, stranger: Path, state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = state_dir / "s"
    with state_folder(folder):
        lab.up(SMALL, name=lab_name, runtime="netns")
        subprocess.run(["umount", folder / "bpffs"], check=True)
        shutil.rmtree(folder)
        assert run(["-n", lab_name, "down"]) == 2
        owner = f"belongs to another state folder, {folder}, which is deleted"
        assert owner in (said := capsys.readouterr().err)
        assert f"mrc-testbed down -n {lab_name} --everywhere" in said
        known_labs.remove_claim(lab_name)
        assert_stays(lab_name, stranger, None, capsys)
        assert run(["-n", lab_name, "down", "--everywhere"]) == 0
    assert observe_leftovers([lab_name], state_dir) == []
    assert not find_marked(lab_name, "*")
    folder.rmdir()


def test_a_folder_that_a_lab_has_left_behind_claims_nothing(
    lab_name: str, stranger: Path, state_dir: Path
) -> None:
    """The state of a lab outlives a restart of the machine on a disk; its name is then another folder's."""
    lab.up(SMALL, name=lab_name, runtime="netns")
    shutil.copytree(
        state_dir / lab_name, stranger / lab_name, symlinks=True, ignore=lambda *_: ["agent.sock"]
    )
    with state_folder(stranger):
        assert orphans() == ()
        with pytest.raises(UsageError, match="belongs to another state folder"):
            lab.attach(lab_name)
        with lab_for_run(SMALL, name=lab_name, runtime="netns") as live:
            assert live.name == f"run-{os.getpid()}"
    assert lab.status(lab_name).is_healthy
    lab.down(lab_name)
    with state_folder(stranger):
        lab.down(lab_name)
        assert run(["down", "--all"]) == 0


def test_a_lab_of_that_name_in_a_container_keeps_its_processes(small_lab: str) -> None:
    """Another mount and PID namespace has a /run and a state folder of its own, at the same paths."""
    script = f"""
mount -t tmpfs none /run && mount -t tmpfs -o mode=700 none "$MRC_TESTBED_STATE_DIR" || exit
{sys.executable} -m mrc_testbed.cli up -q -n {small_lab} --runtime netns >&2 || exit
echo up; read line
{sys.executable} -m mrc_testbed.cli status -q -n {small_lab} >&2; echo $?
{sys.executable} -m mrc_testbed.cli down -q -n {small_lab} >&2
"""
    container = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    with subprocess.Popen(container, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as inside:
        assert inside.stdin
        assert inside.stdout
        assert inside.stdout.readline() == "up\n"
        assert lab.status(small_lab).is_healthy
        lab.down(small_lab)
        inside.stdin.write("\n")
        inside.stdin.flush()
        assert inside.stdout.readline() == "0\n"
    assert not lab_paths(small_lab).folder.exists()
