"""Fairness of 64 QPs on one NIC: the share of each over SECONDS, against the mean.

Unshaped, each with a fixed window, they compete for the CPU; on ports with a rate, under NSCC, for the NIC's
own ports. All go to hosts behind another T0.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_agents.nic.nic_maps import NicMaps
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.spec import TopologySpec

QPS = 64
WARM_UP_S = 1.0
REPETITIONS = 5
_FABRIC: dict[str, object] = {"nic": {"qps_max": 2 * QPS, "memory": "64MiB"}}
_LABS: tuple[tuple[str, dict[str, str], int | None, float], ...] = (
    ("unshaped, window 16", {}, 16, 3.0),
    ("100 Mbit/s ports, nscc", {"port_rate": "100Mbit"}, None, 20.0),
)


def run() -> Iterator[Figure]:
    for name, shape, window, seconds in _LABS:
        with live_lab(TopologySpec.model_validate(_FABRIC | shape, strict=False)) as lab:
            deviations, starved = _measure(lab, window, seconds)
        what = f"{QPS} QPs, {name}"
        yield Figure("fair_share", f"{what}: largest difference from the mean share", "%", deviations, "<= 5")
        yield Figure("fair_share", f"{what}: QPs below half the mean", "QPs", starved, "0")


def _measure(lab: Lab, window: int | None, seconds: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """For each repetition, the largest difference from the mean in percent, and starved QPs."""
    targets = [host for host in range(lab.clos.numbering.host_count) if host and lab.clos.distance(0, host)]
    with ExitStack() as opened:
        maps = opened.enter_context(closing(NicMaps(lab.paths.node_pins("h0"))))
        transfers = [
            opened.enter_context(Transfer(lab, 0, targets[i % len(targets)], window_packets=window))
            for i in range(QPS)
        ]
        for transfer in transfers:
            transfer.start()
        pause(WARM_UP_S)
        deviations, starved = [], []
        for _ in range(REPETITIONS):
            before = [maps.acknowledged_bytes(transfer.qpn) for transfer in transfers]
            pause(seconds)
            after = [maps.acknowledged_bytes(transfer.qpn) for transfer in transfers]
            shares = [end - start for start, end in zip(before, after, strict=True)]
            mean = sum(shares) / QPS
            deviations.append(100 * max(abs(share - mean) for share in shares) / mean)
            starved.append(float(sum(share < mean / 2 for share in shares)))
        for transfer in transfers:
            transfer.finish()
    return tuple(deviations), tuple(starved)
