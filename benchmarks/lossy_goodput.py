"""Goodput of 4 MiB messages with loss on every link, as a share of the goodput without.

Each link loses 0.1 % of all frames in each direction, SACKs among them: a packet crosses four links and its
SACK four more. What is sent again must be about what was lost: a requester that takes delay for loss would
show by many more.
"""

from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import set_rule
from mrc_testbed.faults.rule import FrameRule, as_abi
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.topology.spec import TopologySpec

PORT_RATE_BPS = 100_000_000
LOSS = 0.001
LINKS_CROSSED = 4
MESSAGE_BYTES = 1 << 22
NIC_MEMORY_BYTES = 1 << 26
DEPTH = 4
REPETITIONS = 5
WARM_UP_S = 1.0
SECONDS = 4.0
_RETRANSMISSIONS = ("tx_retransmit_sack", "tx_retransmit_timeout", "tx_retransmit_tail", "tx_retransmit_nack")


def run() -> Iterator[Figure]:
    nic = {"memory": NIC_MEMORY_BYTES}
    with live_lab(TopologySpec.model_validate({"port_rate": "100Mbit", "nic": nic}, strict=False)) as lab:
        clean = [_goodput(lab) for _ in range(REPETITIONS)]
        for port in lab.clos.ports():
            set_rule(lab, port.id, 0, as_abi(FrameRule(action="lose", ratio=LOSS), port.id + 1, Schedule(0)))
        lossy = [_goodput(lab) for _ in range(REPETITIONS)]
    best = sum(rate for rate, _, _ in clean) / REPETITIONS
    shares = tuple(100 * rate / best for rate, _, _ in lossy)
    again = tuple(sent_again / (LOSS * LINKS_CROSSED * sent) for _, sent, sent_again in lossy)
    yield Figure("lossy_goodput", "no loss: goodput", "Mbit/s", tuple(rate * 8 / 1e6 for rate, _, _ in clean))
    yield Figure("lossy_goodput", "no loss: sent again", "packet", tuple(float(n) for _, _, n in clean), "0")
    yield Figure("lossy_goodput", "0.1 % on every link: goodput, of that without", "%", shares, ">= 97")
    yield Figure(
        "lossy_goodput", "0.1 % on every link: sent again / lost on average", "ratio", again, "about 1"
    )


def _goodput(lab: Lab) -> tuple[float, int, int]:
    """(payload bytes acknowledged per second, data packets sent, of which retransmissions)."""
    with Transfer(lab, 0, 5, message_bytes=MESSAGE_BYTES, window_packets=None) as transfer:
        transfer.start(depth=DEPTH)
        pause(WARM_UP_S)
        before = transfer.near.verbs.counters()
        _, bytes_per_s = transfer.acked_rate(SECONDS)
        after = transfer.near.verbs.counters()
        if transfer.finish():
            raise RuntimeError("received memory is wrong")
    sent_again = sum(after[name] - before[name] for name in _RETRANSMISSIONS)
    return bytes_per_s, after["tx_data"] - before["tx_data"], sent_again
