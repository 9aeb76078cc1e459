"""Labs beside other tools that name network namespaces, in mount namespaces of the test's own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_leftovers import SMALL

pytestmark = pytest.mark.root

MRC_TESTBED = str(Path(sys.executable).with_name("mrc-testbed"))
BIND_AGAIN = ["mount", "--rbind", "/run/netns", "/run/netns"]
"""What the first `ip netns add` does where /run/netns is an ordinary folder."""


class Machine:
    """Commands in a mount namespace whose /run is empty, as on a machine that has just been booted."""

    def __init__(self, pid: int) -> None:
        self._enter = ["nsenter", "--target", str(pid), "--mount"]

    def run(self, *command: str, status: int = 0) -> str:
        """What a command prints."""
        done = subprocess.run([*self._enter, *command], capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    def testbed(self, *words: str, status: int = 0) -> str:
        """What `mrc-testbed` prints."""
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
