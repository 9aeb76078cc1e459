"""Labs beside other tools and in other namespaces, all of the test's own."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_leftovers import SMALL
from waiting import poll_until

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.file_systems import labs_with_pins, prepare_pins, remove_pins
from mrc_testbed.fabric.known_labs import orphans
from mrc_testbed.fabric.paths import LabPaths, lab_folders
from mrc_testbed.scenario.run.stage import remove_orphans

MRC_TESTBED = str(Path(sys.executable).with_name("mrc-testbed"))
BIND_AGAIN = ["mount", "--rbind", "/run/netns", "/run/netns"]
"""Command that the first `ip netns add` runs where /run/netns is an ordinary folder."""


class Machine:
    """Commands in a mount namespace whose /run is empty, as on a machine that has just been booted."""

    def __init__(self, pid: int) -> None:
        self._enter = ["nsenter", "--target", str(pid), "--mount"]

    def run(self, *command: str, status: int = 0) -> str:
        done = subprocess.run([*self._enter, *command], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def testbed(self, *words: str, status: int = 0) -> str:
        """The output of `mrc-testbed`."""
        return self.run(MRC_TESTBED, *words, status=status)


@contextmanager
def machine_of_its_own() -> Iterator[Machine]:
    """A mount namespace that lives as long as the block."""
    script = "mount -t tmpfs none /run && mkdir /run/netns && echo ready && read line"
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        assert holder.stdin
        assert holder.stdout.readline() == "ready\n"
        yield Machine(holder.pid)
        holder.stdin.write("\n")


@pytest.fixture
def topology_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    spec = SMALL.model_dump(mode="json", include={"planes", "t0", "t1", "hosts_per_t0"})
    document = {
        "apiVersion": "mrc-testbed/v1",
        "kind": "Topology",
        "metadata": {"name": "small"},
        "spec": spec,
    }
    path.write_text(json.dumps(document))
    return path


def names_of(machine: Machine) -> list[str]:
    return machine.run("ls", "/run/netns").split()


def test_a_namespace_that_somebody_adds_while_a_lab_is_up(lab_name: str, topology_file: Path) -> None:
    with machine_of_its_own() as machine:
        machine.testbed("up", "-n", lab_name, "-t", str(topology_file), "--runtime", "netns")
        machine.run("ip", "netns", "add", "foreign")
        machine.testbed("status")
        machine.testbed("down", "-n", lab_name)
        assert names_of(machine) == ["foreign"]
        machine.run("ip", "netns", "del", "foreign")


def test_names_that_another_mount_covers_are_removed(lab_name: str, topology_file: Path) -> None:
    with machine_of_its_own() as machine:
        machine.testbed("up", "-n", lab_name, "-t", str(topology_file), "--runtime", "netns")
        machine.run(*BIND_AGAIN)
        machine.testbed("status", "-n", lab_name)
        machine.run("ip", "netns", "add", "foreign")
        machine.testbed("down", "-n", lab_name)
        assert names_of(machine) == ["foreign"]
        machine.run("ip", "netns", "del", "foreign")


@pytest.mark.slow("two labs")
@pytest.mark.ci
def test_a_lab_with_namespaces_elsewhere_is_a_row_of_status(
    lab_name: str, other_lab_name: str, topology_file: Path
) -> None:
    up = ("up", "-t", str(topology_file), "--runtime", "netns", "-n")
    with machine_of_its_own() as machine:
        machine.testbed(*up, other_lab_name)
        machine.run("unshare", "--mount", MRC_TESTBED, *up, lab_name)
        found = json.loads(machine.testbed("status", "-o", "json", status=1))
        rows = {each["name"]: each for each in found["labs"]}
        assert rows[other_lab_name]["healthy"]
        assert any("another mount namespace" in problem for problem in rows[lab_name]["problems"])
        machine.testbed("down", "--all")


RUN = """
import sys, mrc_testbed.fabric.lab as lab
from mrc_testbed.fabric.process import owner_identity
from mrc_testbed.topology.spec import TopologySpec

spec = TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1)
lab.up(spec, name=sys.argv[1], runtime="netns", made_for=owner_identity())
print("up", flush=True)
sys.stdin.read()
"""


def test_a_run_in_another_pid_namespace_keeps_its_lab_until_it_dies(lab_name: str) -> None:
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [*unshare, sys.executable, "-c", RUN, lab_name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert run.stdout.readline() == "up\n"
        assert orphans() == ()
        with pytest.raises(FabricError, match="another PID or time namespace"):
            lab.status(lab_name)
        run.kill()
    poll_until(lambda: orphans() == (lab_name,))
    remove_orphans(lambda _: None)
    assert lab_folders() == ()


TIME_NAMESPACE = ("unshare", "--time", "--monotonic", "1000")
USER_NAMESPACE = ("unshare", "--map-root-user")


@pytest.mark.parametrize(
    ("namespace", "reason"),
    [(TIME_NAMESPACE, r"(999|1,000),\d\d\d ms off: this is a time"), (USER_NAMESPACE, "this user namespace")],
)
def test_a_lab_is_not_made_where_times_or_capabilities_are_others(
    namespace: tuple[str, ...], reason: str, lab_name: str
) -> None:
    command = [*namespace, MRC_TESTBED, "up", "-n", lab_name, "--runtime", "netns"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert re.search(reason, done.stderr)


def test_a_lab_that_is_up_is_not_used_where_times_are_others(small_lab: str) -> None:
    fault = ["fault", "add", "link-down", "--link", "h0:0", "--for", "1s"]
    for words in (["bench", "write-bw", "h0", "h1"], fault):
        command = [*TIME_NAMESPACE, MRC_TESTBED, *words, "-n", small_lab]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert "this is a time namespace" in done.stderr


def test_a_folder_that_iproute2_makes_in_our_bpf_file_system_is_no_lab(tmp_path: Path) -> None:
    paths = LabPaths(tmp_path, "mine")
    paths.folder.mkdir()
    prepare_pins(paths)
    theirs = paths.bpffs / "tc"
    try:
        (theirs / "globals").mkdir(parents=True)
        for name in ("ip", "xdp"):
            (paths.bpffs / name).symlink_to(theirs)
        assert labs_with_pins(paths.bpffs) == {"mine"}
        remove_pins(paths)  # our mount goes with the last lab, and what others made in it
        assert not paths.bpffs.is_mount()
    finally:
        if paths.bpffs.is_mount():
            subprocess.run(["umount", paths.bpffs], check=True)
