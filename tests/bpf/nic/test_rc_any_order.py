"""A reliable connection whose packets may overtake one another, as adaptive switches let them: both ends."""

from itertools import count
from random import Random

import pytest
from exploring import examples
from far_end import RC_PATH, FarEnd, packet_of
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import MEMORY_BYTES, NicBench
from program_bench import Verdict
from reference.psn import wire_psn
from reference.rc_packet import RcAcknowledge, RcBth, RcOpcode, RcWrite
from reference.transport_header import AckKind, Aeth, NakCode, Reth
from write_source import REMOTE_KEY, Completed, RcSource
from write_target import REGION_OFFSET, RcTarget

from mrc_agents.abi import CompletionStatus, EventKind, Limit, NicCounter

ONLY, ONLY_IMMEDIATE = RcOpcode.WRITE_ONLY, RcOpcode.WRITE_ONLY_IMMEDIATE


class AnyOrderTarget(RcTarget):
    """The NIC as responder, beside a set of the counters that have come."""

    def __init__(self, nic: NicBench, far: FarEnd, first_psn: int = 0) -> None:
        super().__init__(nic, far, first_psn, any_order=1)
        self.first = first_psn
        self.came: set[int] = set()

    @property
    def due(self) -> int:
        """The first counter that is missing."""
        return next(psn for psn in count(self.first) if psn not in self.came)

    def deliver(self, psn: int, packet: RcWrite) -> None:
        """Lets *packet* come in, to be placed if it is new and acknowledged as far as all has come."""
        is_new = psn not in self.came
        if is_new and packet.reth is not None:
            self.expect(packet.reth.va, packet.payload)
        self.came.add(psn)
        outcome = self.arrive(packet, 0, RC_PATH)
        bth = RcBth(RcOpcode.ACKNOWLEDGE, self.far.peer_qpn, wire_psn(self.due - 1))
        self.far.check_leaves(outcome, RcAcknowledge(bth, Aeth.ack(self.due - self.first)), RC_PATH)
        assert outcome.counters.get(NicCounter.RX_DUPLICATE, 0) == (not is_new)
        self.check_memory()

    def receives(self) -> list[tuple[int, int, int]]:
        """(number, immediate, bytes of the message) of the receives completed since the last call."""
        return [(event.a, event.b, event.d) for event in self.nic.events(EventKind.RECEIVE)]


@pytest.fixture
def target(rc_nic: NicBench, distant: FarEnd) -> AnyOrderTarget:
    return AnyOrderTarget(rc_nic, distant)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 2**32), first_psn=st.sampled_from([0, 2**24 - 10]))
def test_packets_of_any_order_are_placed_once_and_completed_in_order(
    rc_nic: NicBench, distant: FarEnd, seed: int, first_psn: int
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
        opcode, where = ONLY_IMMEDIATE if is_last else ONLY, {"va": 50 * place, "whole": 5000}
        packets.append(target.packet(first_psn + place, payload, opcode, immediate=place, **where))
    order = [place for place in range(60) for _ in range(random.choice([1, 1, 2]))]
    order.sort(key=lambda place: place + random.uniform(0, 25))
    completed = []
    for place in order:
        target.deliver(first_psn + place, packets[place])
        completed += target.receives()
        whole = target.due - first_psn
        assert completed == [entry for entry in numbers if entry[1] < whole]
    assert len(completed) == len(numbers)


def test_as_many_packets_as_are_tracked_may_be_ahead(target: AnyOrderTarget) -> None:
    last = Limit.PSN_RING - 1
    target.deliver(last, target.packet(last, b"far ahead"))
    beyond = target.arrive(target.packet(last + 1, b"too far"), 0, RC_PATH)
    assert (beyond.verdict, beyond.counters) == (Verdict.DROP, {NicCounter.DROP_OUT_OF_ORDER: 1})
    for psn in range(last):
        target.deliver(psn, target.packet(psn, b"x", va=100 + psn))
    assert target.due == last + 1
    target.deliver(last + 1, target.packet(last + 1, b"now"))


def test_an_immediate_takes_a_receive_when_it_comes(target: AnyOrderTarget) -> None:
    target.nic.post_receives(1)
    target.deliver(1, target.packet(1, b"one", ONLY_IMMEDIATE, immediate=7))
    outcome = target.arrive(target.packet(2, b"two", ONLY_IMMEDIATE), 0, RC_PATH)
    answer = packet_of(outcome.frame, RcAcknowledge)
    assert (answer.aeth.kind, answer.bth.psn) == (AckKind.RNR_NAK, 0)
    assert target.receives() == []
    target.deliver(0, target.packet(0, b"zero"))
    assert target.receives() == [(1, 7, 3)]


@pytest.mark.parametrize("opcode", [RcOpcode.WRITE_MIDDLE, RcOpcode.WRITE_LAST, RcOpcode.WRITE_FIRST])
def test_a_packet_that_is_no_whole_write_is_refused(target: AnyOrderTarget, opcode: RcOpcode) -> None:
    target.refuse(target.packet(0, b"abcd", opcode), NakCode.INVALID_REQUEST)


@pytest.mark.parametrize("va", [MEMORY_BYTES - REGION_OFFSET - 1, MEMORY_BYTES, 2**40])
def test_nothing_is_written_out_of_bounds(target: AnyOrderTarget, va: int) -> None:
    target.refuse(target.packet(3, b"ab", va=va), NakCode.REMOTE_ACCESS_ERROR)


def test_every_packet_that_is_sent_says_where_it_goes(rc_nic: NicBench, distant: FarEnd) -> None:
    source = RcSource(rc_nic, distant, any_order=1)
    source.post(2048 * 2 + 5, immediate=3)
    left = source.send()
    assert [packet.write.bth.opcode for packet in left] == [ONLY, ONLY, ONLY_IMMEDIATE]
    assert [packet.write.reth for packet in left] == [Reth(va, REMOTE_KEY, 4101) for va in (0, 2048, 4096)]
    assert b"".join(packet.write.payload for packet in left) == bytes(source.nic.memory[:4101])
    source.ack(2, 3)
    assert source.completions() == [Completed(1, 1, CompletionStatus.SUCCESS, 4101)]
