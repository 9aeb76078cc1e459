"""Unmodified Open MPI: mpirun on a host starts ranks on all hosts, and they exchange messages."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rdma_program import NOBODY, build, finish, start

from mrc_agents.abi import NicCounter
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.rdma import TRANSPORT_VARIABLE
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.topology.spec import TopologySpec

LAB_SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=4)
SOURCE = Path(__file__).with_name("mpi_ring.c")
HOSTS = ("h0", "h1", "h2", "h3")
FAULTS = {
    "link-flap": ("h0:0", {"every": "300ms", "down": "100ms"}),
    "plane-down": ("1", {}),
    "loss": ("*:*", {"ratio": "1%"}),
}
"""By kind: where, and its fields."""

long = (pytest.mark.slow("a few seconds each, many of them"), pytest.mark.ci)
PATHS = {
    "mrc0": {},
    "ob1 over TCP": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"},
    "UCX over TCP": {"UCX_TLS": "tcp,self"},
}
"""By a name, the variables that a user sets for messages to take that path; none: that of `exec --rdma`."""


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(SOURCE, tmp_path_factory.mktemp("mpi"), compiler="mpicc")


@pytest.fixture
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PATHS[request.param].items():
        monkeypatch.setenv(name, value)


def mpirun(live: Lab, host: str, *command: str | Path, hosts: tuple[str, ...] = HOSTS) -> list[str]:
    """Lines that a program with a rank on each host says, started from one of them."""
    run = start(live, host, "mpirun", "-n", str(len(hosts)), "--host", ",".join(hosts), *command)
    status, said, complained = finish(run)
    assert (status, "unable to reach" in complained) == (0, False), said + complained[-4000:]
    return said.splitlines()


def count(live: Lab, counter: NicCounter) -> int:
    """A counter of all NICs together."""
    return sum(live.agent(host.name).counters()[counter.name.lower()] for host in live.clos.hosts())


@pytest.mark.parametrize(
    "path", ["mrc0", *(pytest.param(each, marks=long) for each in PATHS if each != "mrc0")], indirect=True
)
def test_messages_of_all_sizes_arrive_and_sums_are_right(live: Lab, ring: Path, path: None) -> None:
    assert mpirun(live, "h0", ring) == ["4 ranks, 0 wrong"]


@pytest.mark.parametrize("path", [pytest.param(each, marks=long) for each in PATHS], indirect=True)
def test_mpi4py(live: Lab, path: None) -> None:
    bench = ("/usr/bin/python3", "-m", "mpi4py.bench", "ringtest", "-n", "65536", "-l", "4")
    assert "(4 processes, 65536 bytes)" in mpirun(live, "h3", *bench)[-1]


@pytest.mark.parametrize("transport", ["rocev2", "mrc"])
def test_transport_is_that_of_mpirun(live: Lab, transport: str) -> None:
    run = (
        "env",
        f"{TRANSPORT_VARIABLE}={transport}",
        "mpirun",
        "--host",
        "h2,h3",
        "sh",
        "-c",
        f"echo $(hostname) ${TRANSPORT_VARIABLE}",
    )
    status, said, complained = finish(start(live, "h2", *run))
    assert (status, sorted(said.splitlines())) == (0, [f"h2 {transport}", f"h3 {transport}"]), complained


@pytest.mark.parametrize("ranks", [2, pytest.param(8, marks=long)])
def test_messages_cross_the_fabric(live: Lab, ring: Path, ranks: int) -> None:
    before = count(live, NicCounter.RX_PLACED_BYTES)
    hosts = tuple(host.name for host in live.clos.hosts())[:ranks]
    assert mpirun(live, hosts[-1], ring, hosts=hosts) == [f"{ranks} ranks, 0 wrong"]
    assert count(live, NicCounter.RX_PLACED_BYTES) - before > ranks << 20


@pytest.mark.parametrize(
    "kind", ["link-flap", *(pytest.param(each, marks=long) for each in FAULTS if each != "link-flap")]
)
def test_results_are_right_under_faults(
    live: Lab, ring: Path, faults: Callable[[], LabFaults], kind: str
) -> None:
    where, fields = FAULTS[kind]
    injected = faults()
    injected.add(parse_fault(kind, where, {"id": "f1", "until": "cleared", **fields}, ()), seed=1)
    assert mpirun(live, "h0", ring, "10") == ["4 ranks, 0 wrong"]
    event = injected.clear("f1")
    assert kind == "plane-down" or sum(each.count for each in event.accounts) > 0


def test_ranks_are_on_the_hosts_that_are_named_with_their_nics(live: Lab) -> None:
    said = mpirun(live, "h1", "sh", "-c", "cat /sys/class/net/management/address; ibv_devices | tail -1")
    addresses = {line for line in said if ":" in line}
    guids = {line.split()[1] for line in said if "mrc0" in line}
    assert [len(addresses), len(guids), len(said)] == [4, 4, 8]


@pytest.mark.parametrize(
    ("user", "host", "complaint"),
    [
        ((), "p0-t0-0", "p0-t0-0 is a switch"),
        (NOBODY, "h1", "only root's mpirun can start daemons on other hosts"),
    ],
)
def test_daemon_that_cannot_be_started(live: Lab, user: tuple[str, ...], host: str, complaint: str) -> None:
    """The agent says why, in the place of ssh."""
    status, _, complained = finish(start(live, "h0", *user, "mpirun", "--host", f"h0,{host}", "true"))
    assert status != 0
    assert f"error: {host}: {complaint}" in complained
