"""The iCRC that the NIC computes and checks, against reference.icrc."""

from random import Random

import pytest
from far_end import FarEnd
from frame_offsets import INNER_AT, OUTER_AT, RETH_AT
from nic_bench import NicBench
from program_bench import Verdict
from reference.frame import decode_frame, encode_frame, trim_frame
from reference.icrc import ICRC_BYTES, icrc
from reference.opcode import Opcode
from reference.packet import Packet
from reference.reliability_header import NackReason, Seth
from write_source import WriteSource
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import IcrcMode, NicCounter, ProbeKind

FREE_OF_ICRC = {
    INNER_AT: 0x0F,
    INNER_AT + 1: 0xFF,
    INNER_AT + 2: 0xFF,
    INNER_AT + 3: 0xFF,
    INNER_AT + 7: 0xFF,
    INNER_AT + 46: 0xFF,
    INNER_AT + 47: 0xFF,
    INNER_AT + 52: 0xFF,
}
"""Bits of a frame, from the inner header on, that may change on the way."""


def sealed(far: FarEnd, packet: Packet, plane: int = 0) -> bytes:
    """The frame of *packet* with its iCRC, as it comes in."""
    return encode_frame(far.arriving(packet, plane), with_icrc=True)


def resealed(octets: bytes) -> bytes:
    """The frame with the iCRC that its bytes ask for."""
    return octets[:-ICRC_BYTES] + icrc(octets[INNER_AT:-ICRC_BYTES])


@pytest.fixture
def checking(nic: NicBench) -> NicBench:
    nic.control.icrc_mode = IcrcMode.ON
    return nic


@pytest.mark.parametrize("mode", [IcrcMode.ON, IcrcMode.FILL])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 60, 63, 64, 65, 1000, 2047, 2048])
def test_data_packets_leave_with_the_right_one(
    nic: NicBench, distant: FarEnd, mode: IcrcMode, length: int
) -> None:
    nic.control.icrc_mode = mode
    WriteSource(nic, distant).post(length)
    (frame,) = nic.send_all()
    assert frame == resealed(frame)


def test_every_answer_and_probe_leaves_with_the_right_one(checking: NicBench, distant: FarEnd) -> None:
    target = WriteTarget(checking, distant)
    psn_99 = target.packet(99, b"hello")
    answers = [
        checking.receive(sealed(distant, packet), 0)
        for packet in (
            target.packet(0, random_bytes(2048)),
            target.packet(1, b"x", opcode=Opcode.WRITE_ONLY),
            target.packet(5000, b"x"),
            distant.probe_request(7),
        )
    ]
    assert [decode_frame(answer.frame).packet.bth.opcode for answer in answers] == [
        Opcode.SACK,
        Opcode.ACKNOWLEDGE,
        Opcode.NACK,
        Opcode.ENDPOINT_RESPONSE,
    ]
    trimmed = checking.receive(trim_frame(encode_frame(distant.arriving(psn_99, 0)), is_last_hop=False), 0)
    probes = [checking.probe([3], kind=kind)[0] for kind in (ProbeKind.EV, ProbeKind.RELIABILITY)]
    for frame in [answer.frame for answer in (*answers, trimmed)] + probes:
        assert frame == resealed(frame)


def test_any_bit_that_is_covered_refuses_the_packet(checking: NicBench, distant: FarEnd) -> None:
    """Unless a field it lies in is looked at before the iCRC: then for that field's reason."""
    target = WriteTarget(checking, distant)
    good = sealed(distant, target.packet(0, random_bytes(200)))
    earlier = {NicCounter.DROP_MALFORMED, NicCounter.DROP_NOT_OURS, NicCounter.DROP_LENGTH}
    for at in range(INNER_AT, len(good)):
        for bit in range(8):
            if FREE_OF_ICRC.get(at, 0) >> bit & 1:
                continue
            damaged = good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :]
            outcome = checking.receive(damaged, 0)
            (refusal,) = outcome.counters
            assert outcome.verdict is Verdict.DROP
            assert refusal is NicCounter.DROP_ICRC or (refusal in earlier and at < INNER_AT + 60)
    target.check_memory()
    assert checking.receive(good, 0).counters[NicCounter.RX_PLACED_BYTES] == 200


def test_what_switches_may_change_is_not_covered(checking: NicBench, distant: FarEnd) -> None:
    target = WriteTarget(checking, distant)
    good = bytearray(sealed(distant, target.packet(0, random_bytes(64))))
    good[OUTER_AT + 7] -= 3
    for at, bits in FREE_OF_ICRC.items():
        good[at] ^= bits
    assert checking.receive(bytes(good), 0).counters[NicCounter.RX_PLACED_BYTES] == 64


@pytest.mark.parametrize("packet", ["sack", "ack", "nack", "probe request", "probe response"])
def test_feedback_is_checked_as_well(checking: NicBench, distant: FarEnd, packet: str) -> None:
    source = WriteSource(checking, distant)
    source.post(100)
    (sent,) = checking.send_all()
    ev = decode_frame(sent).ev
    packets: dict[str, Packet] = {
        "sack": distant.sack(Seth(cack_psn=0, entropy=ev, ack_psn_offset=0)),
        "ack": distant.ack(0, 1),
        "nack": distant.nack(0, NackReason.TRIMMED, ev),
        "probe request": distant.probe_request(1),
        "probe response": distant.probe_response(1),
    }
    feedback = packets[packet]
    before = bytes(checking.qp())
    outcome = checking.receive(encode_frame(distant.arriving(feedback, 0)), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_ICRC: 1})
    assert bytes(checking.qp()) == before
    assert NicCounter.DROP_ICRC not in checking.receive(sealed(distant, feedback), 0).counters


def test_random_damage_is_never_placed(checking: NicBench, distant: FarEnd) -> None:
    random = Random(4791)
    target = WriteTarget(checking, distant)
    for psn in range(300):
        good = bytearray(sealed(distant, target.packet(psn, random.randbytes(random.randrange(1, 2049)))))
        for _ in range(random.randrange(1, 5)):
            at = random.randrange(RETH_AT, len(good))
            good[at] ^= random.randrange(1, 256)
        outcome = checking.receive(bytes(good), 0)
        assert outcome.counters == {NicCounter.DROP_ICRC: 1}
    target.check_memory()


@pytest.mark.parametrize("mode", [IcrcMode.OFF, IcrcMode.FILL])
def test_it_is_not_looked_at_unless_on(nic: NicBench, distant: FarEnd, mode: IcrcMode) -> None:
    nic.control.icrc_mode = mode
    target = WriteTarget(nic, distant)
    frame = encode_frame(distant.arriving(target.packet(0, b"x" * 16), 0))[:-ICRC_BYTES] + b"\1\2\3\4"
    assert nic.receive(frame, 0).counters[NicCounter.RX_PLACED_BYTES] == 16


def test_a_trimmed_packet_has_none(checking: NicBench, distant: FarEnd) -> None:
    target = WriteTarget(checking, distant)
    frame = encode_frame(distant.arriving(target.packet(0, random_bytes(2048)), 0))
    outcome = checking.receive(trim_frame(frame, is_last_hop=True), 0)
    assert outcome.counters == {NicCounter.RX_TRIMMED: 1, NicCounter.TX_NACK: 1}
