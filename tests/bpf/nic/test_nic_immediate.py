"""WRITE with immediate: its header, its number, the limit on both sides, and delivery in order."""

from random import Random

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from program_bench import Verdict
from reference.frame import decode_frame
from reference.opcode import Opcode
from reference.packet import Acknowledge, Nack, Sack, Write
from reference.reliability_header import NackReason
from reference.transport_header import AckKind, ImmDt, NakCode
from write_source import WriteSource
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import EventKind, NicCounter

ONLY, ONLY_IMMEDIATE, LAST_IMMEDIATE = (
    Opcode.WRITE_ONLY,
    Opcode.WRITE_ONLY_IMMEDIATE,
    Opcode.WRITE_LAST_IMMEDIATE,
)


def immediate_write(target: WriteTarget, psn: int, number: int, immediate: int) -> Write:
    """A whole message of ten bytes with an immediate."""
    options = {"rqmsn": number & 0xFFFF, "msn": psn, "immediate": ImmDt(immediate)}
    return target.packet(psn, random_bytes(10, psn), 20 * psn, opcode=ONLY_IMMEDIATE, **options)


def receives(nic: NicBench) -> list[tuple[int, int, int]]:
    """(number, immediate, bytes) of the deliveries that wait."""
    return [(event.a, event.b, event.d) for event in nic.events(EventKind.RECEIVE)]


def accept(target: WriteTarget, packet: Write) -> Sack | Acknowledge:
    """Lets it come in and checks where its bytes landed."""
    outcome = target.arrive(packet)
    assert outcome.verdict is Verdict.REDIRECT
    start = 4096 + packet.reth.va
    assert bytes(target.nic.memory[start : start + len(packet.payload)]) == packet.payload
    reply = decode_frame(outcome.frame).packet
    assert isinstance(reply, Sack | Acknowledge)
    return reply


def test_immediates_are_delivered_in_order_whatever_arrives_first(target: WriteTarget) -> None:
    target.nic.post_receives(20)
    order = list(range(20))
    Random(3).shuffle(order)
    delivered = []
    for psn in order:
        accept(target, immediate_write(target, psn, psn + 1, 0xABC000 + psn))
        delivered += receives(target.nic)
    assert delivered == [(psn + 1, 0xABC000 + psn, 10) for psn in range(20)]


def test_plain_messages_between_take_no_receive(target: WriteTarget) -> None:
    target.nic.post_receives(2)
    accept(target, immediate_write(target, 0, 1, 7))
    target.reference.next_psn = 1
    plain = target.packet(1, b"plain", 100, opcode=ONLY, message_bytes=5)
    assert target.arrive(plain).counters[NicCounter.TX_ACK] == 1
    accept(target, immediate_write(target, 2, 2, 8))
    assert [row[:2] for row in receives(target.nic)] == [(1, 7), (2, 8)]


def test_immediate_that_nobody_waits_for_is_refused_until_a_receive_is_posted(target: WriteTarget) -> None:
    frame = target.far.arriving_octets(immediate_write(target, 0, 1, 7), 0)
    outcome = target.nic.receive(frame, 0)
    nack = packet_of(outcome.frame, Nack)
    assert nack.neth.reason == NackReason.NO_RESOURCE
    assert outcome.counters == {NicCounter.DROP_NO_RECEIVE: 1, NicCounter.TX_NACK: 1}
    target.check_memory()
    target.nic.post_receives(1)
    accept(target, immediate_write(target, 0, 1, 7))
    assert receives(target.nic) == [(1, 7, 10)]


@pytest.mark.parametrize("number", [0, 5, 0x8000])
def test_more_than_the_responder_holds_back_ends_the_qp(target: WriteTarget, number: int) -> None:
    target.nic.edit_qp(max_wimm_dest=4)
    target.nic.post_receives(100)
    outcome = target.arrive(immediate_write(target, 9, number, 7))
    nak = packet_of(outcome.frame, Acknowledge)
    assert (nak.aeth.kind, nak.aeth.value) == (AckKind.NAK, NakCode.INVALID_REQUEST)
    accept(target, immediate_write(target, 9, 4, 7))


def test_number_wraps_at_16_bits(target: WriteTarget, nic: NicBench) -> None:
    nic.edit_qp(completed_wimm=0xFFFE, delivered_wimm=0xFFFE)
    nic.post_receives(0x10010)
    for psn in range(4):
        accept(target, immediate_write(target, psn, 0xFFFF + psn, psn))
    assert [row[0] for row in receives(nic)] == [0xFFFF, 0x10000, 0x10001, 0x10002]


# -- the requester -------------------------------------------------------------------------------------------


def test_last_packet_carries_the_immediate_and_every_packet_its_number(
    source: WriteSource, nic: NicBench
) -> None:
    source.post(5000, iterations=2, immediate=0xDEADBEEF)
    packets = source.send()
    assert [packet.write.bth.opcode for packet in packets] == [
        Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, LAST_IMMEDIATE,
    ] * 2  # fmt: skip
    assert [packet.write.meth.rqmsn for packet in packets] == [1, 1, 1, 2, 2, 2]
    assert packets[2].write.immediate == ImmDt(0xDEADBEEF)
    assert packets[2].write.payload == bytes(nic.memory[4096:5000])


def test_no_more_are_outstanding_than_were_negotiated(nic: NicBench, distant: FarEnd) -> None:
    source = WriteSource(nic, distant, distant.attributes(max_wimm=3))
    source.post(10, iterations=8, immediate=1)
    packets = source.send()
    assert len(packets) == 3
    assert source.send() == []
    assert source.deliver(packets[0]) is not None
    assert nic.qp().req.outstanding_wimm == 3
