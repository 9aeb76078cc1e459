"""The limits that a responder sets its peer: a smaller range, a penalty, refusals for want of resources."""

from dataclasses import replace

import pytest
from far_end import FarEnd, packet_of
from nic_bench import MEMORY_BYTES, NicBench
from reference.congestion import CcReason
from reference.frame import encode_frame
from reference.packet import Nack, Sack
from reference.reliability_header import CcState, NackReason, Seth
from write_source import WriteSource
from write_target import WriteTarget

from mrc_agents.abi import Command, Limit, NicCounter, QpState
from mrc_agents.protocol.cc_profile import CcLink, CcParameters, derive_profile

UNIT = int(Limit.MPR_UNIT)
WHOLE = int(Limit.PSN_RING)


def refusal(target: WriteTarget, psn: int) -> NackReason | None:
    """Why a packet is refused; None when it is taken."""
    target.nic.edit_qp(nak_ns=0)
    outcome = target.arrive(target.packet(psn, b"x", va=psn))
    if NicCounter.TX_NACK in outcome.counters:
        return NackReason(packet_of(outcome.frame, Nack).neth.reason)
    return None


def mpr_in_sack(target: WriteTarget, psn: int) -> int:
    """SETH.mpr of the SACK for a packet."""
    frame = target.frame(psn, b"x", va=psn)
    return packet_of(target.nic.receive(frame, 0).frame, Sack).seth.mpr


# -- PSN range -----------------------------------------------------------------------------------------------


def test_smaller_range_holds_once_all_that_was_allowed_has_come(target: WriteTarget) -> None:
    assert target.nic.command(Command.TRACK, 0, UNIT)
    assert refusal(target, WHOLE - 1) is None
    for psn in range(WHOLE - UNIT):
        target.arrive(target.packet(psn, b"x"))
    assert refusal(target, WHOLE) is NackReason.NO_BITMAP
    for psn in range(WHOLE - UNIT, WHOLE):
        target.arrive(target.packet(psn, b"x"))
    assert target.nic.qp().resp.cack_next == WHOLE
    assert refusal(target, WHOLE + UNIT - 1) is None
    assert refusal(target, WHOLE + UNIT) is NackReason.NO_BITMAP
    assert refusal(target, WHOLE + WHOLE - 1) is NackReason.NO_BITMAP
    assert refusal(target, WHOLE + WHOLE) is NackReason.PSN_OUT_OF_WINDOW


def test_larger_range_holds_at_once(target: WriteTarget) -> None:
    target.nic.edit_qp(tracked_psns=UNIT)
    assert refusal(target, UNIT) is NackReason.NO_BITMAP
    assert target.nic.command(Command.TRACK, 0, 3 * UNIT)
    assert refusal(target, UNIT) is None
    assert refusal(target, 3 * UNIT) is NackReason.NO_BITMAP


@pytest.mark.parametrize("psns", [0, WHOLE + 1, 2**32 - 1])
def test_range_that_cannot_be(target: WriteTarget, psns: int) -> None:
    assert not target.nic.command(Command.TRACK, 0, psns)


def test_range_is_in_sacks_where_both_sides_want_it(target: WriteTarget) -> None:
    assert mpr_in_sack(target, 0) == 0
    target.nic.edit_qp(is_mpr_dynamic=1)
    assert mpr_in_sack(target, 1) == WHOLE // UNIT
    target.nic.command(Command.TRACK, 0, 2 * UNIT)
    assert mpr_in_sack(target, 2) == 2


def mpr_after_sack(source: WriteSource, cack: int, mpr: int) -> int:
    """The PSN range of the requester after a SACK with *mpr*."""
    source.try_feed(Seth(cack_psn=cack, entropy=0, ack_psn_offset=0, mpr=mpr))
    return source.nic.qp(source.index).req.mpr_psns


def test_requester_takes_the_range_of_the_newest_sack(source: WriteSource, nic: NicBench) -> None:
    source.post(2048 * 40)
    source.send(20)
    assert mpr_after_sack(source, 1, 2) == WHOLE  # nothing was agreed
    nic.edit_qp(is_mpr_dynamic=1)
    assert mpr_after_sack(source, 5, 2) == 2 * UNIT
    assert mpr_after_sack(source, 4, 8) == 2 * UNIT  # an old SACK
    assert mpr_after_sack(source, 6, 0) == 2 * UNIT  # no change
    assert mpr_after_sack(source, 7, 9) == 2 * UNIT  # more than can be tracked
    assert mpr_after_sack(source, 8, 8) == WHOLE


def test_requester_keeps_within_the_range_of_the_sack(nic: NicBench, distant: FarEnd) -> None:
    source = WriteSource(nic, distant, distant.attributes(window_packets=1024))
    nic.edit_qp(is_mpr_dynamic=1)
    source.post(2048 * 400)
    source.send(1)
    source.try_feed(Seth(cack_psn=0, entropy=0, ack_psn_offset=0, mpr=1))
    while source.send():
        pass
    qp = nic.qp(source.index)
    assert qp.req.next_psn - qp.comp.una_psn == UNIT


# -- receiver penalty ----------------------------------------------------------------------------------------


def penalty_in_sack(target: WriteTarget, psn: int) -> tuple[int, bool]:
    """Penalty and end of penalty in the SACK for a packet."""
    frame = target.frame(psn, b"x")
    state = packet_of(target.nic.receive(frame, 0).frame, Sack).cc_state
    return state.cwnd_penalty, state.restores_cwnd


def test_penalty_is_in_sacks_until_it_ends_and_then_its_end(target: WriteTarget) -> None:
    assert penalty_in_sack(target, 0) == (0, False)
    assert target.nic.command(Command.PENALTY, 0, 64)
    assert [penalty_in_sack(target, psn) for psn in range(1, 5)] == [(64, False)] * 4
    assert target.nic.command(Command.PENALTY, 0, 0)
    sacks = 0
    for psn in range(5, 5 + int(Limit.RESTORE_SACKS) + 10):
        frame = target.far.arriving(target.packet(psn, b"x"), 0, is_marked=True)
        state = packet_of(target.nic.receive(encode_frame(frame), 0).frame, Sack).cc_state
        assert state.cwnd_penalty == 0
        sacks += state.restores_cwnd
    assert sacks == Limit.RESTORE_SACKS


def test_ending_no_penalty_says_nothing(target: WriteTarget) -> None:
    target.nic.command(Command.PENALTY, 0, 0)
    assert penalty_in_sack(target, 0) == (0, False)


def test_penalty_beyond_its_field(target: WriteTarget) -> None:
    assert not target.nic.command(Command.PENALTY, 0, 128)
    assert target.nic.command(Command.PENALTY, 0, 127)
    assert penalty_in_sack(target, 0) == (127, False)


def test_bytes_received_are_in_sacks_beside_the_penalty(target: WriteTarget) -> None:
    target.nic.command(Command.PENALTY, 0, 127)
    frame = target.frame(0, bytes(2048))
    state = packet_of(target.nic.receive(frame, 0).frame, Sack).cc_state
    assert (state.received_units, state.cwnd_penalty) == (9, 127)  # 2136 bytes


@pytest.mark.parametrize(("cc_type", "reason"), [(0, CcReason.PENALTY), (5, CcReason.NONE)])
def test_penalty_is_read_from_nsccs_own_cc_type_alone(
    nic: NicBench, distant: FarEnd, cc_type: int, reason: CcReason
) -> None:
    cc = CcParameters.from_profile(derive_profile(CcLink(10**12, 1000, 2048), {"disable_qa": True}))
    source = WriteSource(nic, distant, replace(distant.attributes(), cc=cc))
    source.post(2048, iterations=2)
    assert len(source.send()) == 2
    source.feed(Seth(0, 0, cc_type=cc_type), CcState(0, cwnd_penalty=127, received_units=9))
    congestion = nic.qp(source.index).cc
    assert (congestion.received_units, congestion.reason) == (9, reason)


# -- buffers -------------------------------------------------------------------------------------------------


def test_memory_that_is_registered_but_not_there(target: WriteTarget, nic: NicBench, distant: FarEnd) -> None:
    target.r_key = nic.register(7, MEMORY_BYTES, 4096)
    frame = distant.arriving_octets(target.packet(0, b"nowhere"), 0)
    outcome = nic.receive(frame, 0)
    assert packet_of(outcome.frame, Nack).neth.reason == NackReason.NO_PACKET_BUFFER
    assert outcome.counters == {NicCounter.DROP_BOUNDS: 1, NicCounter.TX_NACK: 1}
    assert (nic.qp().resp.cack_next, nic.qp().state) == (0, QpState.RTS)
    target.check_memory()
