"""Damaged and random frames: the NIC writes what the reference says a packet may write, and nothing else.

`python -m benchmarks nic_fuzz` does the same a million times.
"""

from random import Random

from far_end import FarEnd
from fuzzed_qp import RECEIVED, REFUSALS, UNMET, FuzzedQp
from nic_bench import NicBench

from mrc_agents.abi import NicCounter

FRAME_COUNT = 8000


def test_parts_of_sends_are_written_to_the_mailbox_alone(nic: NicBench, distant: FarEnd) -> None:
    random = Random(17)
    before = nic.counters()
    qp = FuzzedQp(nic, distant, random, has_sends=True)
    for _ in range(FRAME_COUNT // 4):
        plane = random.randrange(4)
        frame = qp.good_frame(plane)
        qp.judge(qp.damaged(frame) if random.randrange(2) else frame, plane)
    qp.check_alive()
    grown = nic.grown(before).keys()
    assert grown >= {NicCounter.RX_PLACED_BYTES, NicCounter.DROP_BOUNDS}


def test_damaged_frames(nic: NicBench, distant: FarEnd) -> None:
    random = Random(4791)
    before = nic.counters()
    qp = FuzzedQp(nic, distant, random)
    for _ in range(FRAME_COUNT):
        plane = random.randrange(4)
        frame = qp.damaged(qp.good_frame(plane))
        qp.judge(frame, plane if random.randrange(20) else random.randrange(4))
    qp.check_alive()
    # the test is worth something only if it met every outcome that a frame can have
    grown = nic.grown(before).keys()
    assert grown >= RECEIVED | REFUSALS - UNMET
    assert grown >= {NicCounter.RX_PLACED_BYTES, NicCounter.RX_DUPLICATE, NicCounter.TX_NAK}
