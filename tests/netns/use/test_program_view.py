"""A program with RDMA has its host's name and files in /dev and /sys; the machine's stay as they are."""

import json
import os
from pathlib import Path

import pytest
from launching import Launch
from rdma_program import NOBODY, TESTBED, finish, start

from mrc_testbed.fabric.live import Lab

LOOK = """
import json, os, pty, socket, stat
from multiprocessing import shared_memory

device = "/dev/infiniband/uverbs0"
os.close(os.open(device, os.O_RDWR))
for name in ("null", "zero", "full", "random", "urandom"):
    os.close(os.open(f"/dev/{name}", os.O_RDONLY))
terminal = pty.openpty()[1]
assert os.path.samefile(os.ttyname(terminal), f"/proc/self/fd/{terminal}")
memory = shared_memory.SharedMemory(create=True, size=4096)
memory.unlink()
print(json.dumps({
    "device": stat.S_ISCHR(os.stat(device).st_mode) and os.access(device, os.R_OK | os.W_OK),
    "dev": sorted(os.listdir("/dev")),
    "modes": [oct(os.stat(path).st_mode) for path in ("/dev", "/dev/null", "/dev/infiniband", device)],
    "umask": os.umask(0),
    "name": socket.gethostname(),
    "address": socket.gethostbyname(socket.gethostname()),
    "shm": os.stat("/dev/shm").st_dev,
    "interfaces": sorted(os.listdir("/sys/class/net")),
    "mtu": open("/sys/class/net/management/mtu").read().strip(),
    "cgroup": sorted(os.listdir("/sys/fs/cgroup")),
}))
"""


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def own_mounts() -> list[str]:
    """The machine's mounts that a program must not change."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split()[1].startswith(("/dev", "/sys"))]


@pytest.mark.parametrize("user", [(), NOBODY])
def test_device_interfaces_name_and_the_rest(live: Lab, user: tuple[str, ...]) -> None:
    umask = os.umask(0o077)
    before = names("/dev"), own_mounts()
    status, said, complained = finish(start(live, "h1", *user, "python3", "-c", LOOK))
    os.umask(umask)
    assert status == 0, complained
    seen = json.loads(said)
    assert seen == {
        "device": True,
        "dev": sorted({*names("/dev"), "infiniband"}),
        "modes": ["0o40755", "0o20666", "0o40755", "0o20666"],
        "umask": 0o077,
        "name": "h1",
        "address": "10.77.0.2",
        "shm": Path("/dev", "shm").stat().st_dev,
        "interfaces": ["doorbell", "lo", "management", "plane0", "plane1"],
        "mtu": "1500",
        "cgroup": names("/sys/fs/cgroup"),
    }
    assert (names("/dev"), own_mounts()) == before


def test_entering_a_host_from_another_and_from_itself(live: Lab) -> None:
    for host in ("h1", "h2"):
        again = (TESTBED, "-n", live.name, "exec", host, "--rdma", "--")
        looked = finish(start(live, "h2", *again, "python3", "-c", LOOK))
        assert looked == finish(start(live, host, "python3", "-c", LOOK))


def test_ucx_sees_both_networks_of_a_host(live: Lab) -> None:
    status, said, complained = finish(start(live, "h1", "ucx_info", "-d"))
    assert status == 0, complained
    assert "Device: management" in said
    assert "Device: mrc0:1" in said


def test_ranks_see_the_same(launch: Launch) -> None:
    look = "hostname; ls /sys/class/net /dev/infiniband; echo $OMPI_MCA_pml"
    status, said, complained = launch("--hosts", "h1,h2", "--", "sh", "-c", look)
    assert status == 0, complained
    assert {"[0] h1", "[1] h2"} < set(said)
    for line in ("management", "uverbs0", "ucx"):
        assert {f"[0] {line}", f"[1] {line}"} < set(said)


def test_program_that_cannot_be_run(live: Lab) -> None:
    assert finish(start(live, "h1", "no-such-program")) == (
        127,
        "",
        "error: no-such-program: No such file or directory\n",
    )
