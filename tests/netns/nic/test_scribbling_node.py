"""A node that writes anything into its NIC's maps harms itself alone, and restarts when it is asked to."""

import random

import pytest
from nic_lab import BATCH, WritePair
from scribbling import scribble

from mrc_agents.nic.device import NicDevice
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.runtime import node_namespace

ROUNDS = 40
OTHERS = ("h1", "h3")


def run_whatever_is_there(live: Lab, chance: random.Random) -> None:
    """Provide transmit buffers to the NIC of h0, whatever its maps say now: frames may go to anybody."""
    with entered(node_namespace(live.name, "h0")):
        device = NicDevice(live.paths.node_pins("h0"))
        for index in range(device.qp_count):
            if chance.random() < 0.5:
                device.reliable_connections.add(index)
            device.request_tx(index, 16)
        device.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_others_get_their_bytes_and_the_node_can_be_restarted(doomed: Lab, seed: int) -> None:
    live, chance = doomed, random.Random(seed)
    pins = live.paths.node_pins("h0")
    with WritePair(live, ("h0", "h1")) as own, WritePair(live, OTHERS) as pair:
        own.post(BATCH)
        for _ in range(ROUNDS):
            assert scribble(pins, chance)
            run_whatever_is_there(live, chance)
            pair.write(BATCH)
            assert pair.wrong_bytes() == 0
        assert pair.source.list_qps()[0]["state"] == "RTS"
    lab.restart(live.name, ("h0",))
    assert lab.status(live.name).problems == ()
    for hosts in (("h0", "h2"), ("h3", "h0")):
        with WritePair(live, hosts) as pair:
            pair.write(BATCH)
            assert pair.wrong_bytes() == 0
