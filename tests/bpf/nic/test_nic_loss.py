"""Packets that do not arrive: found out, sent again on another path, and the EV they were on set aside."""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest
from far_end import FarEnd
from nic_bench import NicBench
from program_bench import Verdict
from reference.ev_partition import ev_partition
from reference.packet import Acknowledge
from reference.reliability_header import PathAdvice, Seth
from reference.traffic_class import Dscp
from reference.transport_header import NakCode
from write_source import Sent, WriteSource

from mrc_agents.abi import CompletionStatus, EventKind, EvReason, EvState, NicCounter, QpState

WINDOW = 8
THRESHOLD = 16


@pytest.fixture
def source(nic: NicBench, distant: FarEnd) -> WriteSource:
    attributes = distant.attributes(window_packets=WINDOW, loss_threshold_acks=THRESHOLD)
    return WriteSource(nic, distant, attributes)


def deliver_all(source: WriteSource, is_lost: Callable[[Sent], bool]) -> None:
    """Carries packets and SACKs in order until nothing is under way but what was lost."""
    under_way = deque(source.send())
    while under_way:
        packet = under_way.popleft()
        if not is_lost(packet):
            following = source.deliver(packet)
            if following is not None:
                under_way.append(following)
        if not under_way:
            under_way.extend(source.send())


def first_copy_of(*psns: int) -> Callable[[Sent], bool]:
    """Loses the first transmission of each of *psns*."""
    return lambda packet: packet.psn in psns and not packet.write.bth.is_retransmission


def test_hole_is_retransmitted_once_more_acknowledgements_than_the_threshold_passed_it(
    source: WriteSource,
) -> None:
    source.post(2048 * 60)
    under_way = deque(source.send())
    lost = under_way[3]
    under_way = deque(packet for packet in under_way if packet.ev != lost.ev)
    before = ev_partition(source.nic.qp())[lost.plane]
    for _ in range(THRESHOLD):
        following = source.deliver(under_way.popleft())
        assert following is not None
        assert not following.write.bth.is_retransmission
        if following.ev != lost.ev:
            under_way.append(following)
    assert source.nic.events() == []

    again = source.deliver(under_way.popleft())
    assert again is not None
    assert (again.psn, again.write.bth.is_retransmission, again.dscp) == (3, True, Dscp.TRIMMABLE_RETX)
    assert again.ev != lost.ev
    same = [(each.payload, each.reth, each.meth, each.bth.opcode) for each in (lost.write, again.write)]
    assert same[0] == same[1]
    after = ev_partition(source.nic.qp())[lost.plane]
    (substitute,) = before.backup
    assert after.active == before.active - {lost.ev} | {substitute}
    assert (after.backup, after.bad) == (frozenset(), frozenset({lost.ev}))
    ev = source.nic.qp().evs.ev[lost.ev]
    assert (ev.state, ev.reason) == (EvState.ASSUMED_BAD, EvReason.LOSS)
    assert (ev.lost_packets, ev.bad_count) == (1, 1)
    (event,) = source.nic.events()
    assert (event.kind, event.a, event.b) == (EventKind.EV_STATE, lost.ev, EvState.GOOD)
    assert (event.c, event.d) == (EvState.ASSUMED_BAD, EvReason.LOSS)


def test_one_lost_packet_costs_one_retransmission(source: WriteSource) -> None:
    before = source.nic.counters()
    source.post(2048 * 60)
    deliver_all(source, first_copy_of(4))
    again = [packet.psn for packet in source.sent if packet.write.bth.is_retransmission]
    assert again == [4]
    grown = source.nic.grown(before)
    assert grown[NicCounter.TX_RETRANSMIT_SACK] == 1
    assert NicCounter.TX_RETRANSMIT_TIMEOUT not in grown
    assert source.nic.qp().req.work.completed_iterations == 0
    assert source.nic.qp().req.inflight == 0


def test_cumulative_acknowledgement_proves_a_loss_as_well(nic: NicBench, distant: FarEnd) -> None:
    """The SACK's own packet and bitmap do not pass the threshold, what cack_psn covers does."""
    source = WriteSource(nic, distant, distant.attributes(window_packets=8, loss_threshold_acks=6))
    source.post(2048 * 60)
    source.send()
    again = source.feed(Seth(cack_psn=6, entropy=0))
    assert again is not None
    assert (again.psn, again.write.bth.is_retransmission) == (7, True)


def test_lost_sack_is_no_lost_packet(source: WriteSource) -> None:
    source.post(2048 * 60)
    under_way = deque(source.send())
    silent = under_way[3]
    while under_way:
        packet = under_way.popleft()
        if packet is silent:
            source.reference.receive(packet.psn, 2096, entropy=0, timestamp=0)
            continue
        following = source.deliver(packet)
        if following is not None:
            under_way.append(following)
    under_way.extend(source.send())
    assert not any(packet.write.bth.is_retransmission for packet in source.sent)
    assert all(not part.bad for part in ev_partition(source.nic.qp()))


def test_plane_that_dies_is_left_and_the_others_share_its_load(source: WriteSource) -> None:
    source.post(2048 * 400)
    deliver_all(source, lambda packet: packet.plane == 2)
    parts = ev_partition(source.nic.qp())
    assert [len(part.bad) for part in parts] == [0, 0, 4, 0]
    tail = Counter(packet.plane for packet in source.sent[-90:])
    assert tail == {0: 30, 1: 30, 3: 30}
    assert source.reference.next_psn == 400


@pytest.mark.parametrize("min_active", [1, 3, 7, 12])
def test_losses_everywhere_leave_the_floor_of_active_evs(
    nic: NicBench, distant: FarEnd, min_active: int
) -> None:
    attributes = distant.attributes(
        window_packets=WINDOW, loss_threshold_acks=THRESHOLD, min_active=min_active
    )
    source = WriteSource(nic, distant, attributes)
    source.post(2048 * 500)
    turn = count()
    deliver_all(source, lambda _: next(turn) % 7 == 1)
    parts = ev_partition(nic.qp())
    assert nic.qp().evs.active_total == min_active
    assert sum(len(part.backup) for part in parts) == 0
    # what the window held at the end can only be found lost by its time-out
    assert source.reference.next_psn + len(source.reference.above) >= 500 - WINDOW


# -- SACKs that must not be believed -------------------------------------------------------------------------


@pytest.mark.parametrize("cack_psn", [8, 9, 1000, 2**23 - 1])
def test_sack_for_what_was_never_sent_is_stale(source: WriteSource, cack_psn: int) -> None:
    source.post(2048 * 60)
    source.send()
    check_no_effect(source, Seth(cack_psn=cack_psn, entropy=0), {NicCounter.DROP_STALE_SACK: 1})


@pytest.mark.parametrize(
    "seth",
    [
        *(Seth(2**24 - 1, 0, ack_psn_offset=offset) for offset in (9, 32767, -32768)),
        Seth(2**24 - 1, 0, sack_bitmap=2**64 - 256),
        *(Seth(2**24 - 1, 0, sack_bitmap=2**64 - 1, sack_offset=at) for at in (9, 1025, 32767, -64, -32768)),
        Seth(cack_psn=2**24 - 5, entropy=0),
        Seth(cack_psn=2**23, entropy=0),
    ],
)
def test_sack_that_speaks_of_nothing_under_way_changes_nothing(source: WriteSource, seth: Seth) -> None:
    source.post(2048 * 60)
    source.send()
    check_no_effect(source, seth, {NicCounter.RX_SACK: 1})


def check_no_effect(source: WriteSource, seth: Seth, counters: dict[NicCounter, int]) -> None:
    """The SACK is dropped, counted so, and leaves the QP as it was."""
    before = bytes(source.nic.qp())
    outcome, sent = source.try_feed(seth)
    assert (sent, outcome.verdict, outcome.counters) == (None, Verdict.DROP, counters)
    assert bytes(source.nic.qp()) == before
    assert source.nic.events() == []


def test_sack_received_twice_changes_nothing_the_second_time(source: WriteSource) -> None:
    source.post(2048 * 8)
    sent = source.send()
    source.deliver(sent[2])
    source.deliver(sent[0])
    again = Seth(cack_psn=0, entropy=0, ack_psn_offset=0, sack_bitmap=0b10)
    check_no_effect(source, again, {NicCounter.RX_SACK: 1})


def test_sack_of_another_host_than_the_peer(source: WriteSource) -> None:
    source.post(2048 * 4)
    source.send()
    stranger = replace(source.far, peer=5)
    before = bytes(source.nic.qp())
    sack = stranger.sack(Seth(cack_psn=3, entropy=0))
    outcome = source.nic.receive(stranger.arriving_octets(sack, 0), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_UNKNOWN_QP: 1})
    assert bytes(source.nic.qp()) == before


@pytest.mark.parametrize("state", [QpState.RESET, QpState.INIT, QpState.RTR, QpState.ERROR])
def test_sack_for_a_qp_that_does_not_send(source: WriteSource, state: QpState) -> None:
    source.post(2048 * 4)
    source.send()
    source.nic.edit_qp(state=state)
    check_no_effect(source, Seth(cack_psn=3, entropy=0), {NicCounter.DROP_STALE_SACK: 1})


def test_congestion_advice_is_booked_on_the_ev(source: WriteSource) -> None:
    source.post(2048 * 16)
    first, second, *_ = source.send()
    source.feed(Seth(0, source.attributes.evs[first.ev], advice=PathAdvice.SKIP_ONCE))
    source.feed(Seth(cack_psn=1, entropy=0, ack_psn_offset=0))
    evs = source.nic.qp().evs.ev
    assert (evs[first.ev].marks, evs[second.ev].marks) == (1, 0)


# -- the end of a QP -----------------------------------------------------------------------------------------


def test_refused_access_ends_the_qp(source: WriteSource) -> None:
    source.post(2048 * 60, work_id=3)
    sent = source.send()
    nak = source.far.arriving_octets(source.far.nak(NakCode.REMOTE_ACCESS_ERROR), 1)
    outcome = source.nic.receive(nak, 1)
    assert outcome.verdict is Verdict.DROP
    assert outcome.counters == {NicCounter.RX_NAK: 1, NicCounter.QP_ERRORS: 1}
    assert source.nic.qp().state == QpState.ERROR
    (event,) = source.nic.events()
    assert (event.kind, event.a) == (EventKind.QP_STATE, QpState.RTS)
    assert (event.b, event.c) == (QpState.ERROR, CompletionStatus.REMOTE_ACCESS)
    assert source.send() == []
    outcome, following = source.try_feed(Seth(cack_psn=sent[0].psn, entropy=0))
    assert (following, outcome.counters) == (None, {NicCounter.DROP_STALE_SACK: 1})
    assert source.nic.receive(nak, 1).counters == {NicCounter.DROP_STALE_ACK: 1}
    assert source.nic.events() == []


@pytest.mark.parametrize(
    ("psn", "msn"),
    [(-1, 0), (1, 0), (60, 0), (2, 1), (60, 1), (2**23, 0)],
    ids=["before the first", "acknowledged", "not sent", "another message's", "the next", "far"],
)
def test_a_nak_that_names_no_packet_under_way_is_stale(source: WriteSource, psn: int, msn: int) -> None:
    source.post(2048 * 60)
    packets = source.send()
    source.deliver(packets[1])
    check_stale(source, source.far.nak(NakCode.REMOTE_ACCESS_ERROR, psn, msn))
    assert source.nic.qp().state == QpState.RTS


def test_a_nak_does_not_end_a_qp_that_has_sent_nothing(source: WriteSource) -> None:
    for psn in (-1, 0, 1):
        check_stale(source, source.far.nak(NakCode.REMOTE_ACCESS_ERROR, psn))
    source.post(100)
    deliver_all(source, lambda _: False)
    assert [completed.status for completed in source.completions()] == [CompletionStatus.SUCCESS]


def check_stale(source: WriteSource, nak: Acknowledge) -> None:
    outcome = source.nic.receive(source.far.arriving_octets(nak, 1), 1)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_STALE_ACK: 1})


def test_refusal_by_another_host_than_the_peer(source: WriteSource) -> None:
    stranger = replace(source.far, peer=5)
    nak = stranger.arriving_octets(stranger.nak(NakCode.REMOTE_ACCESS_ERROR), 1)
    assert source.nic.receive(nak, 1).counters == {NicCounter.DROP_UNKNOWN_QP: 1}
    assert source.nic.qp().state == QpState.RTS
