"""The cost of the iCRC: packets per second between two cross-T1 hosts, off and on by turns in one lab.

The ratio is what counts: both halves of a pair meet the same load of the machine.
"""

from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec

PAIRS = 5
SECONDS = 1.0
WARM_UP_S = 0.3
WINDOW = 64


def run() -> Iterator[Figure]:
    with live_lab(TopologySpec()) as lab:
        pairs = [(_rate(lab, is_on=False), _rate(lab, is_on=True)) for _ in range(PAIRS)]
    off, on = (tuple(column) for column in zip(*pairs, strict=True))
    yield Figure("icrc", "off: verified 2 KiB packets, h0 to h5", "packet/s", off)
    yield Figure("icrc", "on: verified 2 KiB packets, h0 to h5", "packet/s", on)
    yield Figure("icrc", "on to off", "", tuple(with_it / without for without, with_it in pairs))


def _rate(lab: Lab, *, is_on: bool) -> float:
    lab.set_icrc(is_on=is_on)
    with Transfer(lab, 0, 5, window_packets=WINDOW) as transfer:
        transfer.start()
        pause(WARM_UP_S)
        packets_per_s, _ = transfer.acked_rate(SECONDS)
        if transfer.finish():
            raise AssertionError("wrong bytes")
    return packets_per_s
