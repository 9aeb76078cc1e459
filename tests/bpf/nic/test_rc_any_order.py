"""A reliable connection whose packets may overtake one another, as adaptive switches let them: both ends."""

from random import Random

import pytest
from exploring import examples
from far_end import FarEnd
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import MEMORY_BYTES, Outcome, Verdict
from rc_bench import RcBench, RcSource, attributes
from reference.frame import decode_frame, encode_frame
from reference.psn import wire_psn
from reference.rc_packet import RcAcknowledge, RcBth, RcOpcode, RcWrite, make_rc_write
from reference.transport_header import AckKind, Aeth, ImmDt, NakCode, Reth

from mrc_testbed.agents.abi import EventKind, Limit, NicCounter
from mrc_testbed.agents.nic.work_queue import qp_index

pytestmark = pytest.mark.root

SLOT, OFFSET = 5, 4096
PATH = 0x0001_0007


class AnyOrderTarget:
    """The NIC as responder, beside a set of the counters that have come."""

    def __init__(self, nic: RcBench, far: FarEnd, first_psn: int = 0) -> None:
        self.nic, self.far, self.first = nic, far, first_psn
        self.came: set[int] = set()
        self.memory = bytearray(MEMORY_BYTES)
        self.r_key = nic.register(SLOT, OFFSET, MEMORY_BYTES - OFFSET)
        chosen = attributes(far, peer_first_psn=first_psn, any_order=1)
        nic.connect(qp_index(far.qpn), chosen, far.peer_qpn)

    @property
    def expected(self) -> int:
        """The first counter that is missing."""
        missing = self.first
        while missing in self.came:
            missing += 1
        return missing

    def packet(
        self, psn: int, payload: bytes, *, va: int = 0, whole: int | None = None, number: int | None = None
    ) -> RcWrite:
        """A packet that says by itself where it goes."""
        opcode = RcOpcode.WRITE_ONLY if number is None else RcOpcode.WRITE_ONLY_IMMEDIATE
        reth = Reth(va, self.r_key, len(payload) if whole is None else whole)
        immediate = None if number is None else ImmDt(number)
        return make_rc_write(opcode, self.far.qpn, wire_psn(psn), payload, reth=reth, immediate=immediate)

    def arrive(self, packet: RcWrite) -> Outcome:
        """Lets *packet* come in."""
        return self.nic.receive(encode_frame(self.far.arriving(packet, 0, PATH)), 0)

    def deliver(self, psn: int, packet: RcWrite) -> Outcome:
        """Lets *packet* come in, to be placed if it is new and acknowledged as far as all has come."""
        is_new = psn not in self.came
        if is_new and packet.reth is not None:
            start = OFFSET + packet.reth.va
            self.memory[start : start + len(packet.payload)] = packet.payload
        self.came.add(psn)
        outcome = self.arrive(packet)
        bth = RcBth(RcOpcode.ACKNOWLEDGE, self.far.peer_qpn, wire_psn(self.expected - 1))
        answer = RcAcknowledge(bth, Aeth.ack(self.expected - self.first))
        assert outcome.frame == encode_frame(self.far.leaving(answer, 0, 1, PATH))
        assert outcome.counters.get(NicCounter.RX_DUPLICATE, 0) == (not is_new)
        assert bytes(self.nic.memory) == self.memory
        return outcome

    def receives(self) -> list[tuple[int, int, int]]:
        """(number, immediate, bytes of the message) of the receives completed since the last call."""
        return [(e.a, e.b, e.d) for e in self.nic.events() if e.kind == EventKind.RECEIVE]


@pytest.fixture
def target(rc_nic: RcBench, distant: FarEnd) -> AnyOrderTarget:
    return AnyOrderTarget(rc_nic, distant)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), first_psn=st.sampled_from([0, 2**24 - 10]))
def test_packets_of_any_order_are_placed_once_and_completed_in_order(
    rc_nic: RcBench, distant: FarEnd, seed: int, first_psn: int
) -> None:
    rc_nic.reset()
    random = Random(seed)
    target = AnyOrderTarget(rc_nic, distant, first_psn)
    target.nic.post_receives(40)
    packets = []
    numbers: list[tuple[int, int, int]] = []
    for place in range(60):
        is_last = random.random() < 0.4
        if is_last:
            numbers.append((len(numbers) + 1, place, 5000))
        payload = random.randbytes(random.choice([1, 40, 41]))
        packets.append(
            target.packet(
                first_psn + place, payload, va=50 * place, whole=5000, number=place if is_last else None
            )
        )
    order = [place for place in range(60) for _ in range(random.choice([1, 1, 2]))]
    order.sort(key=lambda place: place + random.uniform(0, 25))
    completed = []
    for place in order:
        target.deliver(first_psn + place, packets[place])
        completed += target.receives()
        whole = target.expected - first_psn
        assert completed == [entry for entry in numbers if entry[1] < whole]
    assert len(completed) == len(numbers)


def test_as_many_packets_as_are_tracked_may_be_ahead(target: AnyOrderTarget) -> None:
    last = Limit.PSN_RING - 1
    target.deliver(last, target.packet(last, b"far ahead"))
    beyond = target.arrive(target.packet(last + 1, b"too far"))
    assert (beyond.verdict, beyond.counters) == (Verdict.DROP, {NicCounter.DROP_OUT_OF_ORDER: 1})
    for psn in range(last):
        target.deliver(psn, target.packet(psn, b"x", va=100 + psn))
    assert target.expected == last + 1
    target.deliver(last + 1, target.packet(last + 1, b"now"))


def test_an_immediate_takes_a_receive_when_it_comes(target: AnyOrderTarget) -> None:
    target.nic.post_receives(1)
    target.deliver(1, target.packet(1, b"one", number=7))
    answer = decode_frame(target.arrive(target.packet(2, b"two", number=8)).frame).packet
    assert isinstance(answer, RcAcknowledge)
    assert (answer.aeth.kind, answer.bth.psn) == (AckKind.RNR_NAK, 0)
    assert target.receives() == []
    target.deliver(0, target.packet(0, b"zero"))
    assert target.receives() == [(1, 7, 3)]


@pytest.mark.parametrize("opcode", [RcOpcode.WRITE_MIDDLE, RcOpcode.WRITE_LAST, RcOpcode.WRITE_FIRST])
def test_a_packet_that_is_no_whole_write_is_refused(target: AnyOrderTarget, opcode: RcOpcode) -> None:
    reth = Reth(0, target.r_key, 4) if opcode.has_reth else None
    packet = make_rc_write(opcode, target.far.qpn, 0, b"abcd", reth=reth)
    answer = decode_frame(target.arrive(packet).frame).packet
    assert isinstance(answer, RcAcknowledge)
    assert (answer.aeth.kind, answer.aeth.value) == (AckKind.NAK, NakCode.INVALID_REQUEST)


@pytest.mark.parametrize("va", [MEMORY_BYTES - OFFSET - 1, MEMORY_BYTES, 2**40])
def test_nothing_is_written_out_of_bounds(target: AnyOrderTarget, va: int) -> None:
    answer = decode_frame(target.arrive(target.packet(3, b"ab", va=va)).frame).packet
    assert isinstance(answer, RcAcknowledge)
    assert (answer.aeth.kind, answer.aeth.value) == (AckKind.NAK, NakCode.REMOTE_ACCESS_ERROR)
    assert bytes(target.nic.memory) == target.memory


def test_every_packet_that_is_sent_says_where_it_goes(rc_nic: RcBench, distant: FarEnd) -> None:
    source = RcSource(rc_nic, distant, attributes(distant, any_order=1))
    source.post(2048 * 2 + 5, immediate=3)
    left = source.send()
    assert [packet.write.bth.opcode for packet in left] == [
        RcOpcode.WRITE_ONLY,
        RcOpcode.WRITE_ONLY,
        RcOpcode.WRITE_ONLY_IMMEDIATE,
    ]
    reths = [packet.write.reth for packet in left]
    assert [(reth.va, reth.message_bytes) for reth in reths if reth] == [
        (0, 4101),
        (2048, 4101),
        (4096, 4101),
    ]
    assert b"".join(packet.write.payload for packet in left) == bytes(source.nic.memory[:4101])
    done = RcAcknowledge(RcBth(RcOpcode.ACKNOWLEDGE, distant.qpn, 2), Aeth.ack(3))
    source.receive(done, 0, PATH)
    assert source.completions() == [(1, 4101)]
