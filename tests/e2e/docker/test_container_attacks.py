"""A process that is root in a container, and what it can do to the machine: SECURITY.md has the list."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mrc_testbed.fabric import lab

pytestmark = [
    pytest.mark.root,
    pytest.mark.docker,
    pytest.mark.slow("a lab of containers; test_container_lab.py has the short one"),
    pytest.mark.ci,
]

CONTENT = "root:*:20228:0:99999:7:::\n"
PUT = {
    "symbolic link": "ln -s {target} {name}",
    "FIFO": "mkfifo {name}",
    "hard link": "touch other && ln other {name}",
    "folder": "mkdir -p {name}/a/b",
}
SOCKET_CALL = "import socket; socket.socket({family}, socket.SOCK_DGRAM)"
CONFIG_CALL = """
import ctypes, mmap, sys
from ctypes import c_uint32
from pathlib import Path
from mrc_agents.bpf.libbpf import open_pinned
from mrc_agents.bpf.maps import map_update
from mrc_agents.abi import NicConfig
from mrc_agents.errors import FabricError
pin = open_pinned(Path(sys.argv[1]) / "nic_config")
try:
    map_update(pin, c_uint32(0), NicConfig(host_index=0))
except FabricError as error:
    print(error)
try:
    mmap.mmap(pin, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
except OSError as error:
    print("mmap", error.strerror)
"""


def inside(lab_name: str, node: str, script: str) -> "subprocess.CompletedProcess[str]":
    """Runs a shell script in a container, as whoever broke into it would."""
    command = ["docker", "exec", f"mrc-{lab_name}-{node}", "sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def command(lab_name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs a command of ours on the lab."""
    program = str(Path(sys.executable).with_name("mrc-testbed"))
    environment = {**os.environ, "MRC_TESTBED_NAME": lab_name}
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of the machine that no container is meant to reach."""
    file = tmp_path / "shadow"
    file.write_text(CONTENT)
    return file


@pytest.mark.parametrize("name", ["agent.json", "agent.log", "agent.sock"])
@pytest.mark.parametrize("kind", PUT)
def test_what_a_node_puts_in_the_way_is_neither_followed_nor_lasting(
    shared_lab: str, secret: Path, kind: str, name: str
) -> None:
    with lab.attach(shared_lab) as live:
        folder = live.paths.node_folder("h1")
    put = PUT[kind].format(target=secret, name=name)
    done = inside(shared_lab, "h1", f"cd {folder} && rm -rf {name} && {put}")
    assert done.returncode == 0, done.stderr
    shown = [command(shared_lab, "logs", "h1")]
    lab.restart(shared_lab, ["h1"])
    shown.append(command(shared_lab, "logs"))
    assert "99999" not in "".join(done.stdout + done.stderr for done in shown)
    assert shown[-1].returncode == 0
    assert secret.read_text() == CONTENT
    assert lab.status(shared_lab).problems == ()
    with lab.attach(shared_lab) as live:
        assert live.agent("h1").hello()["host"] == "h1"
        live.prove_planes()


def test_agent_that_is_replaced_by_a_link_is_not_spoken_to(shared_lab: str, tmp_path: Path) -> None:
    with lab.attach(shared_lab) as live:
        folder = live.paths.node_folder("h1")
        put = f"mv agent.sock away && ln -s {tmp_path}/docker.sock agent.sock"
        inside(shared_lab, "h1", f"cd {folder} && {put}")
        refused = command(shared_lab, "ev", "list", "h1", "h0")
        assert refused.returncode == 1
        assert "agent.sock is a symbolic link, not a socket" in refused.stderr
    lab.restart(shared_lab, ["h1"])


def test_one_folder_is_all_that_a_node_writes(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        paths = live.paths
        for folder in (paths.agent_folder("h1"), paths.node_pins("h1")):
            for attempt in (f"touch {folder}/new", f"rm -f {folder}/*", f"chmod 777 {folder}"):
                refused = inside(shared_lab, "h1", attempt)
                assert refused.returncode != 0
                assert "Read-only file system" in refused.stderr
        full = inside(shared_lab, "h1", f"head -c 1G /dev/zero > {paths.node_folder('h1')}/much")
        assert "No space left on device" in full.stderr
        crowded = inside(shared_lab, "h1", f"cd {paths.node_folder('h1')} && mkdir $(seq 1000)")
        assert "No space left on device" in crowded.stderr
    lab.restart(shared_lab, ["h1"])
    assert lab.status(shared_lab).problems == ()


def test_set_uid_program_of_a_node_is_nobodys_way_to_root(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        program = live.paths.node_folder("h1") / "id"
        inside(shared_lab, "h1", f"cp /usr/bin/id {program} && chmod 4755 {program}")
        assert program.stat().st_mode & stat.S_ISUID
        for user in ("nobody", "root"):
            with pytest.raises(PermissionError):
                subprocess.run([program], user=user, group="nogroup", extra_groups=[], check=True)
        program.unlink()


def test_program_of_a_container_is_not_run_by_the_machines_root(shared_lab: str) -> None:
    program = "/usr/local/bin/ip"
    planted = f"printf '#!/bin/sh\\necho planted\\n' > {program} && chmod 755 {program}"
    assert inside(shared_lab, "h1", planted).returncode == 0
    assert inside(shared_lab, "h1", "ip").stdout == "planted\n"
    with lab.attach(shared_lab) as live:
        assert "plane0" in live.node("h1").cmd("ip link")
    assert "plane0" in command(shared_lab, "exec", "h1", "--", "ip", "link").stdout
    inside(shared_lab, "h1", f"rm {program}")


@pytest.mark.parametrize("family", [38, 40])
def test_sockets_beyond_the_network_namespace_are_refused(shared_lab: str, family: int) -> None:
    refused = docker_python(shared_lab, SOCKET_CALL.format(family=family))
    assert "PermissionError" in refused.stderr


def test_identity_of_a_nic_is_not_changed_from_inside(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        shown = docker_python(shared_lab, CONFIG_CALL, str(live.paths.node_pins("h1")))
        assert shown.stderr == ""
        assert shown.stdout.splitlines()[0] == "cannot write element 0: Operation not permitted"
        assert shown.stdout.splitlines()[1].startswith("mmap ")
        live.prove_planes()


def docker_python(lab_name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs Python in h1's container."""
    command = ["docker", "exec", f"mrc-{lab_name}-h1", "python3", "-c", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_terminal_is_not_spoken_to_by_a_log(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        log = live.paths.agent_log("h1")
    inside(shared_lab, "h1", f"printf 'red \\033[31m and a bell \\007\\n' >> {log}")
    shown = command(shared_lab, "logs", "h1").stdout
    assert "red \\x1b[31m and a bell" in shown
    assert not {"\x1b", "\a"} & set(shown)
