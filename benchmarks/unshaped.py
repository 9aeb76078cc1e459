"""Unshaped fabric: verified 2 KiB packets per second between two cross-T1 hosts on four planes.

Two kinds of link: veth, where a packet and its SACK cross eight interfaces, and direct, where they cross two.
Two windows: 128 packets keep the queues of the software switches long enough to be worked off in batches; 64
is the window that fail-over is measured at.
"""

from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.queue_spec import LinkMode, QueueSpec
from mrc_testbed.topology.spec import TopologySpec

REPETITIONS = 7
SECONDS = 1.0
WARM_UP_S = 0.3
WINDOWS = {128: ">= 1,000,000", 64: ""}
LINKS: tuple[LinkMode, ...] = ("veth", "direct")


def run() -> Iterator[Figure]:
    for links in LINKS:
        with live_lab(TopologySpec(queue=QueueSpec(links=links))) as lab:
            for window, target in WINDOWS.items():
                yield from _measure(lab, f"{links} links, window {window}: ", window, target)


def _measure(lab: Lab, what: str, window: int, target: str) -> Iterator[Figure]:
    packets, goodput, wrong = [], [], 0
    for _ in range(REPETITIONS):
        with Transfer(lab, 0, 5, window_packets=window) as transfer:
            transfer.start()
            pause(WARM_UP_S)
            packets_per_s, bytes_per_s = transfer.acked_rate(SECONDS)
            wrong += transfer.finish()
            packets.append(packets_per_s)
            goodput.append(bytes_per_s * 8 / 1e9)
    yield Figure("unshaped", what + "verified 2 KiB packets, h0 to h5", "packet/s", tuple(packets), target)
    yield Figure("unshaped", what + "goodput", "Gbit/s", tuple(goodput))
    yield Figure("unshaped", what + "wrong bytes", "B", (wrong,), "0")
