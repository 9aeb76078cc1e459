"""CPU time to import and to create 640 veth pairs: mrc_testbed.fabric.netlink beside pyroute2's IPBatch.

Each sample is a process in a network namespace of its own. It decides docs/decisions/0008.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.figure import Figure

PAIRS = 640
SAMPLES = 5
MTU_BYTES = 3000
WAYS = ("netlink", "pyroute2")


def run() -> Iterator[Figure]:
    for way in WAYS:
        command = ["unshare", "--net", sys.executable, "-m", "benchmarks.rtnetlink", way]
        samples = [
            subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            for _ in range(SAMPLES)
        ]
        for name, times in zip(("import", f"{PAIRS} pairs"), zip(*samples, strict=True), strict=True):
            yield Figure("rtnetlink", f"{way}, {name}", "s", tuple(map(float, times)))


def by_netlink(namespace_fd: int) -> float:
    from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, create_veth, mac_bytes  # noqa: PLC0415 - timed

    imported_s = time.process_time()
    requests = []
    for pair in range(PAIRS):
        near, far = (VethEnd(namespace_fd, name, index, mac_bytes(mac)) for name, index, mac in _ends(pair))
        requests.append(create_veth(str(pair), near, far, MTU_BYTES))
    with RouteSocket() as route:
        route.perform(requests)
    return imported_s


def by_pyroute2(namespace_fd: int) -> float:
    from pyroute2 import IPBatch, IPRoute  # noqa: PLC0415 - timed

    imported_s = time.process_time()
    batch = IPBatch()
    for pair in range(PAIRS):
        near, far = (
            {
                "ifname": name,
                "index": index,
                "address": mac,
                "mtu": MTU_BYTES,
                "num_tx_queues": 1,
                "num_rx_queues": 1,
                "net_ns_fd": namespace_fd,
            }
            for name, index, mac in _ends(pair)
        )
        batch.link("add", kind="veth", peer=far, **near)
    with IPRoute() as route:
        route.sendto(batch.batch, (0, 0))
    return imported_s


def _ends(pair: int) -> Iterator[tuple[str, int, str]]:
    for side in (0, 1):
        yield (
            f"v{side}-{pair}",
            1000 + 2 * pair + side,
            f"02:00:00:{side:02x}:{pair >> 8:02x}:{pair & 255:02x}",
        )


def main(way: str) -> None:
    """Create the pairs and print the CPU time of import and of work."""
    namespace_fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    began_s = time.process_time()
    imported_s = (by_netlink if way == "netlink" else by_pyroute2)(namespace_fd)
    print(imported_s - began_s, time.process_time() - imported_s)
    created = subprocess.run(["ip", "-o", "link", "show", "type", "veth"], check=True, capture_output=True)
    assert len(created.stdout.splitlines()) == 2 * PAIRS


if __name__ == "__main__":
    main(sys.argv[1])
