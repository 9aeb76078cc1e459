"""Unshaped fabric: verified 2 KiB packets per second between two cross-T1 hosts on four planes."""

from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from testbed.topology.spec import TopologySpec

REPETITIONS = 7
SECONDS = 1.0
WARM_UP_S = 0.3


def run() -> Iterator[Figure]:
    packets, goodput, wrong = [], [], 0
    with live_lab(TopologySpec()) as lab:
        for _ in range(REPETITIONS):
            with Transfer(lab, 0, 5) as transfer:
                transfer.start()
                pause(WARM_UP_S)
                packets_per_s, bytes_per_s = transfer.acked_rate(SECONDS)
                wrong += transfer.finish()
                packets.append(packets_per_s)
                goodput.append(bytes_per_s * 8 / 1e9)
    yield Figure("unshaped", "verified 2 KiB packets, h0 to h5", "packet/s", tuple(packets), ">= 1,000,000")
    yield Figure("unshaped", "goodput", "Gb/s", tuple(goodput))
    yield Figure("unshaped", "wrong bytes", "B", (wrong,), "0")
