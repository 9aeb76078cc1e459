"""Data packets in: where their bytes land, and the SACK that comes back, byte for byte."""

from dataclasses import replace

import pytest
from far_end import FarEnd
from nic_bench import MEMORY_BYTES, NicBench
from program_bench import Verdict
from reference.opcode import Opcode
from reference.responder import WINDOW_PSNS
from write_target import REGION_OFFSET, REGION_SLOT, WriteTarget, random_bytes

from mrc_agents.abi import Limit, NicCounter

SEGMENT_BYTES = Limit.MEMORY_SEGMENT.value


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 255, 256, 1023, 2045, 2046, 2047, 2048])
def test_payload_of_any_length_lands_at_its_address(target: WriteTarget, length: int) -> None:
    target.deliver(target.packet(0, random_bytes(length), va=777), 0)


@pytest.mark.parametrize(
    ("opcode", "message_bytes"),
    [
        (Opcode.WRITE_FIRST, 10_000),
        (Opcode.WRITE_MIDDLE, 10_000),
        (Opcode.WRITE_LAST, 10_000),
        (Opcode.WRITE_ONLY, 2048),
    ],
)
def test_every_kind_of_write_is_placed_by_itself(
    target: WriteTarget, opcode: Opcode, message_bytes: int
) -> None:
    packet = target.packet(0, random_bytes(2048), 65_536, opcode=opcode, message_bytes=message_bytes, msn=9)
    target.deliver(packet, 0)


def test_sack_returns_through_the_port_and_on_the_path_of_the_packet(target: WriteTarget) -> None:
    for psn, (plane, uplink) in enumerate((plane, uplink) for plane in range(4) for uplink in range(4)):
        ev = target.far.clos.ev(plane, uplink, copy=psn * 4000)
        target.deliver(target.packet(psn, b"path", va=4 * psn), psn, plane=plane, ev=ev)


def test_sack_to_a_neighbour_crosses_no_t1(nic: NicBench, neighbour: FarEnd) -> None:
    target = WriteTarget(nic, neighbour)
    for plane in range(4):
        target.deliver(target.packet(plane, b"near", va=plane), plane, plane=plane)


def test_sack_for_a_retransmission_says_so(target: WriteTarget) -> None:
    packet = target.packet(0, b"x", is_retransmission=True, timestamp=0xFFFF)
    assert target.deliver(packet, 0).bth.is_retransmission


def test_last_packet_of_a_full_window_moves_the_edge_over_all(target: WriteTarget) -> None:
    for psn in range(1, WINDOW_PSNS):
        target.deliver(target.packet(psn, b"w", va=psn), psn)
    assert target.deliver_for_sack(target.packet(0, b"w"), 0, is_marked=True).seth.cack_psn == WINDOW_PSNS - 1


def test_places_of_received_packets_are_used_again(target: WriteTarget) -> None:
    """The state left over from one cycle of the PSN range would look like a duplicate in the next."""
    for first in range(0, WINDOW_PSNS + 200, 5):
        for psn in (first + 2, first, first + 4, first + 3, first + 1):
            target.deliver(target.packet(psn, b"cycle", va=psn), psn)


def test_duplicate_is_acknowledged_and_not_written(target: WriteTarget) -> None:
    target.deliver(target.packet(0, b"first"), 0)
    target.deliver(target.packet(2, b"third", va=10), 2)
    for place in (REGION_OFFSET, REGION_OFFSET + 10):
        target.nic.memory[place] = target.expected[place] = 0xEE
    target.deliver(target.packet(0, b"first"), 0)
    target.deliver(target.packet(2, b"third", va=10), 2)


def test_duplicate_needs_no_valid_key(target: WriteTarget) -> None:
    """Its region may be gone by then, and a NAK would fail a QP whose work is done."""
    target.deliver(target.packet(0, b"data"), 0)
    target.nic.regions[REGION_SLOT].r_key = 0
    target.deliver(target.packet(0, b"data"), 0)


def test_packet_without_payload_needs_no_valid_key(target: WriteTarget) -> None:
    target.nic.regions[REGION_SLOT].r_key = 0
    target.deliver(target.packet(0, b"", va=2**64 - 1), 0)


@pytest.mark.parametrize("length", [1, 2, 3, 1023, 1024, 2047, 2048])
@pytest.mark.parametrize("before_border", [0, 1, 2, 3, 1024, 2047, 2048, 2049])
def test_payload_may_cross_a_memory_segment(target: WriteTarget, length: int, before_border: int) -> None:
    va = SEGMENT_BYTES - REGION_OFFSET - before_border
    target.deliver(target.packet(0, random_bytes(length), va=va), 0)


def test_every_last_byte_of_the_memory_can_be_written(target: WriteTarget) -> None:
    for psn, length in enumerate((1, 3, 1500, 2048)):
        va = MEMORY_BYTES - REGION_OFFSET - length
        target.deliver(target.packet(psn, random_bytes(length), va=va), psn)


def test_two_qps_do_not_share_state(nic: NicBench, distant: FarEnd, neighbour: FarEnd) -> None:
    first = WriteTarget(nic, distant, 100)
    other = replace(neighbour, qpn=distant.qpn + 1, peer_qpn=0x123456)
    second = WriteTarget(nic, other, 500, expected=first.expected)
    for step in (1, 0, 3):
        first.deliver(first.packet(100 + step, b"a", va=step), 100 + step)
        second.deliver(second.packet(500 + step, b"b", va=64 + step), 500 + step)


def test_of_two_copies_in_the_hands_of_two_cpus_one_is_placed(nic: NicBench, distant: FarEnd) -> None:
    """The other CPU has begun to place its copy; if that fails, the next copy is placed."""
    target = WriteTarget(nic, distant, 7)
    packet = target.packet(7, b"once", va=5)
    with nic.editing_qp() as qp:
        qp.resp.placings[0] = 1
    outcome = nic.receive(distant.arriving_octets(packet, 0), 0)
    assert (outcome.verdict, outcome.planes) == (Verdict.DROP, ())
    assert outcome.counters == {NicCounter.RX_DATA: 1, NicCounter.RX_DUPLICATE: 1}
    assert nic.qp().resp.cack_next == 7
    target.check_memory()
    with nic.editing_qp() as qp:
        qp.resp.placings[0] = 0
    target.deliver_for_sack(packet, 7)
    assert list(nic.qp().resp.placings[:2]) == [1, 0]
