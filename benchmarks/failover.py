"""From a fault to the last data packet on the dead path: one T0-T1 link goes down under load.

The port's own record gives the time: BPF stamps each data packet that the dead link takes. The fault is a
store into shared memory, stamped just before.
"""

import time
from collections.abc import Iterator

from agents.wire_abi import PortFault
from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from testbed.fabric.live import Lab
from testbed.topology.spec import TopologySpec

REPETITIONS = 21
_SETTLE_S = 0.3
_WATCH_S = 0.1
_RECOVERY_DEADLINE_S = 10.0


def run() -> Iterator[Figure]:
    with live_lab(TopologySpec()) as lab:
        last_us, lost = _measure(lab, REPETITIONS)
    yield Figure("failover", "unshaped, window 64: last packet on the dead path", "us", last_us, "<= 250")
    yield Figure("failover", "unshaped: packets lost", "packet", lost)
    spec = TopologySpec(port_rate=100_000_000)
    with live_lab(spec) as lab:
        rtt_us = _loaded_rtt_us(lab)
        last_us, lost = _measure(lab, REPETITIONS // 3)
    in_rtts = tuple(value / rtt_us for value in last_us)
    yield Figure("failover", "100 Mb/s ports: last packet on the dead path", "RTT", in_rtts, "<= 3")
    yield Figure("failover", "100 Mb/s ports: packets lost", "packet", lost)


def _loaded_rtt_us(lab: Lab) -> float:
    """Mean round-trip time at window 64, from the EVs' last samples."""
    with Transfer(lab, 0, 5) as transfer:
        transfer.start()
        pause(_SETTLE_S)
        samples = [ev["rtt_ns"] for ev in transfer.near.ev_list(transfer.qpn) if ev["rtt_ns"]]
        transfer.finish()
    return sum(samples) / len(samples) / 1000


def _measure(lab: Lab, repetitions: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(us to the last lost data packet, data packets lost) of each repetition."""
    link = lab.clos.fabric_link(0, 0, 0)
    ports = (link.lower.id, link.upper.id)
    last_us: list[float] = []
    lost: list[float] = []
    for _ in range(repetitions):
        with Transfer(lab, 0, 5) as transfer:
            transfer.start()
            pause(_SETTLE_S)
            for port in ports:
                state = lab.port_state[port]
                state.first_fault_drop_ns = state.last_fault_drop_ns = state.fault_data_drops = 0
            applied_ns = time.monotonic_ns()
            for port in ports:
                lab.port_table[port].fault_flags = PortFault.FAULT_DOWN
            pause(_WATCH_S)
            for port in ports:
                lab.port_table[port].fault_flags = 0
            state = lab.port_state[ports[0]]
            last_us.append(max(0, state.last_fault_drop_ns - applied_ns) / 1000)
            lost.append(state.fault_data_drops)
            transfer.finish()
    return tuple(last_us), tuple(lost)
