"""Two QPs that are connected, as workloads and the proof of a new lab have them."""

import random
from collections.abc import Callable
from contextlib import ExitStack

from mrc_agents.nic.context import Context, QueuePair
from mrc_agents.nic.qp import PSN_BITS


def connect_qps(
    near: Context,
    far: Context,
    seed: int,
    create: Callable[[Context, int, random.Random, dict[str, int]], QueuePair],
) -> tuple[QueuePair, QueuePair]:
    """Two QPs that know each other's first PSN from the beginning.

    Args:
        near: NIC of the one that is returned first.
        far: NIC of the other one.
        create: makes the QP of a NIC: of the peer's index, random numbers, and attributes of first PSNs.
    """
    drawn, psns = random.Random(seed), random.Random(f"first PSNs {seed}")
    psn, back_psn = (psns.getrandbits(PSN_BITS) for _ in range(2))
    with ExitStack() as undone:
        there = {"first_psn": psn, "peer_first_psn": back_psn}
        sending = create(near, far.host_index, drawn, there)
        undone.callback(sending.close)
        back = {"first_psn": back_psn, "peer_first_psn": psn}
        receiving = create(far, near.host_index, drawn, back)
        undone.callback(receiving.close)
        far.verbs.connect_qp(receiving.qpn, sending.qpn)
        near.verbs.connect_qp(sending.qpn, receiving.qpn)
        undone.pop_all()
    return sending, receiving
