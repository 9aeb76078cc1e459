"""Two live NICs, their agents and the fabric between them: immediates, QP states, ports that come and go."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from own_lab import lab_up
from raw_verbs import connect_pair
from waiting import DEADLINE_NS, poll_until

from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

NAME = f"verbs{os.getpid() % 10000}"
NEAR, FAR = 0, 1
WRAP = 0xFFFFF8


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    spec = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1)
    with lab_up(spec, NAME), labs.attach(NAME) as live:
        yield live


class Pair:
    """A connected QP on each of two NICs, and memory to write from and to."""

    def __init__(self, lab: Lab) -> None:
        self.near = AgentClient(lab.paths.agent_socket(f"h{NEAR}"))
        self.far = AgentClient(lab.paths.agent_socket(f"h{FAR}"))
        self.source = self.near.register_memory(1 << 18)
        self.target = self.far.register_memory(1 << 18)
        self.near.fill(self.source["offset"], 1 << 18, 1)
        evs = list(build_ev_set(lab.clos, NEAR, FAR, 32))
        self.qpn = self.near.create_qp(FAR, evs, first_psn=WRAP, peer_first_psn=5)
        self.peer_qpn = self.far.create_qp(NEAR, evs, first_psn=5, peer_first_psn=WRAP)

    def lost_packets(self, plane: int) -> int:
        return sum(ev["lost_packets"] for ev in self.near.ev_list(self.qpn) if ev["plane"] == plane)

    def connect(self) -> None:
        connect_pair(self.near, self.qpn, self.far, self.peer_qpn)

    def post(self, length: int, **work: int) -> int:
        """The id of a work request from the start of one memory to that of the other."""
        arguments = {"local_offset": self.source["offset"], "remote_offset": 0, "r_key": self.target["r_key"]}
        return self.near.post_write(self.qpn, length=length, **(arguments | work))

    def write(self, length: int, **work: int) -> None:
        """A message that completes."""
        self.post(length, **work)
        (completion,) = self.near.wait(self.qpn, DEADLINE_NS)
        assert completion["status"] == "success"

    def planes_used(self) -> Counter[int]:
        """Packets by plane of one message of 128 packets."""
        before = [ev["tx_packets"] for ev in self.near.ev_list(self.qpn)]
        self.write(1 << 18)
        used: Counter[int] = Counter()
        for ev, earlier in zip(self.near.ev_list(self.qpn), before, strict=True):
            used[ev["plane"]] += ev["tx_packets"] - earlier
        return +used


@pytest.fixture
def pair(lab: Lab) -> Iterator[Pair]:
    pair = Pair(lab)
    try:
        yield pair
    finally:
        pair.near.close()
        pair.far.close()


def test_immediates_arrive_in_order_with_their_data_across_the_wrap(pair: Pair) -> None:
    pair.connect()
    pair.far.post_receive(pair.peer_qpn, 5)
    for number in range(5):
        pair.write(30_000, immediate=0xA000 + number)
    arrivals = pair.far.poll_receive(pair.peer_qpn)
    assert [(row["number"], row["immediate"], row["length"]) for row in arrivals] == [
        (number + 1, 0xA000 + number, 30_000) for number in range(5)
    ]
    assert pair.far.verify(pair.target["offset"], 30_000, 1) == 0
    assert pair.near.list_qps()[0]["next_psn"] > 1 << 24


@pytest.mark.parametrize(
    ("state", "attributes", "message"),
    [
        ("RTS", {}, "RTS follows RTR"),
        ("INIT", {}, "INIT follows RESET"),
        ("RTR", {}, "peer_qpn: 0"),
        ("RTR", {"peer_qpn": 1024, "mpr": 3}, "mpr: not an attribute of the change to RTR"),
        ("RTR", {"peer_qpn": 1024, "mpr_dest": 9}, "mpr_dest: 9; 1 to 8 is accepted"),
        ("SQD", {}, "state: SQD"),
    ],
)
def test_wrong_change_of_state_is_refused(
    pair: Pair, state: str, attributes: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        pair.near.modify_qp(pair.qpn, state, **attributes)


def test_qp_walks_through_all_states_and_begins_again(pair: Pair) -> None:
    pair.far.modify_qp(pair.peer_qpn, "RTR", peer_qpn=pair.qpn, mpr_dest=2)
    pair.near.modify_qp(pair.qpn, "RTR", peer_qpn=pair.peer_qpn)
    with pytest.raises(UsageError, match="post_write needs RTS"):
        pair.write(10)
    pair.near.modify_qp(pair.qpn, "RTS", mpr=2, max_wimm=0)
    pair.write(1 << 18)
    with pytest.raises(UsageError, match="max_wimm: 0"):
        pair.write(10, immediate=1)
    pair.near.modify_qp(pair.qpn, "ERROR")
    pair.near.modify_qp(pair.qpn, "RESET")
    former, pair.qpn = pair.qpn, pair.near.modify_qp(pair.qpn, "INIT")
    assert pair.qpn != former
    with pytest.raises(UsageError, match=f"no QP {former}"):
        pair.near.query_qp(former)
    pair.far.modify_qp(pair.peer_qpn, "RESET")
    pair.peer_qpn = pair.far.modify_qp(pair.peer_qpn, "INIT")
    with pytest.raises(UsageError, match="peer_first_psn: needed"):
        pair.near.connect_qp(pair.qpn, pair.peer_qpn)
    pair.connect()
    pair.write(1 << 18)


def test_peer_that_loses_a_port_is_left_at_once_and_returned_to(lab: Lab, pair: Pair) -> None:
    pair.connect()
    poll_until(lambda: set(pair.planes_used()) == {0, 1})
    port = list(lab.clos.ports_of(lab.clos.node(f"h{FAR}")))[1]
    received = pair.near.counters()["rx_port_status"]
    lost = pair.lost_packets(plane=1)
    lab.node(f"h{FAR}").cmd("ip", "link", "set", port.interface, "down")
    try:
        poll_until(lambda: pair.near.counters()["rx_port_status"] > received)
        assert set(pair.planes_used()) == {0}
        assert pair.lost_packets(plane=1) == lost
    finally:
        lab.node(f"h{FAR}").cmd("ip", "link", "set", port.interface, "up")
    poll_until(lambda: set(pair.planes_used()) == {0, 1})


@pytest.mark.parametrize("sack_every", [4, 16])
def test_coalesced_sacks_carry_a_message_as_well(lab: Lab, sack_every: int) -> None:
    pair = Pair(lab)
    evs = list(build_ev_set(lab.clos, NEAR, FAR, 32))
    pair.qpn = pair.near.create_qp(FAR, evs, peer_sack_every=sack_every)
    pair.peer_qpn = pair.far.create_qp(NEAR, evs, sack_every=sack_every)
    pair.connect()
    before = pair.far.counters()
    pair.write(1 << 18, iterations=20, depth=4)
    after = pair.far.counters()
    answers = sum(after[name] - before[name] for name in ("tx_sack", "tx_ack"))
    assert answers < (after["rx_data"] - before["rx_data"]) / 2
    assert pair.far.verify(pair.target["offset"], 1 << 18, 1) == 0
    pair.near.close()
    pair.far.close()


def test_work_posted_without_waiting_is_carried_out_and_a_refusal_of_it_is_an_event(pair: Pair) -> None:
    pair.connect()
    pair.far.post_receive(pair.peer_qpn, 3)
    pair.far.subscribe("receive")
    pair.near.subscribe("qp_state")
    for immediate in (7, 8, 9):
        pair.near.cast(
            "post_write",
            qpn=pair.qpn,
            length=4096,
            local_offset=pair.source["offset"],
            remote_offset=0,
            r_key=pair.target["r_key"],
            immediate=immediate,
        )
    arrived = [pair.far.next_event(DEADLINE_NS) for _ in range(3)]
    assert [(event["event"], event["immediate"]) for event in arrived] == [
        ("receive", 7),
        ("receive", 8),
        ("receive", 9),
    ]
    pair.near.cast("post_write", qpn=pair.qpn, length=-1, local_offset=0, remote_offset=0, r_key=0)
    refused = pair.near.next_event(DEADLINE_NS)  # completions came before it, and were not asked for
    assert (refused["event"], refused["verb"]) == ("refused", "post_write")
    assert "length: -1" in refused["error"]


def test_an_event_that_does_not_exist_cannot_be_subscribed_to(pair: Pair) -> None:
    with pytest.raises(UsageError, match=r"no event 'recieve'; known: completion, ev_state, "):
        pair.far.subscribe("recieve")
