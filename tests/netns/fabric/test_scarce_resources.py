"""Commands without room, descriptors or memory: one clear message, and nothing left of the lab."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from document_text import document
from lab_leftovers import observe_leftovers
from waiting import DEADLINE_S

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow("a lab without room for each way to run out of it"),
    pytest.mark.ci,
]

NAME = f"s{os.getpid()}"
PROGRAM = (sys.executable, "-m", "mrc_testbed.cli", "-n", NAME)
FABRIC = document("""\
Topology {name: scarce}
{planes: 1, t0: 2, t1: 1, hosts_per_t0: 1}
""")
SCENARIO = document("""\
Scenario {name: scarce}
  topology: {planes: 1, t0: 2, t1: 1, hosts_per_t0: 1}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 16KiB, iterations: 20}
  expect: [wrong_bytes == 0]
""")


@contextmanager
def small_disk(folder: Path, options: str) -> Iterator[Path]:
    """A file system of its own."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=700,{options}", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--recursive", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk for the state of labs; its lab is gone before it is."""
    (tmp_path / "lab.yaml").write_text(FABRIC)
    with small_disk(tmp_path / "s", "size=1m,nr_inodes=400") as folder:
        try:
            yield folder
        finally:
            subprocess.run(["mount", "-o", "remount,rw,size=8m,nr_inodes=800", str(folder)], check=True)
            (folder / "filler").unlink(missing_ok=True)
            assert said(folder, "down", status=0) is not None


def said(state: Path, *arguments: str, status: int | None, limits: tuple[str, ...] = ()) -> str:
    """The text of a command on stderr; its status is *status*, or for None any."""
    environment = os.environ | {
        "MRC_TESTBED_STATE_DIR": str(state),
        "DOCKER_HOST": f"unix://{state}/no-engine.sock",
        "XDG_STATE_HOME": str(state.parent / "bugs"),
    }
    command = [*limits, *PROGRAM, *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    if status is not None:
        assert done.returncode == status, done.stderr
        assert "bug of mrc-testbed" not in done.stderr
    return done.stderr


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(b"\0" * 4096)


def use_up_inodes(disk: Path) -> None:
    (disk / "taken").mkdir()
    taken = iter(range(10_000))
    with contextlib.suppress(OSError):
        for number in taken:
            (disk / "taken" / str(number)).touch()
    assert next(taken, None) is not None


def bring_up(disk: Path, status: int | None, limits: tuple[str, ...] = ()) -> str:
    topology = str(disk.parent / "lab.yaml")
    return said(disk, "up", "--runtime", "netns", "-t", topology, status=status, limits=limits)


@pytest.mark.parametrize("scarcity", ["space", "inodes", "read-only"])
def test_a_lab_without_room_for_its_state_is_not_half_built(disk: Path, scarcity: str) -> None:
    if scarcity == "space":
        fill(disk)
    elif scarcity == "inodes":
        use_up_inodes(disk)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    error = bring_up(disk, 3)
    assert str(disk) in error
    assert ("Read-only file system" if scarcity == "read-only" else "No space left on device") in error
    assert "make room there" in error
    assert not [each for each in observe_leftovers([NAME], disk) if "mount" not in each]


def test_a_lab_comes_down_on_a_disk_that_has_become_full(disk: Path) -> None:
    bring_up(disk, 0)
    fill(disk)
    said(disk, "status", status=0)
    said(disk, "down", status=0)
    assert not [each for each in observe_leftovers([NAME], disk) if "mount" not in each]


def test_a_run_whose_results_find_no_room_leaves_no_draft(disk: Path, tmp_path: Path) -> None:
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    with small_disk(tmp_path / "runs", "size=48k") as runs:
        error = said(
            disk, "run", str(tmp_path / "scenario.yaml"), "--runtime", "netns", "--runs", str(runs), status=1
        )
        assert "results cannot be written to" in error
        assert "No space left on device" in error
        assert not [path for path in runs.rglob("*") if "draft" in path.name]
    assert not [each for each in observe_leftovers([NAME], disk) if "mount" not in each]


def test_a_lab_without_descriptors_for_it_is_refused(disk: Path) -> None:
    error = bring_up(disk, 3, ("prlimit", "--nofile=32"))
    assert "open files: 32 allowed" in error
    assert "raise the limit" in error
    assert not [each for each in observe_leftovers([NAME], disk) if "mount" not in each]


@pytest.mark.parametrize("mebibytes", [48, 80, 112])
def test_a_lab_without_memory_for_it_is_not_half_built(disk: Path, mebibytes: int) -> None:
    # Of address space, which a process can be refused; where it fails, and whether, the libraries decide.
    bring_up(disk, None, ("prlimit", f"--as={mebibytes << 20}"))
    said(disk, "down", status=0)
    assert not [each for each in observe_leftovers([NAME], disk) if "mount" not in each]
