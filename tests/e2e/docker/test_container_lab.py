"""Runtime docker: the same fabric, its nodes containers without any capability."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from container_lab import SMALL, containers, docker, inspect, observe_leftovers
from kernel_srv6 import replace_switch_by_kernel_srv6, restore_switch

from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.known_labs import names
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import RuntimeName

pytestmark = [pytest.mark.root, pytest.mark.docker]

OWN_LAB = pytest.mark.slow("a lab of containers of its own")

KILLED_UP = """
import os, signal, sys
from mrc_testbed.fabric import lab
from mrc_testbed.topology.spec import TopologySpec

def die(progress):
    if progress.what == sys.argv[2] and progress.done_count == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)

lab.up(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1), name=sys.argv[1], runtime="docker", progress=die)
"""

BPF_CALL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
attributes = (ctypes.c_uint32 * 32)(*map(int, sys.argv[2:]))
print(libc.syscall(SYS_BPF, int(sys.argv[1]), attributes, 128), ctypes.get_errno())
"""


def test_a_lab_of_containers_carries_packets_through_every_plane(shared_lab: str) -> None:
    status = lab.status(shared_lab)
    assert (status.runtime, status.problems) == (RuntimeName.DOCKER, ())
    with lab.attach(shared_lab) as live:
        live.prove_planes()
        assert containers(shared_lab) == sorted(f"mrc-{shared_lab}-{node.name}" for node in live.clos.nodes())


def test_containers_have_no_capability_no_network_and_no_way_to_more(shared_lab: str) -> None:
    for container in containers(shared_lab):
        config = inspect(container)["HostConfig"]
        assert config["NetworkMode"] == "none"
        assert not config["Privileged"]
        status = docker("exec", container, "cat", "/proc/self/status")
        wanted = {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
        found = dict(line.split(":\t") for line in status.splitlines() if line.split(":")[0] in wanted)
        assert found == wanted


def test_agents_run_inside_their_containers(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        agents = {process.node or "of no node": process.pid for process in live.state.processes}
        assert sorted(agents) == ["h0", "h1"]
        for host, pid in agents.items():
            first = live.state.containers[host].pid
            for kind in ("pid", "mnt", "net"):
                namespace = Path(f"/proc/{pid}/ns/{kind}").readlink()
                assert namespace == Path(f"/proc/{first}/ns/{kind}").readlink()


@pytest.mark.parametrize(
    ("what", "command", "arguments"),
    [
        ("BPF_MAP_CREATE of an array", 0, (2, 4, 4, 1)),
        ("BPF_PROG_LOAD", 5, ()),
        ("BPF_OBJ_PIN", 6, ()),
        ("BPF_PROG_ATTACH", 8, ()),
        ("BPF_PROG_GET_FD_BY_ID", 13, (1,)),
        ("BPF_LINK_CREATE", 28, ()),
    ],
)
def test_a_container_makes_no_bpf_object(
    shared_lab: str, what: str, command: int, arguments: tuple[int, ...]
) -> None:
    call = ["python3", "-c", BPF_CALL, str(command), *map(str, arguments)]
    assert docker("exec", f"mrc-{shared_lab}-h0", *call) == "-1 1\n", what


def test_a_container_enters_no_user_namespace(shared_lab: str) -> None:
    call = "import ctypes as c; l = c.CDLL(None, use_errno=True); print(l.unshare(1 << 28), c.get_errno())"
    assert docker("exec", f"mrc-{shared_lab}-h0", "python3", "-c", call) == "-1 1\n"


def test_a_host_sees_its_own_pins_only(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        own, foreign = live.paths.node_pins("h0"), live.paths.node_pins("h1")
        shown = docker("exec", f"mrc-{shared_lab}-h0", "sh", "-c", f"ls {own} {foreign} 2>&1 || true")
        assert "nic_config" in shown
        assert f"'{foreign}': No such file or directory" in shown


def test_up_of_containers_that_are_up_changes_nothing(shared_lab: str) -> None:
    before = [inspect(container)["State"]["StartedAt"] for container in containers(shared_lab)]
    assert lab.up(SMALL, name=shared_lab).is_healthy
    assert [inspect(container)["State"]["StartedAt"] for container in containers(shared_lab)] == before


@OWN_LAB
@pytest.mark.parametrize(
    ("step", "done_count"),
    [
        ("switches and hosts", 0),
        ("switches and hosts", 3),
        ("links", 8),
        ("NIC agents", 0),
        ("NIC agents", 2),
    ],
)
def test_down_removes_what_a_killed_up_left(
    step: str, done_count: int, lab_name: str, state_dir: Path
) -> None:
    command = [sys.executable, "-c", KILLED_UP, lab_name, step, str(done_count)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert lab_name in names()
    assert lab.down(lab_name) is True
    assert observe_leftovers(lab_name, state_dir) == []


@OWN_LAB
@pytest.mark.ci
def test_down_finds_containers_without_the_state_folder(small_lab: str, state_dir: Path) -> None:
    for file in (lab_paths(small_lab).state_file, lab_paths(small_lab).ledger_file):
        file.unlink()
    assert small_lab in names()
    assert lab.down(small_lab) is True
    assert observe_leftovers(small_lab, state_dir) == []


@OWN_LAB
def test_a_container_removed_by_hand_is_reported_and_down_works(small_lab: str) -> None:
    docker("rm", "--force", f"mrc-{small_lab}-p0-t1-0", f"mrc-{small_lab}-h1")
    problems = lab.status(small_lab).problems
    assert {"node h1 is gone", "node p0-t1-0 is gone"} <= set(problems)
    assert any(problem.startswith("the agent of h1 (pid ") for problem in problems)
    assert lab.down(small_lab) is True


@OWN_LAB
def test_a_container_of_another_hand_in_the_way_fails_up_and_survives(lab_name: str, state_dir: Path) -> None:
    name = f"mrc-{lab_name}-h1"
    image = docker("images", "--format", "{{.Repository}}:{{.Tag}}", "mrc-testbed-node").split()[0]
    docker("create", "--name", name, image, "true")
    try:
        with pytest.raises(FabricError, match=f"container {name} cannot be started: .*already in use"):
            lab.up(SMALL, name=lab_name, runtime="docker")
        assert observe_leftovers(lab_name, state_dir) == []
        assert inspect(name)["State"]["Status"] == "created"
    finally:
        docker("rm", name)


def test_down_without_the_engine_changes_nothing_and_says_what_to_do(
    shared_lab: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as stopped:
        stopped.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
        with pytest.raises(PreflightError, match="no Docker Engine listens at") as caught:
            lab.down(shared_lab)
        assert caught.value.hint == "start it (systemctl start docker), or use --runtime netns"
    assert lab.status(shared_lab).is_healthy


@OWN_LAB
@pytest.mark.ci
def test_labs_of_both_runtimes_do_not_disturb_each_other(shared_lab: str, other_lab_name: str) -> None:
    lab.up(SMALL, name=other_lab_name, runtime="netns")
    lab.down(other_lab_name)
    with lab.attach(shared_lab) as live:
        live.prove_planes()


def test_a_switch_in_a_container_can_be_replaced_by_kernel_srv6(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        replace_switch_by_kernel_srv6(live, "p0-t0-0")
        live.prove_planes()
        restore_switch(live, "p0-t0-0")
        live.prove_planes()


def test_commands_run_in_the_network_of_the_container(shared_lab: str) -> None:
    with lab.attach(shared_lab) as live:
        assert live.node("h1").cmd("hostname").strip() == "h1"
        assert "02:4d:52" in live.node("h1").cmd("ip link show plane0")
