"""From a fault to the last data packet on the dead path: one T0-T1 link goes down under load.

The port's own record gives the time: BPF stamps each data packet that the dead link takes. The fault is one
store into shared memory for each end of the link, its rules being there already, stamped just before.

A NIC avoids a path that lost packets for up to two seconds, also in QPs made later. The fault therefore
waits until the QP has sent USED_PACKETS over the link; one that no data packet meets even so is not counted.
"""

from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from benchmarks.unshaped import LINKS
from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import DOWN_RULE, clear_rule, prepare_rule
from mrc_testbed.topology.path import uplink_of_ev
from mrc_testbed.topology.queue_spec import QueueSpec
from mrc_testbed.topology.spec import TopologySpec

REPETITIONS = 21
SOURCE, TARGET = 0, 5
PLANE, UPLINK = 0, 0
USED_PACKETS = 64
_TRIALS = 3
_SETTLE_S = 0.3
_WATCH_S = 0.1
_LOOK_S = 0.01
_USED_NS = 30_000_000_000


def run() -> Iterator[Figure]:
    for links in LINKS:
        with live_lab(TopologySpec(queue=QueueSpec(links=links))) as lab:
            last_us, lost = _measure(lab, REPETITIONS)
        what = f"unshaped, {links} links, window 64"
        yield Figure("failover", f"{what}: last packet on the dead path", "us", last_us, "<= 150")
        yield Figure("failover", f"{what}: packets lost", "packet", lost)
    spec = TopologySpec(port_rate=100_000_000)
    with live_lab(spec) as lab:
        rtt_us = _loaded_rtt_us(lab)
        last_us, lost = _measure(lab, REPETITIONS // 3)
    in_rtts = tuple(value / rtt_us for value in last_us)
    yield Figure("failover", "100 Mbit/s ports: last packet on the dead path", "RTT", in_rtts, "<= 2")
    yield Figure("failover", "100 Mbit/s ports: packets lost", "packet", lost)


def _loaded_rtt_us(lab: Lab) -> float:
    """Mean time from a packet's entry into the window to its ACK, by Little's law: window over packet rate.

    An EV's RTT leaves out what the packet waits in the NIC's own port.
    """
    with Transfer(lab, SOURCE, TARGET) as transfer:
        transfer.start()
        pause(_SETTLE_S)
        sent, since_ns = _sent(transfer), monotonic_ns()
        pause(_SETTLE_S)
        sent, took_ns = _sent(transfer) - sent, monotonic_ns() - since_ns
        transfer.finish()
    return lab.spec.nic.window_packets * took_ns / sent / 1000


def _sent(transfer: Transfer) -> int:
    return sum(int(ev["tx_packets"]) for ev in transfer.near.verbs.ev_list(transfer.qpn))


def _measure(lab: Lab, repetitions: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(us to the last lost data packet, data packets lost) of each repetition."""
    link = lab.clos.fabric_link(PLANE, 0, UPLINK)
    ports = (link.lower.id, link.upper.id)
    ends = [lab.port_table[port] for port in ports]
    last_us: list[float] = []
    lost: list[float] = []
    for _ in range(_TRIALS * repetitions):
        with Transfer(lab, SOURCE, TARGET) as transfer:
            transfer.start()
            pause(_SETTLE_S)
            _await_use(lab, transfer)
            for port in ports:
                prepare_rule(lab, port, 0, DOWN_RULE)
            applied_ns = monotonic_ns()
            for end in ends:
                end.is_faulted = 1
            pause(_WATCH_S)
            account, _ = (clear_rule(lab, port, 0) for port in ports)
            transfer.finish()
        if account.hit_data_frames:
            last_us.append(max(0, account.last_hit_ns - applied_ns) / 1000)
            lost.append(account.hit_data_frames)
        if len(lost) == repetitions:
            return tuple(last_us), tuple(lost)
    raise RuntimeError(f"only {len(lost)} of {_TRIALS * repetitions} faults met a data packet")


def _await_use(lab: Lab, transfer: Transfer) -> None:
    """Returns once the QP has sent USED_PACKETS more over the link that is to fail.

    Raises:
        RuntimeError: it sends none there.
    """
    wanted = _sent_over_link(lab, transfer) + USED_PACKETS
    deadline_ns = monotonic_ns() + _USED_NS
    while _sent_over_link(lab, transfer) < wanted:
        if monotonic_ns() > deadline_ns:
            raise RuntimeError("the link that is to fail is not used")
        pause(_LOOK_S)


def _sent_over_link(lab: Lab, transfer: Transfer) -> int:
    """Data packets of the QP on EVs of the link's path."""
    return sum(
        int(ev["tx_packets"])
        for ev in transfer.near.verbs.ev_list(transfer.qpn)
        if ev["plane"] == PLANE and uplink_of_ev(lab.clos, int(ev["entropy"]), SOURCE, TARGET) == UPLINK
    )
