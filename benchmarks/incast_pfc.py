"""4:1 incast into a 100 Mbit/s port, without flow control, with PFC and credits: losses, shares, a victim.

Four hosts write to one across T1s, with fixed windows of 128 packets that no congestion control shrinks; a
fifth writes to another host at the same T0 (the victim), whose own port is free.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_agents.abi import PortCounter
from mrc_agents.nic.nic_maps import NicMaps
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.lossless import opened_lossless
from mrc_testbed.topology.spec import TopologySpec

SENDERS = 4
RECEIVER, VICTIM, VICTIM_RECEIVER = 5, 4, 6
WINDOW_PACKETS = 128
WARM_UP_S = 1.0
SECONDS = 5.0
REPETITIONS = 3
_FABRIC = {
    "planes": 1,
    "hosts_per_t0": 5,
    "port_rate": "100Mbit",
    "queue": {"trim": {"enabled": False}, "ecn": {"enabled": False}},
    "nic": {"memory": "64MiB"},
}
_DROPS = (PortCounter.DROP_QUEUE_FULL, PortCounter.DROP_CONTROL_FULL, PortCounter.DROP_POOL_EMPTY)
_NO_LOSS = {"none": "", "pfc": "0", "credits": "0"}


def run() -> Iterator[Figure]:
    for kind, target in _NO_LOSS.items():
        spec = TopologySpec.model_validate(_FABRIC | {"flow_control": kind}, strict=False)
        with live_lab(spec) as lab:
            yield from _measure(lab, kind, target)


def _measure(lab: Lab, kind: str, target: str) -> Iterator[Figure]:
    lost, spread, incast, victim = [], [], [], []
    stalled_before = _stalled_ns(lab)
    pairs = [(host, RECEIVER) for host in range(SENDERS)] + [(VICTIM, VICTIM_RECEIVER)]
    with ExitStack() as opened:
        transfers = [
            opened.enter_context(Transfer(lab, *pair, window_packets=WINDOW_PACKETS)) for pair in pairs
        ]
        maps = [opened.enter_context(closing(NicMaps(lab.paths.node_pins(f"h{pair[0]}")))) for pair in pairs]
        for transfer in transfers:
            transfer.start()
        pause(WARM_UP_S)
        for _ in range(REPETITIONS):
            dropped = _drops(lab)
            before = [each.acknowledged_bytes(t.qpn) for each, t in zip(maps, transfers, strict=True)]
            pause(SECONDS)
            after = [each.acknowledged_bytes(t.qpn) for each, t in zip(maps, transfers, strict=True)]
            *shares, victim_bytes = (end - start for start, end in zip(before, after, strict=True))
            mean = sum(shares) / SENDERS
            lost.append(float(_drops(lab) - dropped))
            spread.append(100 * max(abs(share - mean) for share in shares) / mean)
            incast.append(sum(shares) * 8 / SECONDS / 1e6)
            victim.append(victim_bytes * 8 / SECONDS / 1e6)
        wrong = sum(transfer.finish() for transfer in transfers)
    what = f"4:1, flow_control: {kind}:"
    yield Figure("incast_pfc", f"{what} frames lost in {SECONDS:g} s", "frames", tuple(lost), target)
    yield Figure("incast_pfc", f"{what} largest difference from the mean share", "%", tuple(spread))
    yield Figure("incast_pfc", f"{what} goodput of the incast", "Mbit/s", tuple(incast))
    yield Figure("incast_pfc", f"{what} goodput of the victim", "Mbit/s", tuple(victim))
    if kind != "none":
        stalled_s = (_stalled_ns(lab) - stalled_before) / 1e9
        yield Figure("incast_pfc", f"{what} time that data was held, all ports", "s", (stalled_s,))
    yield Figure("incast_pfc", f"{what} wrong bytes", "B", (float(wrong),), "0")


def _drops(lab: Lab) -> int:
    return sum(lab.port_counters.sum(port.id)[drop] for port in lab.clos.ports() for drop in _DROPS)


def _stalled_ns(lab: Lab) -> int:
    if lab.spec.flow_control == "none":
        return 0
    with opened_lossless(lab.clos, lab.paths.fabric_pins) as lossless:
        return sum(link.stalled_ns for link in lossless.links())
