"""Frames that come again: replayed by somebody, or trimmed twice. None is placed, none undoes anything."""

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from program_bench import Verdict
from reference.frame import decode_frame, encode_frame, trim_frame
from reference.opcode import Opcode
from reference.packet import Acknowledge, Nack, Sack
from reference.reliability_header import NackReason
from write_source import WriteSource
from write_target import REGION_OFFSET, WriteTarget, random_bytes

from mrc_agents.abi import Limit, NicCounter

RING = int(Limit.PSN_RING)


def overwrite(target: WriteTarget, length: int) -> None:
    """The application has other plans for the first bytes of the region."""
    target.expected[REGION_OFFSET : REGION_OFFSET + length] = b"\xaa" * length
    target.nic.memory[REGION_OFFSET : REGION_OFFSET + length] = b"\xaa" * length


@pytest.mark.parametrize("behind", [1, 63, 64, RING - 1, RING, 3 * RING])
def test_replayed_data_is_not_placed_again(target: WriteTarget, behind: int) -> None:
    old = target.frame(0, random_bytes(200))
    assert target.nic.receive(old, 0).counters[NicCounter.RX_PLACED_BYTES] == 200
    for psn in range(1, behind):
        target.arrive(target.packet(psn, b"", va=4096))
    overwrite(target, 200)
    target.expected[REGION_OFFSET:] = target.nic.memory[REGION_OFFSET:]
    before = target.nic.qp().resp
    outcome = target.nic.receive(old, 0)
    assert outcome.counters == {NicCounter.RX_DATA: 1, NicCounter.RX_DUPLICATE: 1, NicCounter.TX_SACK: 1}
    after = target.nic.qp().resp
    assert (after.cack_next, after.received_bytes) == (before.cack_next, before.received_bytes)
    assert packet_of(outcome.frame, Sack).seth.cack_psn == behind - 1
    target.check_memory()


def test_replay_of_a_finished_message_completes_it_no_second_time(target: WriteTarget) -> None:
    old = target.frame(0, b"all of it", opcode=Opcode.WRITE_ONLY)
    first, second = target.nic.receive(old, 0), target.nic.receive(old, 0)
    assert packet_of(first.frame, Acknowledge).aeth == packet_of(second.frame, Acknowledge).aeth
    assert target.nic.qp().resp.completed_messages == 1
    assert second.counters[NicCounter.RX_DUPLICATE] == 1


def test_replay_to_a_new_qp_of_the_same_number_meets_a_new_key(nic: NicBench, distant: FarEnd) -> None:
    target = WriteTarget(nic, distant)
    old = distant.arriving_octets(target.packet(0, b"yesterday"), 0)
    nic.regions[5].r_key = 0
    renewed = WriteTarget(nic, distant)
    nic.regions[5].r_key = renewed.r_key ^ 1 << Limit.KEY_INDEX_BITS
    outcome = nic.receive(old, 0)
    assert outcome.counters == {NicCounter.DROP_R_KEY: 1, NicCounter.TX_NAK: 1}
    renewed.check_memory()


def test_packet_trimmed_twice_is_refused_twice_and_changes_nothing(target: WriteTarget) -> None:
    """A switch never trims a trimmed packet; one that comes again, or shorter still, is nothing new."""
    whole = encode_frame(target.far.arriving(target.packet(5, random_bytes(2048)), 0))
    before = bytes(target.nic.qp())
    for kept_bytes in (138, 138, 122):
        outcome = target.nic.receive(trim_frame(whole, is_last_hop=False, kept_bytes=kept_bytes), 0)
        nack = packet_of(outcome.frame, Nack)
        assert (nack.neth.reason, nack.neth.nack_psn) == (NackReason.TRIMMED, 5)
        assert outcome.counters == {NicCounter.RX_TRIMMED: 1, NicCounter.TX_NACK: 1}
    assert bytes(target.nic.qp()) == before
    target.check_memory()


@pytest.mark.parametrize("kept_bytes", [114, 118, 121])
def test_packet_trimmed_below_its_timestamp(target: WriteTarget, kept_bytes: int) -> None:
    whole = encode_frame(target.far.arriving(target.packet(5, random_bytes(2048)), 0))
    target.refuse(trim_frame(whole, is_last_hop=True, kept_bytes=kept_bytes), NicCounter.DROP_MALFORMED)


def test_second_nack_for_a_packet_is_stale(source: WriteSource, nic: NicBench, distant: FarEnd) -> None:
    source.post(2048 * 20)
    packet = source.send(4)[2]
    ev = packet.entropy
    nack = distant.arriving_octets(distant.nack(packet.psn, NackReason.TRIMMED, ev), packet.plane, ev)
    nic.control.port_up_mask = 0  # it stays lost
    assert nic.receive(nack, packet.plane).counters[NicCounter.RX_NACK] == 1
    before = nic.qp()
    again = nic.receive(nack, packet.plane)
    assert (again.verdict, again.counters) == (Verdict.DROP, {NicCounter.DROP_STALE_NACK: 1})
    assert [(qp.req.lost_count, qp.head.retries) for qp in (before, nic.qp())] == [(1, 0)] * 2


def test_replayed_sack_and_ack_complete_nothing_twice(
    source: WriteSource, nic: NicBench, distant: FarEnd
) -> None:
    source.post(100, iterations=3, depth=3)
    packets = source.send(3)
    source.deliver(packets[0])
    ev = source.attributes.evs[packets[0].ev]
    again = distant.arriving_octets(distant.ack(0, 1), packets[0].plane, ev)
    done = nic.qp().req.work.done_msn
    nic.receive(again, packets[0].plane)
    assert (nic.qp().req.work.done_msn, nic.qp().comp.una_psn) == (done, 1)
    assert decode_frame(again).packet.bth.opcode is Opcode.ACKNOWLEDGE
