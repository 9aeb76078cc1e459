"""Another user of the machine can read, write or lock nothing of a lab (SECURITY.md)."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.known_labs import claim_lock
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

SHAPED = TopologySpec(planes=1, t0=2, t1=1, hosts_per_t0=1, port_rate=20_000_000)


@pytest.fixture
def used_lab(lab_name: str, state_dir: Path) -> Iterator[str]:
    """Name of a lab that has written all its kinds of files, in a state folder that everybody may enter."""
    state_dir.chmod(0o755)
    lab.up(SHAPED, name=lab_name, runtime="netns")
    lab.restart(lab_name, ["h1"])
    link = resolve_topology(SHAPED).fabric_link(0, 0, 0).name
    run(lab_name, "fault", "add", "link-down", "--link", link, "--for", "200ms")
    run(lab_name, "bench", "all-reduce", "-b", "4KiB", "-i", "2")
    yield lab_name
    lab.down(lab_name)


def run(lab_name: str, *arguments: str) -> None:
    """Runs a command of ours on the lab."""
    program = str(Path(sys.executable).with_name("mrc-testbed"))
    environment = {**os.environ, "MRC_TESTBED_NAME": lab_name}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def as_nobody(*command: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, user="nobody", group="nogroup", extra_groups=[], capture_output=True, text=True, check=False
    )


def take(lock: Path) -> None:
    with exclusive(lock, "up"):
        pass


def lab_files(folder: Path) -> list[Path]:
    """Every file and folder of a lab, links left aside."""
    return [path for path in (folder, *folder.rglob("*")) if not path.is_symlink()]


def test_nobody_reads_a_file_or_holds_a_lock_of_a_lab(used_lab: str, state_dir: Path) -> None:
    files = lab_files(state_dir / used_lab)
    names = {path.name for path in files}
    assert {"lab.json", "ledger.jsonl", "lock", "agent.json", "agent.sock", "agent.log"} <= names
    assert {"drainer.log", "events.jsonl", "reaper.log", "measured"} <= names
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (*files, state_dir / "bpffs.lock")}
    wrong = {
        str(path): oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)
    }
    assert wrong == {}
    assert as_nobody("ls", state_dir).returncode == 0
    assert as_nobody("ls", state_dir / used_lab).returncode != 0
    for path in lab_files(state_dir / used_lab):
        if path.is_file():
            assert "Permission denied" in as_nobody("cat", path).stderr
    locks = [*state_dir.rglob("lock"), state_dir / "bpffs.lock", claim_lock(used_lab)]
    assert {path.parent.name for path in locks} >= {used_lab, "faults"}
    for path in locks:
        assert "Permission denied" in as_nobody("flock", "--nonblock", path, "true").stderr


def test_no_lock_is_taken_where_others_can_write(state_dir: Path) -> None:
    folder = state_dir / "open"
    folder.mkdir()
    for mode, owner in ((0o777, os.geteuid()), (0o700, 65534)):
        folder.chmod(mode)
        os.chown(folder, owner, -1)
        with (
            pytest.raises(FabricError, match="can be written by others") as caught,
            exclusive(folder / "lock", "up"),
        ):
            pass
        assert caught.value.hint == "choose a state folder of your own: MRC_TESTBED_STATE_DIR"
        assert list(folder.iterdir()) == []
    folder.rmdir()


def test_lock_that_is_a_link_is_not_followed(state_dir: Path) -> None:
    target = state_dir / "target"
    target.write_text("as it was")
    folder = state_dir / "linked"
    folder.mkdir(0o700)
    (folder / "lock").symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        take(folder / "lock")
    assert target.read_text() == "as it was"
