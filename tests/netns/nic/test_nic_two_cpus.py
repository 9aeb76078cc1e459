"""One QP whose packets and SACKs are handled by two CPUs at once, as those of several ports may be.

Each port of the two hosts polls in a kernel thread of its own, those of even planes on one CPU and those of
odd planes on another.
"""

import os
import subprocess
from pathlib import Path

import pytest
from nic_lab import BATCH, DISTANT, WritePair, set_loss
from waiting import poll_until

from mrc_agents.abi import NicCounter, NicCounters
from mrc_agents.bpf.libbpf import open_pinned
from mrc_agents.bpf.maps import PerCpuArray
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab

pytestmark = [pytest.mark.root, pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs")]

PACKETS = 500
"""So many on each CPU that they met often."""


def napi_threads() -> dict[int, int]:
    """Pid of each kernel thread that polls a NIC port, with the port's plane."""
    found = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            name = (process / "comm").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        if name.startswith("napi/plane"):
            found[int(process.name)] = int(name.removeprefix("napi/plane").partition("-")[0])
    return found


def poll_in_threads(live: Lab, host: str) -> None:
    """Start a kernel thread for each port of *host*; /sys of another namespace needs a mount of its own."""
    ports = " ".join(f"/sys/class/net/plane{plane}/threaded" for plane in range(live.spec.planes))
    script = f"mount -t sysfs sysfs /sys && for port in {ports}; do echo 1 > $port; done"
    inside = ["nsenter", f"--net={live.namespace(host)}", "unshare", "--mount", "sh", "-ec", script]
    subprocess.run(inside, check=True)


@pytest.fixture(scope="module")
def on_two_cpus(lab_name: str) -> None:
    """Both ends of the pair are polled on two CPUs, for as long as the module's lab lives."""
    before = napi_threads().keys()
    with lab.attach(lab_name) as live:
        for host in DISTANT:
            poll_in_threads(live, host)
        new = {pid: plane for pid, plane in napi_threads().items() if pid not in before}
        assert len(new) >= 2 * live.spec.planes
    for pid, plane in new.items():
        os.sched_setaffinity(pid, {plane % 2})


def counted_by_cpu(live: Lab, host: str, counter: NicCounter) -> list[int]:
    descriptor = open_pinned(live.paths.node_pins(host) / "nic_counters")
    try:
        return [values.value[counter] for values in PerCpuArray(descriptor, NicCounters).read(0)]
    finally:
        os.close(descriptor)


@pytest.mark.usefixtures("on_two_cpus")
@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_two_cpus_keep_one_qp_whole(live: Lab, loss: float) -> None:
    for port in live.clos.ports_of(live.clos.node(DISTANT[0])):
        set_loss(live, port.id, loss)
    ends = ((DISTANT[1], NicCounter.RX_DATA), (DISTANT[0], NicCounter.RX_SACK))
    before = [counted_by_cpu(live, *end) for end in ends]

    with WritePair(live, DISTANT, 50_000, window_packets=128) as pair:

        def has_used_both() -> bool:
            """Return True if, after more messages, both CPUs worked on the QPs of both ends."""
            pair.write(20 * BATCH)
            now = [counted_by_cpu(live, *end) for end in ends]
            grown = (
                [late - early for late, early in zip(*of, strict=True)]
                for of in zip(now, before, strict=True)
            )
            return all(sum(count > PACKETS for count in counts) >= 2 for counts in grown)

        # a CPU that others keep busy gets few packets at first: its planes answer late
        poll_until(has_used_both, what="work on both CPUs")
        assert pair.wrong_bytes() == 0
        (row,) = [row for row in pair.source.list_qps() if row["qpn"] == pair.qpn]
        assert (row["inflight"], row["lost_waiting"]) == (0, 0)
        assert row["una_psn"] == row["next_psn"]
