"""A reliable connection that receives: in order only, bounds checked, marks answered by notifications."""

from random import Random

import pytest
from exploring import examples
from far_end import RC_PATH, FarEnd
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import MEMORY_BYTES, NicBench
from program_bench import Verdict
from reference.frame import decode_frame
from reference.rc_packet import Cnp, RcAcknowledge, RcOpcode, RcWrite, make_rc_write
from reference.transport_header import AckKind, Aeth, NakCode, Reth
from write_target import REGION_OFFSET, RcTarget, aeth_of

from mrc_agents.abi import EventKind, NicCounter


@pytest.fixture
def target(rc_nic: NicBench, distant: FarEnd) -> RcTarget:
    return RcTarget(rc_nic, distant)


def message(target: RcTarget, psn: int, length: int, va: int, seed: int) -> list[RcWrite]:
    """The packets of one message, from counter *psn* on."""
    payload = Random(seed).randbytes(length)
    pieces = [payload[at : at + 2048] for at in range(0, length, 2048)] or [b""]
    opcodes = [RcOpcode.WRITE_FIRST, *[RcOpcode.WRITE_MIDDLE] * (len(pieces) - 2), RcOpcode.WRITE_LAST]
    if len(pieces) == 1:
        opcodes = [RcOpcode.WRITE_ONLY]
    parts = enumerate(zip(pieces, opcodes, strict=True), psn)
    return [target.packet(number, *part, va=va, whole=length) for number, part in parts]


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), first_psn=st.sampled_from([0, 2**24 - 10]))
def test_any_arrivals_are_answered_as_the_reference_does(
    rc_nic: NicBench, distant: FarEnd, seed: int, first_psn: int
) -> None:
    """Loss, duplication and reordering of three messages, with a sender that goes back when it likes."""
    rc_nic.reset()
    random = Random(seed)
    target = RcTarget(rc_nic, distant, first_psn)
    packets: list[RcWrite] = []
    for number in range(3):
        length = random.choice([0, 1, 500, 2048, 5000])
        packets += message(target, first_psn + len(packets), length, 10_000 * number, seed + number)
    at = 0
    for _ in range(40):
        at = max(0, min(len(packets) - 1, at + random.choice([1, 1, 1, 0, 2, -1, -3])))
        target.deliver(first_psn + at, packets[at])


def test_a_message_begins_and_ends_once(target: RcTarget) -> None:
    target.refuse(target.packet(0, b"x" * 2048, RcOpcode.WRITE_MIDDLE), NakCode.INVALID_REQUEST)
    target.refuse(target.packet(0, b"12", whole=3), NakCode.INVALID_REQUEST)
    target.deliver(0, target.packet(0, b"y" * 2048, RcOpcode.WRITE_FIRST, whole=4000))
    target.refuse(target.packet(1, b"z"), NakCode.INVALID_REQUEST)
    target.refuse(target.packet(1, b"z" * 1951, RcOpcode.WRITE_LAST), NakCode.INVALID_REQUEST)
    target.deliver(1, target.packet(1, b"z" * 1952, RcOpcode.WRITE_LAST))


@pytest.mark.parametrize("va", [MEMORY_BYTES - REGION_OFFSET - 1, MEMORY_BYTES, 2**40])
def test_nothing_is_written_out_of_bounds(target: RcTarget, va: int) -> None:
    target.refuse(target.packet(0, b"ab", va=va), NakCode.REMOTE_ACCESS_ERROR)


def test_nothing_is_written_with_a_wrong_key(target: RcTarget) -> None:
    target.r_key ^= 1 << 20
    target.refuse(target.packet(0, b"ab"), NakCode.REMOTE_ACCESS_ERROR)


def test_an_immediate_waits_for_a_receive(target: RcTarget) -> None:
    packet = target.packet(0, b"hello", RcOpcode.WRITE_ONLY_IMMEDIATE)
    assert aeth_of(target.arrive(packet, 0, RC_PATH)).kind is AckKind.RNR_NAK
    assert target.nic.events() == []
    target.nic.post_receives(1)
    target.deliver(0, packet)
    (event,) = target.nic.events()
    assert (event.kind, event.a, event.b, event.d) == (EventKind.RECEIVE, 1, 0x1234, 5)


def test_a_mark_is_answered_by_a_notification_now_and_then(rc_nic: NicBench, distant: FarEnd) -> None:
    target = RcTarget(rc_nic, distant, cnp_interval_ns=2**32 - 1)
    packets = [target.packet(psn, b"a", va=psn) for psn in range(3)]
    outcomes = [target.arrive(packet, 0, RC_PATH, is_marked=True) for packet in packets]
    answers = [decode_frame(outcome.frame).packet for outcome in outcomes]
    assert [type(answer) for answer in answers] == [Cnp, RcAcknowledge, RcAcknowledge]
    assert isinstance(answers[0], Cnp)
    assert (answers[0].bth.becn, answers[0].bth.psn, answers[0].aeth) == (True, 0, Aeth.ack(1))


def test_packets_of_strangers_and_of_no_connection_are_dropped(target: RcTarget) -> None:
    stranger = FarEnd(target.far.clos, target.far.host, target.far.peer + 1)
    frame = stranger.arriving_octets(target.packet(0, b"a"), 0, RC_PATH)
    assert target.nic.receive(frame, 0).counters == {NicCounter.DROP_UNKNOWN_QP: 1}
    lost = make_rc_write(RcOpcode.WRITE_ONLY, 999_999, 0, b"a", reth=Reth(0, target.r_key, 1))
    assert target.arrive(lost, 0, RC_PATH).counters == {NicCounter.DROP_UNKNOWN_QP: 1}


@pytest.mark.parametrize("extra", [1, 3, 15])
def test_lengths_that_disagree_are_dropped(target: RcTarget, extra: int) -> None:
    frame = target.far.arriving_octets(target.packet(0, b"abcd"), 0, RC_PATH)
    outcome = target.nic.receive(frame + bytes(extra), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_LENGTH: 1})


def test_without_its_program_the_nic_knows_no_such_opcode(nic: NicBench, distant: FarEnd) -> None:
    packet = make_rc_write(RcOpcode.WRITE_ONLY, distant.qpn, 0, b"a", reth=Reth(0, 1, 1))
    outcome = nic.receive(distant.arriving_octets(packet, 0, RC_PATH), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_OPCODE: 1})
