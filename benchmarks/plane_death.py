"""The cost for a QP when a whole plane dies under load, every link of it at the same moment.

Sending stalls until the QP has found out, and goes on over the planes that are left. The cost is the time
that is lost: what those planes carry in WATCH_S, less what was acknowledged in it, in terms of their rate.
The longest pause is the longest time without anything acknowledged for the first time, as far as an
observer sees that looks every SAMPLE_US.
"""

import time
from collections.abc import Iterator
from contextlib import closing

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_agents.nic.nic_maps import NicMaps
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import DOWN_RULE, clear_rule, set_rule
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import base_rtt_ns, full_frame_bytes

PORT_RATE_BPS = 100_000_000
REPETITIONS = 7
DEAD_PLANE = 0
SETTLE_S = 0.5
WATCH_S = 0.08
SAMPLE_US = 100


def run() -> Iterator[Figure]:
    with live_lab(TopologySpec(port_rate=PORT_RATE_BPS)) as lab:
        rtt_ns = base_rtt_ns(lab.clos)
        costs = [_kill_plane(lab) for _ in range(REPETITIONS)]
    lost = tuple(lost_ns / rtt_ns for lost_ns, _ in costs)
    pauses = tuple(pause_ns / rtt_ns for _, pause_ns in costs)
    rtt = f"RTT of {rtt_ns / 1e3:.0f} us"
    yield Figure("plane_death", "one of four planes dies: time lost", rtt, lost, "<= 5")
    yield Figure("plane_death", "one of four planes dies: longest pause", rtt, pauses)


def _kill_plane(lab: Lab) -> tuple[float, float]:
    """(time lost, longest pause), ns."""
    planes = lab.spec.planes
    goodput = PORT_RATE_BPS / 8 * lab.spec.nic.path_mtu / full_frame_bytes(lab.clos)
    ports = [port.id for port in lab.clos.ports() if port.plane == DEAD_PLANE]
    with (
        Transfer(lab, 0, 5, window_packets=None) as transfer,
        closing(NicMaps(lab.paths.node_pins("h0"))) as maps,
    ):
        transfer.start()
        pause(SETTLE_S)
        for port in ports:
            set_rule(lab, port, 0, DOWN_RULE)
        start_ns = last_ns = time.monotonic_ns()
        first = acked = maps.acknowledged_bytes(transfer.qpn)
        longest_ns = 0
        while (now_ns := time.monotonic_ns()) < start_ns + WATCH_S * 1e9:
            seen = maps.acknowledged_bytes(transfer.qpn)
            if seen != acked:
                longest_ns = max(longest_ns, now_ns - last_ns)
                acked, last_ns = seen, now_ns
            pause(SAMPLE_US / 1e6)
        for port in ports:
            clear_rule(lab, port, 0)
        transfer.finish()
    left = goodput * (planes - 1)
    return (last_ns - start_ns) - (acked - first) / left * 1e9, longest_ns
