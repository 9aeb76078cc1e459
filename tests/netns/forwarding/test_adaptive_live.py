"""Adaptive switches in a live lab: flows that collide by hash share the uplinks, and a cut uplink is left."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from raw_verbs import connect_pair

from agents.abi import PortCounter
from agents.nic.client import AgentClient
from testbed.fabric.live import Lab
from testbed.faults.interactive import LabFaults, parse_fault
from testbed.topology.path import find_ev
from testbed.transport.reliable_connection import choose_rc_congestion

pytestmark = pytest.mark.root

MESSAGE_BYTES = 128 * 2048
DEADLINE_NS = 60_000_000_000
CUT = "p0-t0-0:2~p0-t1-0:0"
DROPS = (PortCounter.DROP_QUEUE_FULL, PortCounter.DROP_CONTROL_FULL, PortCounter.DROP_POOL_EMPTY)


@dataclass
class Flow:
    """One message after another from a host of the first T0 to one of the second, over a QP of InfiniBand."""

    near: AgentClient
    far: AgentClient
    qpn: int
    local_offset: int
    remote_offset: int
    r_key: int

    def start(self, pattern: int) -> None:
        """Begins to send a message."""
        self.near.fill(self.local_offset, MESSAGE_BYTES, pattern)
        self.near.post_write(
            self.qpn,
            length=MESSAGE_BYTES,
            local_offset=self.local_offset,
            remote_offset=0,
            r_key=self.r_key,
        )

    def finish(self, pattern: int) -> None:
        """Waits for it, and compares every byte."""
        (completion,) = self.near.wait(self.qpn, DEADLINE_NS)
        assert completion["status"] == "success"
        assert self.far.verify(self.remote_offset, MESSAGE_BYTES, pattern) == 0


@contextmanager
def colliding_flows(live: Lab) -> Iterator[list[Flow]]:
    """Two flows from different hosts to different hosts that the hash would send over uplink 0."""
    clos = live.clos
    attributes: dict[str, Any] = choose_rc_congestion(clos, "infiniband").qp_attributes
    with ExitStack() as undo:
        flows = []
        for source, target in ((0, 2), (1, 3)):
            near = undo.enter_context(AgentClient(live.paths.agent_socket(f"h{source}")))
            far = undo.enter_context(AgentClient(live.paths.agent_socket(f"h{target}")))
            local, remote = near.register_memory(MESSAGE_BYTES), far.register_memory(MESSAGE_BYTES)
            undo.callback(near.deregister_memory, local["r_key"])
            undo.callback(far.deregister_memory, remote["r_key"])
            there = find_ev(clos, source, target, 0, uplink=0)
            back = find_ev(clos, target, source, 0, uplink=0)
            qpn = near.create_rc_qp(target, [there], **attributes)
            peer = far.create_rc_qp(source, [back], **attributes)
            undo.callback(near.destroy_qp, qpn)
            undo.callback(far.destroy_qp, peer)
            connect_pair(near, qpn, far, peer)
            near.subscribe()
            flows.append(Flow(near, far, qpn, local["offset"], remote["offset"], remote["r_key"]))
        yield flows


def sent_up(live: Lab) -> list[int]:
    """Frames that each uplink of the first T0 has sent."""
    uplinks = [live.clos.fabric_link(0, 0, uplink).lower.id for uplink in (0, 1)]
    return [live.port_counters.sum(port_id)[PortCounter.TX_PACKETS] for port_id in uplinks]


def drops(live: Lab) -> int:
    return sum(live.port_counters.sum(port.id)[drop] for port in live.clos.ports() for drop in DROPS)


def test_flows_that_collide_by_hash_share_the_uplinks(adaptive_lab: Lab) -> None:
    before, dropped = sent_up(adaptive_lab), drops(adaptive_lab)
    with colliding_flows(adaptive_lab) as flows:
        for pattern, flow in enumerate(flows):
            flow.start(pattern)
        for pattern, flow in enumerate(flows):
            flow.finish(pattern)
    first, second = (now - then for now, then in zip(sent_up(adaptive_lab), before, strict=True))
    assert first + second >= 2 * 128
    assert min(first, second) > 0.3 * (first + second)
    assert drops(adaptive_lab) == dropped


def test_an_uplink_that_is_cut_is_left(adaptive_lab: Lab) -> None:
    faults = LabFaults(adaptive_lab.name)
    try:
        faults.add(parse_fault("link-down", CUT, {"direction": "a-to-b", "until": "cleared"}, ()), seed=1)
        before = sent_up(adaptive_lab)
        with colliding_flows(adaptive_lab) as flows:
            for pattern, flow in enumerate(flows):
                flow.start(pattern + 2)
            for pattern, flow in enumerate(flows):
                flow.finish(pattern + 2)
        cut, other = (now - then for now, then in zip(sent_up(adaptive_lab), before, strict=True))
    finally:
        faults.clear_all()
        faults.close()
    assert cut == 0
    assert other >= 2 * 128
    lost = adaptive_lab.port_counters.sum(adaptive_lab.clos.fabric_link(0, 0, 0).lower.id)
    assert lost[PortCounter.DROP_LINK_DOWN] == 0
