"""Work in, data packets out: cut, numbered, spread over planes and EVs, clocked by SACKs, completed."""

from collections import Counter, deque
from dataclasses import replace

import pytest
from far_end import FarEnd
from nic_bench import NicBench
from program_bench import Verdict
from reference.opcode import Opcode
from reference.reliability_header import Seth
from reference.traffic_class import Dscp
from reference.transport_header import Reth
from write_source import REMOTE_KEY, Completed, WriteSource

from mrc_agents.abi import CompletionStatus, EventKind, Limit, NicCounter
from mrc_testbed.topology.ev_set import build_ev_set

FIRST, MIDDLE, LAST, ONLY = Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_ONLY


@pytest.mark.parametrize(
    ("length", "packets"),
    [
        (0, [(ONLY, 0)]),
        (1, [(ONLY, 1)]),
        (2047, [(ONLY, 2047)]),
        (2048, [(ONLY, 2048)]),
        (2049, [(FIRST, 2048), (LAST, 1)]),
        (4096, [(FIRST, 2048), (LAST, 2048)]),
        (9999, [(FIRST, 2048), (MIDDLE, 2048), (MIDDLE, 2048), (MIDDLE, 2048), (LAST, 1807)]),
    ],
)
def test_message_is_cut_into_packets(
    source: WriteSource, length: int, packets: list[tuple[Opcode, int]]
) -> None:
    local, remote = 1001, 3
    source.post(length, local=(local, 1), remote=(remote, 1))
    sent = source.send()
    assert [(packet.write.bth.opcode, len(packet.write.payload)) for packet in sent] == packets
    memory = bytes(source.nic.memory)
    for number, packet in enumerate(sent):
        start = number * 2048
        write = packet.write
        assert write.payload == memory[local + start : local + start + len(write.payload)]
        assert write.reth == Reth(remote + start, REMOTE_KEY, length)
        assert (write.bth.psn, write.meth.msn, write.meth.rqmsn) == (number, 0, 0)
        assert write.bth.destination_qpn == source.far.peer_qpn
        assert not write.bth.is_retransmission
        assert packet.dscp == Dscp.TRIMMABLE


def test_smaller_path_mtu_cuts_smaller(nic: NicBench, distant: FarEnd) -> None:
    source = WriteSource(nic, distant, distant.attributes(pmtu_bytes=256))
    source.post(1000)
    assert [len(packet.write.payload) for packet in source.send()] == [256, 256, 256, 232]


def test_packet_may_be_read_across_a_memory_segment(source: WriteSource) -> None:
    start = Limit.MEMORY_SEGMENT - 1000
    source.post(2048, local=(start, 1))
    (sent,) = source.send()
    assert sent.write.payload == bytes(source.nic.memory[start : start + 2048])


def test_iterations_walk_over_local_and_remote_slots(source: WriteSource) -> None:
    length = 3000
    source.post(length, iterations=7, depth=7, local=(100, 3), remote=(50, 2))
    sent = source.send()
    memory = bytes(source.nic.memory)
    for number, packet in enumerate(sent):
        iteration, part = divmod(number, 2)
        local = 100 + iteration % 3 * length + part * 2048
        write = packet.write
        assert write.payload == memory[local : local + len(write.payload)]
        assert write.reth.va == 50 + iteration % 2 * length + part * 2048
        assert write.meth.msn == iteration
    assert len(sent) == 14


def test_works_follow_one_another(source: WriteSource) -> None:
    source.post(5000, work_id=7)
    source.post(10, work_id=8, iterations=2)
    opcodes = [packet.write.bth.opcode for packet in source.send()]
    assert opcodes == [FIRST, MIDDLE, LAST, ONLY, ONLY]


def test_planes_carry_the_same_load_and_a_cycle_uses_every_active_ev_once(source: WriteSource) -> None:
    source.post(2048 * 60)
    sent = source.send()
    assert Counter(packet.plane for packet in sent) == dict.fromkeys(range(4), 15)
    active = set(active_evs(source))
    assert len(active) == 12
    for cycle in range(0, 60, 12):
        assert {packet.ev for packet in sent[cycle : cycle + 12]} == active


def active_evs(source: WriteSource) -> list[int]:
    """Indices of the QP's active EVs."""
    qp = source.nic.qp(source.index)
    return [
        qp.evs.order[plane * qp.evs.per_plane + position]
        for plane in range(qp.evs.plane_count)
        for position in range(qp.evs.planes[plane].active_count)
    ]


@pytest.mark.parametrize("cycle_evs", [16, 64, 256])
def test_every_ev_leads_through_the_fabric_as_the_topology_says(
    nic: NicBench, distant: FarEnd, neighbour: FarEnd, cycle_evs: int
) -> None:
    """The carrier of each packet is compared as it is taken apart; here all EVs get their turn."""
    for far in (distant, replace(neighbour, qpn=distant.qpn + 1)):
        evs = build_ev_set(far.clos, far.host, far.peer, cycle_evs)
        attributes = far.attributes(evs=evs, backup_per_plane=0, window_packets=cycle_evs)
        source = WriteSource(nic, far, attributes)
        source.post(64, iterations=cycle_evs, depth=cycle_evs)
        waiting = source.send()
        while waiting:
            following = source.deliver(waiting.pop(0))
            waiting += [following] if following is not None else []
        assert sorted(packet.ev for packet in source.sent) == list(range(cycle_evs))


def test_ports_without_carrier_are_not_used(source: WriteSource) -> None:
    source.nic.control.port_up_mask = 0b1010
    source.post(2048 * 20)
    assert Counter(packet.plane for packet in source.send()) == {1: 10, 3: 10}


def test_attempt_without_a_port_asks_for_no_further_frame(source: WriteSource) -> None:
    """Each frame would ask for the next, and the agent would do nothing else until a port is up."""
    source.nic.control.port_up_mask = 0
    source.post(100)
    assert source.nic.kick().counters == {NicCounter.DROP_NO_EV: 1}
    assert source.nic.events() == []


def test_work_posted_while_no_port_is_up_begins_once_one_is(nic: NicBench, timed: FarEnd) -> None:
    """No packet is in flight then, so no time-out would ever remind the QP of its work."""
    source = WriteSource(nic, timed, timed.attributes(rto_ns=1_000_000_000))
    nic.control.port_up_mask = 0
    source.post(100)
    outcome = nic.kick(source.index)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_NO_EV: 1})
    event = nic.await_events()[0]
    assert (event.kind, event.qp_index, event.a) == (EventKind.KICK, source.index, 64)
    nic.control.port_up_mask = 0b0100
    (packet,) = source.send()
    assert packet.plane == 2


def test_sack_may_come_through_any_plane(source: WriteSource) -> None:
    source.post(2048 * 4)
    for packet in source.send():
        source.deliver(packet, plane=(packet.plane + 1) % 4)
    assert [done.status for done in source.completions()] == [CompletionStatus.SUCCESS]


def test_depth_limits_outstanding_messages(source: WriteSource) -> None:
    source.post(2000, iterations=10, depth=3)
    first = source.send()
    assert len(first) == 3
    following = [source.deliver(packet) for packet in first]
    assert [packet.psn for packet in following if packet is not None] == [3, 4, 5]


def test_next_work_may_begin_although_the_one_before_fills_its_depth(source: WriteSource) -> None:
    source.post(100, work_id=1, iterations=2, depth=2)
    source.post(100, work_id=2, iterations=2, depth=1)
    assert len(source.send()) == 3


def test_psn_range_limits_how_far_ahead_of_a_hole_packets_run(nic: NicBench, distant: FarEnd) -> None:
    attributes = distant.attributes(
        window_packets=Limit.PSN_RING, loss_threshold_acks=1 << 20, reorder_packets=Limit.PSN_RING
    )
    source = WriteSource(nic, distant, attributes)
    source.post(64 * 1200, iterations=1, depth=1)
    nic.edit_qp(pmtu_bytes=64)
    sent = source.send(2000)
    assert len(sent) == Limit.PSN_RING
    for packet in sent[1:]:
        assert source.deliver(packet) is None
    following = source.deliver(sent[0])
    assert following is not None
    assert following.psn == Limit.PSN_RING


@pytest.mark.parametrize("length", [40, 256 * 50])
def test_places_of_acknowledged_packets_are_used_again(nic: NicBench, distant: FarEnd, length: int) -> None:
    """Whatever is left over in them from one cycle of the PSN range would be believed in the next."""
    source = WriteSource(nic, distant, distant.attributes(window_packets=16, pmtu_bytes=256))
    packet_count = Limit.PSN_RING + 200
    iterations = packet_count * 256 // length if length > 256 else packet_count
    source.post(length, iterations=iterations, depth=16)
    under_way = deque(source.send())
    while under_way:
        packet = under_way.popleft()
        before = nic.qp().comp.acked_total
        following = source.deliver(packet)
        assert nic.qp().comp.acked_total == before + 1
        under_way += [following] if following is not None else []
    assert source.completions() == [Completed(1, iterations, CompletionStatus.SUCCESS, length)]


def test_completions_come_in_posting_order_whatever_arrives_first(source: WriteSource) -> None:
    source.post(2048 * 2, work_id=70)
    source.post(10, work_id=71, iterations=3)
    source.post(0, work_id=72)
    sent = source.send()
    for packet in reversed(sent):
        assert source.completions() == []
        source.deliver(packet)
    assert source.completions() == [
        Completed(70, 1, CompletionStatus.SUCCESS, 4096),
        Completed(71, 3, CompletionStatus.SUCCESS, 10),
        Completed(72, 1, CompletionStatus.SUCCESS, 0),
    ]
    assert source.nic.qp().req.work.outstanding_messages == 0


def test_lost_sacks_are_made_up_for_by_the_last_one(source: WriteSource) -> None:
    source.post(2048 * 40)
    sent = source.send()
    for packet in sent[:-1]:
        source.reference.receive(packet.psn, 2096, entropy=0, timestamp=0)
    source.deliver(sent[-1])
    assert source.completions() == [Completed(1, 1, CompletionStatus.SUCCESS, 2048 * 40)]
    assert source.nic.qp().req.inflight == 0


def test_work_ring_may_be_filled_again_and_again(source: WriteSource) -> None:
    for cycle in range(5):
        for place in range(40):
            source.post(10, work_id=1000 * cycle + place)
        for packet in source.send():
            source.deliver(packet)
        assert [done.work_id - 1000 * cycle for done in source.completions()] == list(range(40))


def test_stopped_work_ends_after_the_messages_that_have_begun(source: WriteSource) -> None:
    source.post(2048 * 3, work_id=5, iterations=1000, depth=2)
    begun = source.send(4)
    source.nic.work[0].entries[0].stop = 1
    rest = source.send()
    assert [packet.write.bth.opcode for packet in begun + rest] == [FIRST, MIDDLE, LAST, FIRST, MIDDLE, LAST]
    for packet in begun + rest:
        assert source.deliver(packet) is None
    assert source.completions() == [Completed(5, 2, CompletionStatus.SUCCESS, 2048 * 3)]


def test_work_stopped_between_two_messages_sends_no_more(source: WriteSource) -> None:
    source.post(100, work_id=5, iterations=1000, depth=2)
    begun = source.send()
    source.nic.work[0].entries[0].stop = 1
    assert [source.deliver(packet) for packet in begun] == [None, None]
    assert source.completions() == [Completed(5, 2, CompletionStatus.SUCCESS, 100)]


def test_work_stopped_before_it_began_completes_empty(source: WriteSource) -> None:
    source.post(100, work_id=5, iterations=1000)
    source.nic.work[0].entries[0].stop = 1
    source.post(50, work_id=6)
    (packet,) = source.send()
    assert packet.write.reth.message_bytes == 50
    source.deliver(packet)
    assert source.completions() == [
        Completed(5, 0, CompletionStatus.SUCCESS, 100),
        Completed(6, 1, CompletionStatus.SUCCESS, 50),
    ]


def test_round_trip_is_sampled_once_per_first_transmission(source: WriteSource) -> None:
    before = [source.nic.rtt_samples(plane) for plane in range(4)]
    source.post(2048 * 8)
    for packet in source.send():
        source.deliver(packet)
    assert [source.nic.rtt_samples(plane) - count for plane, count in enumerate(before)] == [2] * 4


def test_idle_qp_takes_no_frame(source: WriteSource) -> None:
    outcome = source.nic.kick()
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {})
    outcome = source.nic.kick(99)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {})


@pytest.fixture
def forty_sent(nic: NicBench, distant: FarEnd) -> WriteSource:
    """A QP whose window of forty packets has been sent, and has arrived; much more waits."""
    source = WriteSource(nic, distant, distant.attributes(window_packets=40))
    source.post(2048 * 400)
    for packet in source.send():
        source.reference.receive(packet.psn, 2096, entropy=0, timestamp=0)
    return source


def let_credit_lie(nic: NicBench, rtt_ns: int) -> None:
    """The window's credit has been idle for a millisecond."""
    with nic.editing_qp() as qp:
        assert qp.req.idle_since_ns
        qp.req.idle_since_ns -= 10**6
        qp.comp.rtt_ns = rtt_ns


def test_credit_that_one_frame_cannot_spend_is_reported_once_when_it_has_lain_idle(
    nic: NicBench, forty_sent: WriteSource
) -> None:
    seth = Seth(cack_psn=39, entropy=forty_sent.attributes.evs[0])
    assert forty_sent.feed(seth) is not None
    assert nic.events() == []
    let_credit_lie(nic, rtt_ns=10**12)
    assert forty_sent.feed(seth) is not None
    assert nic.events() == []
    let_credit_lie(nic, rtt_ns=10**6)
    assert forty_sent.feed(seth) is not None
    (event,) = nic.events()
    assert (event.kind, event.qp_index, event.a) == (EventKind.KICK, 0, 37)
    assert forty_sent.feed(seth) is not None
    assert nic.events() == []
    assert len(forty_sent.send()) == 36
    assert nic.qp().req.idle_since_ns == 0


def test_credit_that_lay_idle_behind_a_full_psn_window_is_reported_as_the_window_opens(
    nic: NicBench, forty_sent: WriteSource
) -> None:
    """One SACK does that, and its packet may be the only one under way: the next is a round trip away."""
    nic.edit_qp(mpr_psns=40, is_mpr_dynamic=0)
    entropy = forty_sent.attributes.evs[0]
    all_but_the_first = Seth(
        cack_psn=0xFFFFFF, entropy=entropy, ack_psn_offset=2, sack_offset=2, sack_bitmap=(1 << 39) - 1
    )
    for _ in range(3):
        assert forty_sent.feed(all_but_the_first) is None
    assert nic.qp().req.inflight == 1
    assert nic.events() == []
    let_credit_lie(nic, rtt_ns=10**6)
    assert forty_sent.feed(Seth(cack_psn=39, entropy=entropy)) is not None
    (event,) = nic.events()
    assert (event.kind, event.a) == (EventKind.KICK, 39)


def test_acknowledged_packets_and_bytes_are_counted_once(source: WriteSource) -> None:
    source.post(3000)
    sent = source.send()
    before = source.nic.counters()
    for _ in range(3):
        for packet in sent:
            source.deliver(packet)
    grown = source.nic.grown(before)
    assert grown[NicCounter.ACKED_PACKETS] == 2
    assert grown[NicCounter.ACKED_BYTES] == 3000
    assert grown[NicCounter.MESSAGES] == 1
