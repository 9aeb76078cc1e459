"""A reliable connection that receives: in order only, bounds checked, marks answered by notifications."""

from random import Random

import pytest
from exploring import examples
from far_end import FarEnd
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import MEMORY_BYTES, NicBench, Outcome, Verdict
from rc_bench import InOrder, RcBench, attributes
from reference.frame import decode_frame, encode_frame
from reference.psn import wire_psn
from reference.rc_packet import Cnp, RcAcknowledge, RcOpcode, RcWrite, make_rc_write
from reference.transport_header import AckKind, Aeth, ImmDt, NakCode, Reth

from mrc_testbed.agents.abi import EventKind, NicCounter
from mrc_testbed.agents.nic.work_queue import qp_index

pytestmark = pytest.mark.root

SLOT, OFFSET = 5, 4096
PATH = 0x0001_0007


class RcTarget:
    """A connection of the NIC that receives, beside the reference."""

    def __init__(self, nic: RcBench, far: FarEnd, first_psn: int = 0, cnp_interval_ns: int = 0) -> None:
        self.nic = nic
        self.far = far
        self.reference = InOrder(expected=first_psn)
        self.expected = bytearray(MEMORY_BYTES)
        self.va = 0
        self.r_key = nic.register(SLOT, OFFSET, MEMORY_BYTES - OFFSET)
        chosen = attributes(far, peer_first_psn=wire_psn(first_psn), cnp_interval_ns=cnp_interval_ns)
        nic.connect(qp_index(far.qpn), chosen, far.peer_qpn)
        if first_psn != wire_psn(first_psn):
            raise ValueError("a connection starts with 24 bits")

    def write(
        self, psn: int, opcode: RcOpcode, payload: bytes, *, va: int = 0, whole: int | None = None
    ) -> RcWrite:
        reth = Reth(va, self.r_key, len(payload) if whole is None else whole) if opcode.has_reth else None
        immediate = ImmDt(0x1234) if opcode.has_immediate else None
        return make_rc_write(opcode, self.far.qpn, wire_psn(psn), payload, reth=reth, immediate=immediate)

    def arrive(self, packet: RcWrite, *, is_marked: bool = False) -> Outcome:
        return self.nic.receive(encode_frame(self.far.arriving(packet, 0, PATH, is_marked=is_marked)), 0)

    def deliver(self, psn: int, packet: RcWrite) -> None:
        """Lets *packet* come in; answer, memory and silence must be the reference's."""
        is_taken = psn == self.reference.expected
        said = self.reference.receive(psn, packet)
        if is_taken:
            self.va = packet.reth.va if packet.reth else self.va
            start = OFFSET + self.va
            self.expected[start : start + len(packet.payload)] = packet.payload
            self.va += len(packet.payload)
        outcome = self.arrive(packet)
        if said is None:
            assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_OUT_OF_ORDER: 1})
        else:
            answer = self.far.leaving(self.reference.answer(said, self.far.peer_qpn), 0, 1, PATH)
            assert outcome.frame == encode_frame(answer)
            assert outcome.planes == (0,)
        assert bytes(self.nic.memory) == self.expected

    def refuse(self, packet: RcWrite, code: NakCode) -> None:
        """Lets *packet* come in, which must be answered by that NAK, and placed nowhere."""
        outcome = self.arrive(packet)
        answer = decode_frame(outcome.frame).packet
        assert isinstance(answer, RcAcknowledge)
        assert (answer.aeth.kind, answer.aeth.value) == (AckKind.NAK, code)
        assert bytes(self.nic.memory) == self.expected


@pytest.fixture
def target(rc_nic: RcBench, distant: FarEnd) -> RcTarget:
    return RcTarget(rc_nic, distant)


def message(target: RcTarget, psn: int, length: int, va: int, seed: int) -> list[RcWrite]:
    """The packets of one message, from counter *psn* on."""
    payload = Random(seed).randbytes(length)
    pieces = [payload[at : at + 2048] for at in range(0, length, 2048)] or [b""]
    packets = []
    for place, piece in enumerate(pieces):
        is_first, is_last = place == 0, place == len(pieces) - 1
        opcode = (
            (RcOpcode.WRITE_ONLY if is_last else RcOpcode.WRITE_FIRST)
            if is_first
            else (RcOpcode.WRITE_LAST if is_last else RcOpcode.WRITE_MIDDLE)
        )
        packets.append(target.write(psn + place, opcode, piece, va=va, whole=length))
    return packets


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), first_psn=st.sampled_from([0, 2**24 - 10]))
def test_any_arrivals_are_answered_as_the_reference_does(
    rc_nic: RcBench, distant: FarEnd, seed: int, first_psn: int
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
    target.refuse(target.write(0, RcOpcode.WRITE_MIDDLE, b"x" * 2048), NakCode.INVALID_REQUEST)
    target.refuse(target.write(0, RcOpcode.WRITE_ONLY, b"12", whole=3), NakCode.INVALID_REQUEST)
    target.deliver(0, target.write(0, RcOpcode.WRITE_FIRST, b"y" * 2048, whole=4000))
    target.refuse(target.write(1, RcOpcode.WRITE_ONLY, b"z"), NakCode.INVALID_REQUEST)
    target.refuse(target.write(1, RcOpcode.WRITE_LAST, b"z" * 1951), NakCode.INVALID_REQUEST)
    target.deliver(1, target.write(1, RcOpcode.WRITE_LAST, b"z" * 1952))


@pytest.mark.parametrize("va", [MEMORY_BYTES - OFFSET - 1, MEMORY_BYTES, 2**40])
def test_nothing_is_written_out_of_bounds(target: RcTarget, va: int) -> None:
    target.refuse(target.write(0, RcOpcode.WRITE_ONLY, b"ab", va=va), NakCode.REMOTE_ACCESS_ERROR)


def test_nothing_is_written_with_a_wrong_key(target: RcTarget) -> None:
    target.r_key ^= 1 << 20
    target.refuse(target.write(0, RcOpcode.WRITE_ONLY, b"ab"), NakCode.REMOTE_ACCESS_ERROR)


def test_an_immediate_waits_for_a_receive(target: RcTarget) -> None:
    packet = target.write(0, RcOpcode.WRITE_ONLY_IMMEDIATE, b"hello")
    answer = decode_frame(target.arrive(packet).frame).packet
    assert isinstance(answer, RcAcknowledge)
    assert answer.aeth.kind is AckKind.RNR_NAK
    assert target.nic.events() == []
    target.nic.post_receives(1)
    target.deliver(0, packet)
    (event,) = target.nic.events()
    assert (event.kind, event.a, event.b, event.d) == (EventKind.RECEIVE, 1, 0x1234, 5)


def test_a_mark_is_answered_by_a_notification_now_and_then(rc_nic: RcBench, distant: FarEnd) -> None:
    target = RcTarget(rc_nic, distant, cnp_interval_ns=2**32 - 1)
    answers = [
        decode_frame(
            target.arrive(target.write(psn, RcOpcode.WRITE_ONLY, b"a", va=psn), is_marked=True).frame
        ).packet
        for psn in range(3)
    ]
    assert [type(answer) for answer in answers] == [Cnp, RcAcknowledge, RcAcknowledge]
    assert isinstance(answers[0], Cnp)
    assert (answers[0].bth.becn, answers[0].bth.psn, answers[0].aeth) == (True, 0, Aeth.ack(1))


def test_packets_of_strangers_and_of_no_connection_are_dropped(target: RcTarget) -> None:
    stranger = FarEnd(target.far.clos, target.far.host, target.far.peer + 1)
    frame = stranger.arriving_octets(target.write(0, RcOpcode.WRITE_ONLY, b"a"), 0, PATH)
    assert target.nic.receive(frame, 0).counters == {NicCounter.DROP_UNKNOWN_QP: 1}
    lost = make_rc_write(RcOpcode.WRITE_ONLY, 999_999, 0, b"a", reth=Reth(0, target.r_key, 1))
    assert target.arrive(lost).counters == {NicCounter.DROP_UNKNOWN_QP: 1}


@pytest.mark.parametrize("extra", [1, 3, 15])
def test_lengths_that_disagree_are_dropped(target: RcTarget, extra: int) -> None:
    frame = target.far.arriving_octets(target.write(0, RcOpcode.WRITE_ONLY, b"abcd"), 0, PATH)
    outcome = target.nic.receive(frame + bytes(extra), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_LENGTH: 1})


def test_without_its_program_the_nic_knows_no_such_opcode(nic: NicBench, distant: FarEnd) -> None:
    packet = make_rc_write(RcOpcode.WRITE_ONLY, distant.qpn, 0, b"a", reth=Reth(0, 1, 1))
    outcome = nic.receive(distant.arriving_octets(packet, 0, PATH), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_OPCODE: 1})
