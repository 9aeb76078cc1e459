"""Frames that contradict themselves: dropped and counted, whatever they ask for."""

from dataclasses import replace

import pytest
from frame_offsets import AFTER_BTH, BTH_AT, INNER_AT, OUTER_AT, RETH_AT, UDP_AT, patched
from program_bench import Verdict
from reference.frame import encode_frame
from reference.opcode import Opcode
from reference.packet import Packet
from reference.reliability_header import Seth
from reference.transport_header import NakCode
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import NicCounter


@pytest.fixture
def good(target: WriteTarget) -> bytes:
    """A frame that the NIC accepts: 98 bytes of payload, 2 of pad."""
    return target.frame(0, random_bytes(98), opcode=Opcode.WRITE_ONLY)


def test_truncated_frame_of_any_length(target: WriteTarget, good: bytes) -> None:
    for length in range(AFTER_BTH, len(good)):
        target.refuse(good[:length], NicCounter.DROP_LENGTH)
    for length in range(INNER_AT, AFTER_BTH):
        target.refuse(good[:length], NicCounter.DROP_MALFORMED)


def test_frame_too_short_to_be_known_is_left_to_the_kernel(target: WriteTarget, good: bytes) -> None:
    for length in range(OUTER_AT, INNER_AT):
        outcome = target.nic.receive(good[:length], 0)
        assert (outcome.verdict, outcome.counters) == (Verdict.PASS, {})
    target.check_memory()


@pytest.mark.parametrize("surplus", [1, 3, 4, 100])
def test_frame_with_bytes_behind_its_end(target: WriteTarget, good: bytes, surplus: int) -> None:
    target.refuse(good + bytes(surplus), NicCounter.DROP_LENGTH)


@pytest.mark.parametrize("at", [OUTER_AT + 4, INNER_AT + 4, UDP_AT + 4], ids=["outer", "inner", "UDP"])
@pytest.mark.parametrize("change", [-4, -1, 1, 4, 2048])
def test_one_wrong_length_field(target: WriteTarget, good: bytes, at: int, change: int) -> None:
    length = int.from_bytes(good[at : at + 2], "big") + change
    target.refuse(patched(good, at, length, width=2), NicCounter.DROP_LENGTH)


@pytest.mark.parametrize("udp_bytes", [0, 7, 8, 19, 20, 44, 47])
def test_lengths_that_agree_but_leave_no_room_for_the_headers(
    target: WriteTarget, good: bytes, udp_bytes: int
) -> None:
    frame = with_udp_bytes(good, udp_bytes)
    is_stack_whole = len(frame) >= AFTER_BTH
    target.refuse(frame, NicCounter.DROP_LENGTH if is_stack_whole else NicCounter.DROP_MALFORMED)


def with_udp_bytes(octets: bytes, udp_bytes: int) -> bytes:
    """The frame cut or grown to a UDP length, all three length fields telling so."""
    frame = patched(octets, OUTER_AT + 4, 40 + udp_bytes, width=2)
    frame = patched(patched(frame, INNER_AT + 4, udp_bytes, width=2), UDP_AT + 4, udp_bytes, width=2)
    return frame[: UDP_AT + udp_bytes].ljust(UDP_AT + udp_bytes, b"\0")


@pytest.mark.parametrize("pad", [0, 1, 2, 3])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_payload_and_pad_that_are_no_multiple_of_4(
    target: WriteTarget, good: bytes, pad: int, cut: int
) -> None:
    """No length of payload explains them; First, because an Only packet would be found out by RETH."""
    first = patched(patched(good, BTH_AT, Opcode.WRITE_FIRST), RETH_AT + 12, 10_000, width=4)
    frame = with_udp_bytes(patched(first, BTH_AT + 1, pad << 4), len(good) - UDP_AT - cut)
    target.refuse(frame, NicCounter.DROP_LENGTH)


@pytest.mark.parametrize("pad", [0, 1, 3])
def test_pad_that_makes_an_only_packet_another_length(target: WriteTarget, good: bytes, pad: int) -> None:
    target.refuse(patched(good, BTH_AT + 1, pad << 4), NicCounter.DROP_LENGTH)


def test_payload_above_the_largest_path_mtu(target: WriteTarget) -> None:
    for length in (2049, 2052, 3000):
        packet = target.packet(0, random_bytes(length), opcode=Opcode.WRITE_FIRST, message_bytes=100_000)
        target.refuse(target.far.arriving_octets(packet, 0), NicCounter.DROP_LENGTH)


@pytest.mark.parametrize("message_bytes", [0, 97, 99, 2**32 - 1])
def test_only_packet_that_is_not_its_whole_message(
    target: WriteTarget, good: bytes, message_bytes: int
) -> None:
    target.refuse(patched(good, RETH_AT + 12, message_bytes, width=4), NicCounter.DROP_LENGTH)


@pytest.mark.parametrize("opcode", [Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST])
def test_packet_longer_than_its_message(target: WriteTarget, opcode: Opcode) -> None:
    packet = target.packet(0, random_bytes(100), opcode=opcode, message_bytes=99)
    target.refuse(target.far.arriving_octets(packet, 0), NicCounter.DROP_LENGTH)


@pytest.mark.parametrize("at", [OUTER_AT, INNER_AT], ids=["outer", "inner"])
@pytest.mark.parametrize("version", [0, 4, 7, 14])
def test_ip_version_other_than_6(target: WriteTarget, good: bytes, at: int, version: int) -> None:
    target.refuse(patched(good, at, version << 4 | good[at] & 15), NicCounter.DROP_MALFORMED)


@pytest.mark.parametrize("version", [1, 8, 15])
def test_unknown_transport_version(target: WriteTarget, good: bytes, version: int) -> None:
    target.refuse(patched(good, BTH_AT + 1, good[BTH_AT + 1] | version), NicCounter.DROP_MALFORMED)


def test_data_without_a_timestamp(target: WriteTarget) -> None:
    """Its RETH would be read four bytes off: a write to an address that nobody sent."""
    packet = target.packet(0, random_bytes(100))
    bare = replace(packet, bth=replace(packet.bth, has_timestamp=False), tseth=None)
    target.refuse(target.far.arriving_octets(bare, 0), NicCounter.DROP_MALFORMED)


def test_every_other_opcode(target: WriteTarget, good: bytes) -> None:
    for opcode in set(range(256)) - set(Opcode):
        target.refuse(patched(good, BTH_AT, opcode), NicCounter.DROP_OPCODE)


def test_control_packets_of_the_wrong_length(target: WriteTarget) -> None:
    far = target.far
    packets: list[Packet] = [
        far.sack(Seth(0, 0)),
        far.nak(NakCode.REMOTE_ACCESS_ERROR),
        far.probe_request(1),
        far.probe_response(1),
    ]
    for packet in packets:
        frame = far.arriving_octets(packet, 0)
        for change in (-1, 1, 4, 2000):
            wrong = with_udp_bytes(frame, len(frame) - UDP_AT + change)
            target.refuse(wrong, NicCounter.DROP_LENGTH)


def test_good_frame_is_accepted_after_all(target: WriteTarget, good: bytes) -> None:
    packet = target.packet(0, random_bytes(98), opcode=Opcode.WRITE_ONLY)
    assert encode_frame(target.far.arriving(packet, 0)) == good
    target.deliver(packet, 0)
