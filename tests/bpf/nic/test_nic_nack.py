"""Refusals of single packets: trimmed, beyond the window; and what the requester does about each."""

from collections.abc import Mapping

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from reference.frame import trim_frame
from reference.opcode import Opcode
from reference.packet import Nack
from reference.reliability_header import NackReason, Neth
from reference.traffic_class import Dscp
from reference.transport_header import Bth
from write_source import Sent, WriteSource
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import Command, CompletionStatus, EventKind, EvReason, EvState, NicCounter, QpState

RETRIED = (NackReason.NO_BITMAP, NackReason.NO_PACKET_BUFFER)


@pytest.fixture
def source(nic: NicBench, distant: FarEnd) -> WriteSource:
    source = WriteSource(nic, distant)
    source.post(2048 * 20)
    return source


# -- the responder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_last_hop", [False, True])
def test_trimmed_packet_is_refused_and_leaves_no_trace(target: WriteTarget, is_last_hop: bool) -> None:
    target.deliver(target.packet(0, b"before"), 0)
    before = bytes(target.nic.qp())
    plane, ev = 2, 2 << 28 | 1 << 16 | 7
    packet = target.packet(5, random_bytes(2048), va=100, timestamp=0x7654)
    frame = trim_frame(target.far.arriving_octets(packet, plane, ev), is_last_hop=is_last_hop)
    outcome = target.nic.receive(frame, plane)
    reason = NackReason.TRIMMED_LASTHOP if is_last_hop else NackReason.TRIMMED
    ids = {"source_qpn_low": target.far.qpn & 0xFFFF, "destination_qpn_low": target.far.peer_qpn & 0xFFFF}
    nack = Nack(Bth(Opcode.NACK, target.far.peer_qpn, 5), Neth(reason, 5, ev, 0x7654, **ids))
    target.far.check_leaves(outcome, nack, ev)
    assert outcome.counters == {NicCounter.RX_TRIMMED: 1, NicCounter.TX_NACK: 1}
    assert bytes(target.nic.qp()) == before
    target.check_memory()


@pytest.mark.parametrize("kept_bytes", [122, 138, 200])
def test_switch_may_keep_more_or_less_of_a_trimmed_packet(target: WriteTarget, kept_bytes: int) -> None:
    packet = target.packet(0, random_bytes(2048))
    frame = trim_frame(target.far.arriving_octets(packet, 0), is_last_hop=False, kept_bytes=kept_bytes)
    assert len(frame) == kept_bytes
    assert target.nic.receive(frame, 0).counters == {NicCounter.RX_TRIMMED: 1, NicCounter.TX_NACK: 1}


def test_trimmed_packet_for_nobody_is_dropped(target: WriteTarget) -> None:
    frame = trim_frame(target.frame(0, random_bytes(2048)), is_last_hop=False)
    target.nic.edit_qp(state=QpState.ERROR)
    target.refuse(frame, NicCounter.DROP_QP_STATE)


def test_psn_beyond_the_window_is_refused_but_not_each_of_a_burst(target: WriteTarget) -> None:
    outcomes = [target.arrive(target.packet(1024 + i, b"far")) for i in range(3)]
    assert [outcome.counters.get(NicCounter.DROP_OUT_OF_WINDOW) for outcome in outcomes] == [1, 1, 1]
    nack = packet_of(outcomes[0].frame, Nack)
    assert (nack.neth.reason, nack.neth.nack_psn) == (NackReason.PSN_OUT_OF_WINDOW, 1024)
    target.nic.edit_qp(nak_ns=(1 << 63) - 1)  # as if the last refusal had just been
    assert target.arrive(target.packet(1024, b"far")).counters[NicCounter.DROP_OUT_OF_WINDOW] == 1


def test_negotiated_range_bounds_the_window(target: WriteTarget) -> None:
    target.nic.edit_qp(mpr_dest_psns=128, tracked_psns=128)
    outcome = target.arrive(target.packet(128, b"far"))
    assert outcome.counters == {NicCounter.DROP_OUT_OF_WINDOW: 1, NicCounter.TX_NACK: 1}
    target.deliver(target.packet(127, b"last"), 127)


# -- the requester -------------------------------------------------------------------------------------------


def refuse(source: WriteSource, packet: Sent, reason: int) -> tuple[Mapping[NicCounter, int], Sent | None]:
    """Lets a NACK for *packet* come in; the counters that changed and what its frame turned into."""
    nack = source.far.nack(packet.psn, reason, packet.entropy)
    outcome, sent = source.receive(nack, packet.plane, packet.entropy)
    return outcome.counters, sent


@pytest.mark.parametrize(
    ("reason", "state"), [(NackReason.TRIMMED, EvState.SKIP), (NackReason.TRIMMED_LASTHOP, EvState.GOOD)]
)
def test_trimmed_packet_is_sent_again_at_once_on_another_ev(
    source: WriteSource, reason: NackReason, state: EvState
) -> None:
    packets = source.send()
    counters, again = refuse(source, packets[3], reason)
    assert again is not None
    assert (again.psn, again.dscp, again.write.payload) == (3, Dscp.TRIMMABLE_RETX, packets[3].write.payload)
    assert again.ev != packets[3].ev
    assert counters[NicCounter.RX_NACK] == counters[NicCounter.TX_RETRANSMIT_NACK] == 1
    qp = source.nic.qp(source.index)
    assert (qp.req.inflight, qp.req.lost_count, qp.head.retries) == (20, 0, 0)
    ev = qp.evs.ev[packets[3].ev]
    assert EvState(ev.state) == state
    if state == EvState.SKIP:
        assert (EvReason(ev.reason), ev.bad_count) == (EvReason.TRIM, 0)


@pytest.mark.parametrize("reason", RETRIED)
def test_want_of_resources_is_retried_up_to_the_limit(source: WriteSource, reason: NackReason) -> None:
    packet = source.send()[0]
    for _ in range(source.attributes.retry_limit):
        _, again = refuse(source, packet, reason)
        assert again is not None
        packet = again
    refuse(source, packet, reason)
    assert source.nic.qp(source.index).state == QpState.ERROR
    (event,) = source.nic.events(EventKind.QP_STATE)
    assert CompletionStatus(event.c) == CompletionStatus.RETRY_EXCEEDED


def test_want_of_resources_is_retried_for_as_long_as_a_program_says(source: WriteSource) -> None:
    assert source.nic.command(Command.LIMITS, source.index, 3600 * 10**6, 1000, 7, 1)
    packet = source.send()[0]
    for _ in range(source.attributes.retry_limit + 2):
        _, again = refuse(source, packet, NackReason.NO_BITMAP)
        assert again is not None
        packet = again
    qp = source.nic.qp(source.index)
    assert (qp.state, qp.head.stalled_ns) == (QpState.RTS, qp.head.progress_ns)


def test_progress_forgives_retries(source: WriteSource) -> None:
    packets = source.send()
    refuse(source, packets[0], NackReason.NO_BITMAP)
    assert source.nic.qp(source.index).head.retries == 1
    source.deliver(packets[1])
    assert source.nic.qp(source.index).head.retries == 0


@pytest.mark.parametrize("reason", [NackReason.UNEXPECTED_EVENT, 0x42])
def test_what_cannot_be_fixed_ends_the_qp(source: WriteSource, reason: int) -> None:
    packet = source.send()[0]
    _, again = refuse(source, packet, reason)
    assert again is None
    assert source.nic.qp(source.index).state == QpState.ERROR
    (event,) = source.nic.events(EventKind.QP_STATE)
    assert CompletionStatus(event.c) == CompletionStatus.REMOTE_OPERATION


# -- a message without a receive -----------------------------------------------------------------------------


RTO_NS = 2_000_000_000
RNR_TIMER_US = 10**9


@pytest.fixture
def impatient(nic: NicBench, timed: FarEnd) -> WriteSource:
    """A QP that sends again what found no receive, three times in a row, once the test ends the wait."""
    source = WriteSource(nic, timed)
    assert nic.command(Command.LIMITS, source.index, 0, RNR_TIMER_US, 3, 1)
    source.post(2048 * 20)
    return source


def test_what_found_no_receive_waits_for_the_rnr_timer_and_the_rest_goes_on(impatient: WriteSource) -> None:
    source, packets = impatient, impatient.send()
    for packet in packets[2:5]:
        assert refuse(source, packet, NackReason.NO_RESOURCE)[1] is None
    qp = source.nic.qp(source.index)
    assert (qp.req.held_count, qp.req.lost_count, qp.req.inflight) == (3, 0, 17)
    assert (qp.head.rnr_retries, qp.head.retries) == (1, 0)
    assert {EvState(ev.state) for ev in qp.evs.ev[: len(source.attributes.evs)]} == {EvState.GOOD}
    for packet in packets[:2] + packets[6:]:
        source.deliver(packet)
    source.hasten(rnr_until_ns=0, rto_ns=RTO_NS)
    again: list[Sent] = []
    while len(again) < 3:
        again += source.send()
        if len(again) < 3:
            source.nic.await_events()
    assert [packet.psn for packet in again] == [2, 3, 4]
    for packet in [packets[5], *again]:
        source.deliver(packet)
    qp = source.nic.qp(source.index)
    assert (qp.req.held_count, qp.req.lost_count, qp.req.inflight, qp.comp.una_psn) == (0, 0, 0, 20)


def test_rnr_retries_are_counted_by_themselves_and_end_the_qp(impatient: WriteSource) -> None:
    source = impatient
    packet = source.send()[0]
    for count in range(1, 4):
        assert refuse(source, packet, NackReason.NO_RESOURCE)[1] is None
        qp = source.nic.qp(source.index)
        assert (qp.head.rnr_retries, qp.head.retries, QpState(qp.state)) == (count, 0, QpState.RTS)
        source.hasten(rnr_until_ns=0, rto_ns=RTO_NS)
        while not (again := [each for each in source.send() if each.psn == packet.psn]):
            source.nic.await_events()
        (packet,) = again
    refuse(source, packet, NackReason.NO_RESOURCE)
    (event,) = source.nic.events(EventKind.QP_STATE)
    assert (event.b, CompletionStatus(event.c)) == (QpState.ERROR, CompletionStatus.RNR_RETRY_EXCEEDED)


def test_a_packet_that_waits_for_a_receive_may_arrive_after_all(impatient: WriteSource) -> None:
    """A copy of it was late, and its receive was posted meanwhile."""
    source, packets = impatient, impatient.send()
    refuse(source, packets[0], NackReason.NO_RESOURCE)
    for packet in packets:
        source.deliver(packet)
    qp = source.nic.qp(source.index)
    assert (qp.req.held_count, qp.req.inflight, qp.comp.una_psn) == (0, 0, 20)
