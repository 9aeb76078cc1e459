"""Writes that the NIC must not carry out: wrong keys, addresses out of bounds, packets for somebody else."""

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from far_end import packet_of
from frame_offsets import BTH_AT, INNER_AT, OUTER_AT, patched
from nic_bench import MEMORY_BYTES
from program_bench import Verdict
from reference.frame import Frame, encode_frame
from reference.opcode import Opcode
from reference.packet import Acknowledge, Nack
from reference.psn import wire_psn
from reference.reliability_header import NackReason
from reference.transport_header import Aeth, Bth, NakCode
from write_target import REGION_OFFSET, REGION_SLOT, WriteTarget, random_bytes

from mrc_agents.abi import Limit, NicCounter, QpState
from mrc_agents.nic.work_queue import QPN_MIN
from mrc_testbed.topology.usid import Role, Usid, pack_carrier

REGION_BYTES = MEMORY_BYTES - REGION_OFFSET
ARRIVAL_PLANE = 2


@pytest.fixture
def good(target: WriteTarget) -> Frame:
    """A frame that the NIC accepts from plane 0."""
    return target.far.arriving(target.packet(0, random_bytes(100), va=0), 0)


def check_nak(target: WriteTarget, va: int, r_key: int, length: int, counter: NicCounter) -> None:
    """A write there is refused with a NAK, counted, and not taken for received."""
    packet = target.far.write(7, random_bytes(length), va=va, r_key=r_key, msn=0x4321)
    before = bytes(target.nic.qp())
    outcome = target.arrive(packet, ARRIVAL_PLANE)
    bth = Bth(Opcode.ACKNOWLEDGE, target.far.peer_qpn, 7)
    nak = Acknowledge(bth, Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 0x4321))
    target.far.check_leaves(outcome, nak, ARRIVAL_PLANE << 28)
    assert outcome.counters == {counter: 1, NicCounter.TX_NAK: 1}
    assert bytes(target.nic.qp()) == before
    target.check_memory()


@pytest.mark.parametrize("flipped", [1 << Limit.KEY_INDEX_BITS, 1 << 31, 1, 1 << 5])
def test_wrong_key_is_answered_with_a_nak(target: WriteTarget, flipped: int) -> None:
    check_nak(target, 0, target.r_key ^ flipped, 10, NicCounter.DROP_R_KEY)


def test_key_zero_names_no_region_not_even_an_empty_entry(target: WriteTarget) -> None:
    target.nic.regions[0].length = 4096
    target.nic.regions[0].is_remote_writable = 1
    check_nak(target, 0, 0, 10, NicCounter.DROP_R_KEY)


def test_revoked_key_is_refused(target: WriteTarget) -> None:
    target.deliver(target.packet(0, b"while it was valid"), 0)
    target.nic.regions[REGION_SLOT].r_key = 0
    check_nak(target, 0, target.r_key, 10, NicCounter.DROP_R_KEY)


def test_region_that_is_not_remotely_writable_is_refused(target: WriteTarget) -> None:
    r_key = target.nic.register(6, 0, 4096, is_remote_writable=False)
    check_nak(target, 0, r_key, 10, NicCounter.DROP_R_KEY)


def test_region_of_another_protection_domain_is_refused(target: WriteTarget) -> None:
    target.nic.regions[REGION_SLOT].pd = 1
    check_nak(target, 0, target.r_key, 10, NicCounter.DROP_R_KEY)
    target.nic.edit_qp(pd=1)
    target.deliver(target.packet(0, b"its own"), 0)


@pytest.mark.parametrize("length", [0, 10])
def test_qp_by_which_nobody_may_write_refuses(target: WriteTarget, length: int) -> None:
    target.nic.edit_qp(is_writable=0)
    check_nak(target, 0, target.r_key, length, NicCounter.DROP_R_KEY)


BASE = 0x7F12_3456_7000
"""Virtual address of a region, by which peers name its bytes."""


@pytest.mark.parametrize("va", [BASE - 1, BASE + (1 << 32), BASE & 0xFFFFFFFF, 0, 1 << 63 | BASE])
def test_all_of_a_virtual_address_counts(target: WriteTarget, va: int) -> None:
    target.nic.regions[REGION_SLOT].base = BASE
    check_nak(target, va, target.r_key, 10, NicCounter.DROP_BOUNDS)


@pytest.mark.parametrize(
    ("va", "length"),
    [
        (REGION_BYTES, 1),
        (REGION_BYTES - 1, 2),
        (REGION_BYTES - 2047, 2048),
        (REGION_BYTES + 1, 1),
        (2**32, 4),
        (2**32 - REGION_OFFSET, 4),
        (2**63, 4),
        (2**64 - 1, 1),
        (2**64 - 1, 2),
        (2**64 - 4, 4),
        (2**64 - 4, 8),
        (2**64 - 2048, 2048),
        (2**64 - REGION_OFFSET, 16),
    ],
)
def test_write_outside_its_region_is_answered_with_a_nak(target: WriteTarget, va: int, length: int) -> None:
    check_nak(target, va, target.r_key, length, NicCounter.DROP_BOUNDS)


def test_region_ends_at_its_own_last_byte(target: WriteTarget) -> None:
    r_key = target.nic.register(6, 8192, 1000)
    for va, length in ((999, 2), (1000, 1), (0, 1001)):
        check_nak(target, va, r_key, length, NicCounter.DROP_BOUNDS)


@pytest.mark.parametrize("qpn", [0, 2, QPN_MIN - 1, QPN_MIN + 3, 2 * QPN_MIN, 2**24 - 1])
def test_unknown_qp(target: WriteTarget, good: Frame, qpn: int) -> None:
    frame = patched(encode_frame(good), BTH_AT + 5, qpn, width=3)
    target.refuse(frame, NicCounter.DROP_UNKNOWN_QP)


@pytest.mark.parametrize("state", [QpState.RESET, QpState.INIT])
def test_qp_in_a_state_that_does_not_receive(target: WriteTarget, good: Frame, state: QpState) -> None:
    target.nic.edit_qp(state=state)
    target.refuse(encode_frame(good), NicCounter.DROP_QP_STATE)


def test_qp_in_error_sends_the_peer_one_nack_for_many_packets(target: WriteTarget, good: Frame) -> None:
    target.nic.edit_qp(state=QpState.ERROR)
    first, second = (target.nic.receive(encode_frame(good), 0) for _ in range(2))
    nack = packet_of(first.frame, Nack)
    assert (nack.bth.destination_qpn, nack.neth.reason) == (target.far.peer_qpn, NackReason.UNEXPECTED_EVENT)
    assert nack.neth.nack_psn == wire_psn(0)
    assert first.counters == {NicCounter.DROP_QP_STATE: 1, NicCounter.TX_NACK: 1}
    assert second.counters[NicCounter.DROP_QP_STATE] == 1
    target.check_memory()


def test_qp_in_rtr_receives(target: WriteTarget) -> None:
    target.nic.edit_qp(state=QpState.RTR)
    target.deliver(target.packet(0, b"ready to receive"), 0)


@pytest.mark.parametrize("peer", [0, 2, 5])
def test_packet_of_another_host_than_the_peer(target: WriteTarget, good: Frame, peer: int) -> None:
    stranger = replace(target.far, peer=peer)
    target.refuse(stranger.arriving_octets(good.packet, 0), NicCounter.DROP_UNKNOWN_QP)


Change = Callable[[Frame], Frame]


def inner_to(destination: str) -> Change:
    return lambda frame: replace(frame, inner=replace(frame.inner, destination=IPv6Address(destination)))


def carrier_of(*usids: tuple[Role, int, int]) -> Change:
    def change(frame: Frame) -> Frame:
        assert frame.outer is not None
        carrier = pack_carrier(tuple(Usid(*usid) for usid in usids))
        return replace(frame, outer=replace(frame.outer, destination=carrier))

    return change


OWN, T0 = (Role.DOWNLINK, 0, 1), (Role.T0, 0, 1)
MISADDRESSED: dict[str, Change] = {
    "other UDP port": lambda frame: replace(frame, destination_port=4971),
    "inner destination is another host": inner_to("fd6d:7263::5"),
    "inner destination is another plane": inner_to("fd6d:7263:0:1::4"),
    "inner destination is another site": inner_to("fd6d:7264::4"),
    "carrier of another downlink": carrier_of((Role.DOWNLINK, 0, 0)),
    "carrier of another plane": carrier_of((Role.DOWNLINK, 1, 1)),
    "carrier to a T0": carrier_of(T0),
    "carrier to a T1": carrier_of((Role.T1, 0, 1)),
    "carrier goes on": carrier_of(OWN, T0),
    "carrier goes on in its lower half": carrier_of(OWN, T0, T0),
}


@pytest.mark.parametrize("change", MISADDRESSED.values(), ids=MISADDRESSED.keys())
def test_misaddressed_frame(target: WriteTarget, good: Frame, change: Change) -> None:
    target.refuse(encode_frame(change(good)), NicCounter.DROP_NOT_OURS)


def test_frame_that_comes_in_through_the_port_of_another_plane(target: WriteTarget, good: Frame) -> None:
    target.refuse(encode_frame(good), NicCounter.DROP_NOT_OURS, plane=1)


def test_packet_of_another_partition(target: WriteTarget, good: Frame) -> None:
    target.refuse(patched(encode_frame(good), BTH_AT + 2, 0x7FFF, width=2), NicCounter.DROP_NOT_OURS)


@pytest.mark.parametrize(("at", "protocol"), [(OUTER_AT + 6, 17), (OUTER_AT + 6, 43), (INNER_AT + 6, 58)])
def test_other_protocol_inside(target: WriteTarget, good: Frame, at: int, protocol: int) -> None:
    target.refuse(patched(encode_frame(good), at, protocol), NicCounter.DROP_NOT_OURS)


def test_frame_outside_our_block_is_left_to_the_kernel(target: WriteTarget, good: Frame) -> None:
    ipv4 = replace(good.ethernet, ethertype=0x0800)
    foreign = [
        patched(encode_frame(good), OUTER_AT + 24, 0xFCBC, width=2),
        encode_frame(replace(good, outer=None)),
        encode_frame(replace(good, ethernet=ipv4)),
        bytes(60),
    ]
    for frame in foreign:
        outcome = target.nic.receive(frame, 0)
        assert (outcome.verdict, outcome.frame, outcome.counters) == (Verdict.PASS, frame, {})
    target.check_memory()
