"""WRITE with immediate: its header, its number, the limit on both sides, and delivery in order."""

from random import Random

import pytest
from far_end import FarEnd
from nic_bench import NicBench
from program_bench import Verdict
from reference.frame import decode_frame
from reference.opcode import Opcode
from reference.packet import Acknowledge, Nack, Sack, Write, make_write
from reference.reliability_header import NackReason
from reference.transport_header import AckKind, ImmDt, Meth, NakCode, Reth, Tseth
from write_source import WriteSource
from write_target import WriteTarget, random_bytes

from mrc_testbed.agents.abi import EventKind, NicCounter, Work

ONLY, ONLY_IMMEDIATE, LAST_IMMEDIATE = (
    Opcode.WRITE_ONLY,
    Opcode.WRITE_ONLY_IMMEDIATE,
    Opcode.WRITE_LAST_IMMEDIATE,
)


def immediate_write(target: WriteTarget, psn: int, number: int, immediate: int, length: int = 10) -> Write:
    """A whole message with an immediate."""
    return make_write(
        ONLY_IMMEDIATE,
        target.far.qpn,
        psn,
        Meth(number & 0xFFFF, psn & 0xFFFF),
        Reth(20 * (psn % 1000), target.r_key, length),
        random_bytes(length, psn),
        tseth=Tseth(1),
        immediate=ImmDt(immediate),
    )


def receives(nic: NicBench) -> list[tuple[int, int, int]]:
    """(number, immediate, bytes) of the deliveries that wait."""
    return [(event.a, event.b, event.d) for event in nic.events() if event.kind == EventKind.RECEIVE]


def accept(target: WriteTarget, packet: Write, psn: int) -> Sack | Acknowledge:
    """Lets it come in and checks where its bytes landed."""
    outcome = target.nic.receive(target.far.arriving_octets(packet, 0), 0)
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
        accept(target, immediate_write(target, psn, psn + 1, 0xABC000 + psn), psn)
        delivered += receives(target.nic)
    assert delivered == [(psn + 1, 0xABC000 + psn, 10) for psn in range(20)]


def test_plain_messages_between_take_no_receive(target: WriteTarget) -> None:
    target.nic.post_receives(2)
    accept(target, immediate_write(target, 0, 1, 7), 0)
    target.reference.next_psn = 1
    plain = target.packet(1, b"plain", 100, opcode=ONLY, message_bytes=5)
    assert target.nic.receive(target.far.arriving_octets(plain, 0), 0).counters[NicCounter.TX_ACK] == 1
    accept(target, immediate_write(target, 2, 2, 8), 2)
    assert [row[:2] for row in receives(target.nic)] == [(1, 7), (2, 8)]


def test_immediate_that_nobody_waits_for_is_refused_until_a_receive_is_posted(target: WriteTarget) -> None:
    frame = target.far.arriving_octets(immediate_write(target, 0, 1, 7), 0)
    outcome = target.nic.receive(frame, 0)
    nack = decode_frame(outcome.frame).packet
    assert isinstance(nack, Nack)
    assert nack.neth.reason == NackReason.NO_RESOURCE
    assert outcome.counters == {NicCounter.DROP_NO_RECEIVE: 1, NicCounter.TX_NACK: 1}
    target.check_memory()
    target.nic.post_receives(1)
    accept(target, immediate_write(target, 0, 1, 7), 0)
    assert receives(target.nic) == [(1, 7, 10)]


@pytest.mark.parametrize("number", [0, 5, 0x8000])
def test_more_than_the_responder_holds_back_ends_the_qp(target: WriteTarget, number: int) -> None:
    target.nic.edit_qp(max_wimm_dest=4)
    target.nic.post_receives(100)
    outcome = target.nic.receive(target.far.arriving_octets(immediate_write(target, 9, number, 7), 0), 0)
    nak = decode_frame(outcome.frame).packet
    assert isinstance(nak, Acknowledge)
    assert (nak.aeth.kind, nak.aeth.value) == (AckKind.NAK, NakCode.INVALID_REQUEST)
    accept(target, immediate_write(target, 9, 4, 7), 9)


def test_number_wraps_at_16_bits(nic: NicBench, distant: FarEnd) -> None:
    target = WriteTarget(nic, distant)
    nic.edit_qp(completed_wimm=0xFFFE, delivered_wimm=0xFFFE)
    nic.post_receives(0x10010)
    for psn in range(4):
        accept(target, immediate_write(target, psn, 0xFFFF + psn, psn), psn)
    assert [row[0] for row in receives(nic)] == [0xFFFF, 0x10000, 0x10001, 0x10002]


# -- the requester -------------------------------------------------------------------------------------------


def work(length: int, immediate: int, iterations: int, work_id: int = 1) -> Work:
    return Work(
        id=work_id, length=length, iterations=iterations, local_slots=1, remote_slots=1, r_key=9,
        depth=60, has_immediate=1, immediate=immediate,
    )  # fmt: skip


def test_last_packet_carries_the_immediate_and_every_packet_its_number(
    nic: NicBench, distant: FarEnd
) -> None:
    source = WriteSource(nic, distant)
    nic.post(work(5000, 0xDEADBEEF, 2))
    packets = source.send()
    assert [packet.write.bth.opcode for packet in packets] == [
        Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, LAST_IMMEDIATE,
    ] * 2  # fmt: skip
    assert [packet.write.meth.rqmsn for packet in packets] == [1, 1, 1, 2, 2, 2]
    assert packets[2].write.immediate == ImmDt(0xDEADBEEF)
    assert packets[2].write.payload == bytes(nic.memory[4096:5000])


def test_no_more_are_outstanding_than_were_negotiated(nic: NicBench, distant: FarEnd) -> None:
    source = WriteSource(nic, distant, distant.attributes(max_wimm=3))
    nic.post(work(10, 1, 8))
    packets = source.send()
    assert len(packets) == 3
    assert source.send() == []
    assert source.deliver(packets[0]) is not None
    assert nic.qp().outstanding_wimm == 3
