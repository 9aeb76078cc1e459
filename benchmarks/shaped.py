"""Shaped fabric, 4 planes of 100 Mbit/s: capacity used, round-trip times loaded and idle, an idle lab's CPU.

Capacity is what four NIC ports can serialise: full frames of 2 190 bytes, of which the payload is 2 048. The
idle round trip is measured with one packet under way at a time and compared with theory: serialisation at
every hop.
"""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_testbed.fabric.live import Lab
from mrc_testbed.metrics.histogram import Histogram, merge
from mrc_testbed.metrics.reader import NicReader
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import IdleFabric, full_frame_bytes

RATE_BPS = 100_000_000
REPETITIONS = 5
SECONDS = 3.0
WARM_UP_S = 0.5
_IDLE_MESSAGE_BYTES = 2048
_QUANTILES = (0.5, 0.99, 0.999)


def run() -> Iterator[Figure]:
    with live_lab(TopologySpec(port_rate=RATE_BPS)) as lab:
        idle = tuple(_idle_share(SECONDS) for _ in range(REPETITIONS))
        yield Figure("shaped", "CPU idle while the lab is idle", "%", idle, ">= 95")
        yield from _loaded(lab)
        yield from _one_packet_at_a_time(lab)


def _loaded(lab: Lab) -> Iterator[Figure]:
    ratios, tails = [], []
    quantiles: list[tuple[float, ...]] = []
    wrong = 0
    for _ in range(REPETITIONS):
        with Transfer(lab, 0, 5) as transfer:
            transfer.start()
            pause(WARM_UP_S)
            before = _rtt(lab, "h0")
            _, bytes_per_s = transfer.acked_rate(SECONDS)
            rtt = _rtt(lab, "h0").since(before)
            wrong += transfer.finish()
        wire_bps = bytes_per_s * 8 * full_frame_bytes(lab.clos) / lab.spec.nic.path_mtu
        ratios.append(100 * wire_bps / (RATE_BPS * lab.spec.planes))
        found = rtt.percentiles_ns(_QUANTILES)
        if found is None:
            raise RuntimeError("no round-trip time was recorded")
        quantiles.append(found)
        tails.append(found[2] / found[0])
    yield Figure("shaped", "delivered, of the capacity of 4 x 100 Mbit/s", "%", tuple(ratios), ">= 99")
    for place, name in enumerate(("p50", "p99", "p99.9")):
        yield Figure("shaped", f"RTT {name}, window 64", "ms", tuple(row[place] / 1e6 for row in quantiles))
    yield Figure("shaped", "RTT p99.9 / p50", "ratio", tuple(tails), "<= 1.10")
    yield Figure("shaped", "wrong bytes", "B", (wrong,), "0")


def _one_packet_at_a_time(lab: Lab) -> Iterator[Figure]:
    theory_ns = IdleFabric(lab.clos).rtt_ns(0, 5)
    errors = []
    for _ in range(REPETITIONS):
        with Transfer(lab, 0, 5, message_bytes=_IDLE_MESSAGE_BYTES, window_packets=1) as transfer:
            before = _rtt(lab, "h0")
            transfer.start(depth=1)
            pause(SECONDS / 3)
            transfer.finish()
            found = _rtt(lab, "h0").since(before).percentiles_ns((0.5,))
        if found is None:
            raise RuntimeError("no round-trip time was recorded")
        errors.append(100 * (found[0] - theory_ns) / theory_ns)
    yield Figure(
        "shaped", f"idle RTT against theory ({theory_ns / 1000:.1f} us)", "%", tuple(errors), "within 5"
    )


def _rtt(lab: Lab, host: str) -> Histogram:
    reader = NicReader(lab.paths.node_pins(host), lab.spec.planes)
    try:
        return merge(reader.packet_rtt())
    finally:
        reader.close()


def _idle_share(seconds: float) -> float:
    """Share of the machine's CPU time that was idle over an interval, in percent."""
    before = _cpu_times()
    pause(seconds)
    spent = [after - earlier for after, earlier in zip(_cpu_times(), before, strict=True)]
    return 100 * (spent[3] + spent[4]) / sum(spent)


def _cpu_times() -> list[int]:
    """Ticks in user, nice, system, idle, iowait, irq, softirq, steal."""
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
