"""ACK-path EVs: where a responder answers, and how it finds out where answers arrive."""

from dataclasses import dataclass, field
from random import Random

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench, Outcome
from reference.frame import decode_frame
from reference.opcode import Opcode
from reference.packet import EndpointRequest, Sack
from write_source import WriteSource
from write_target import WriteTarget

from mrc_agents.abi import Limit, NicCounter

SPACING = int(Limit.ACK_PATH_SPACING)
PLANES = 4
LONG_RTT_NS = 4_000_000_000
"""So long that a test's packets, which come one by one, look as if many were under way."""


@dataclass
class Receiver:
    """A QP that only receives, and its peer."""

    nic: NicBench
    far: FarEnd
    target: WriteTarget
    psn: int = 0  # of the next packet
    # by plane, the EV that answers take; planes without one are not in it
    known: dict[int, int] = field(default_factory=dict)
    # by plane, request id and EV of the last probe
    pending: dict[int, tuple[int, int]] = field(default_factory=dict)
    since_probe: int = 0

    def deliver(self, plane: int = 0, ev: int | None = None, *, is_marked: bool = False) -> Outcome:
        """The next packet comes in; the answer or the probe must be where the model says."""
        entropy = plane << 28 | 1 << 16 | 77 if ev is None else ev
        packet = self.target.packet(self.psn, b"data", va=8 * self.psn)
        outcome = self.target.arrive(packet, plane, entropy, is_marked=is_marked)
        self.psn += 1
        self.since_probe += not is_marked
        if self.since_probe == SPACING:
            self.since_probe = 0
            self._take_probe(outcome)
        else:
            sack = packet_of(outcome.frame, Sack)
            assert sack.seth.entropy == entropy
            self.check_path(outcome, plane, entropy)
        return outcome

    def _take_probe(self, outcome: Outcome) -> None:
        request = packet_of(outcome.frame, EndpointRequest)
        ev = decode_frame(outcome.frame).ev
        plane = ev >> 28
        assert ev in self.target.far.attributes().evs
        self.far.check_leaves(outcome, request, ev)
        assert outcome.counters[NicCounter.TX_PROBE] == 1
        if plane in self.pending:
            assert ev == self.known.get(plane, ev)
            if self.pending[plane][1] == self.known.get(plane):
                del self.known[plane]
        self.pending[plane] = (request.bth.psn, ev)

    def check_path(self, outcome: Outcome, plane: int, arrived_on: int) -> None:
        """The frame that left went where answers to a packet of that plane and EV go."""
        packet = decode_frame(outcome.frame).packet
        self.far.check_leaves(outcome, packet, self.known.get(plane, arrived_on))

    def answer(self, request_id: int, ev: int) -> Outcome:
        """The peer's answer to a probe comes in."""
        plane = ev >> 28
        response = self.far.probe_response(request_id)
        outcome = self.nic.receive(self.far.arriving_octets(response, plane, ev), plane)
        self.nic.edit_qp(ack_path_rtt_ns=LONG_RTT_NS)
        return outcome

    def answer_pending(self, plane: int) -> Sack:
        """The answer to the plane's last probe comes in, and becomes a SACK on its EV."""
        request_id, ev = self.pending.pop(plane)
        self.known[plane] = ev
        outcome = self.answer(request_id, ev)
        assert outcome.counters == {NicCounter.RX_PROBE_RESPONSE: 1, NicCounter.TX_SACK: 1}
        self.check_path(outcome, plane, ev)
        return packet_of(outcome.frame, Sack)

    def until_probe(self) -> int:
        """Packets come in until a probe has left; its plane."""
        before = dict(self.pending)
        while self.pending == before:
            self.deliver()
        ((plane, _),) = self.pending.items() - before.items()
        return plane


@pytest.fixture
def receiver(target: WriteTarget) -> Receiver:
    return Receiver(target.nic, target.far, target)


def test_one_frame_in_so_many_becomes_a_probe_and_its_answer_the_sack(receiver: Receiver) -> None:
    plane = receiver.until_probe()
    assert receiver.psn == SPACING
    sack = receiver.answer_pending(plane)
    assert (sack.seth.cack_psn, sack.seth.ack_psn_offset) == (SPACING - 1, 0)
    assert sack.bth.is_retransmission
    assert sack.seth.sack_bitmap == 0


def test_planes_take_turns(receiver: Receiver) -> None:
    planes = []
    for _ in range(2 * PLANES):
        planes.append(receiver.until_probe())
        receiver.answer_pending(planes[-1])
    assert planes == [*range(PLANES), *range(PLANES)]


def test_probe_without_an_answer_sends_answers_back_to_the_packets_own_evs(receiver: Receiver) -> None:
    for _ in range(PLANES):
        receiver.answer_pending(receiver.until_probe())
    for _ in range(PLANES):
        receiver.until_probe()  # not answered, like all that follow
    assert len(receiver.known) == PLANES
    for _ in range(2 * PLANES):
        receiver.until_probe()  # a probe of the ACK-path EV itself, then the turn that gives it up
    assert not receiver.known
    for plane in range(PLANES):
        receiver.deliver(plane)


def test_ack_path_ev_that_responds_stays_though_others_do_not(receiver: Receiver) -> None:
    for _ in range(PLANES):
        receiver.answer_pending(receiver.until_probe())
    known = dict(receiver.known)
    for turn in range(6 * PLANES):
        plane = receiver.until_probe()
        if receiver.pending[plane][1] == known[plane]:
            receiver.answer_pending(plane)
        assert receiver.known == known, turn


def test_late_answer_to_an_older_probe_brings_the_sack_but_proves_nothing(receiver: Receiver) -> None:
    first = receiver.until_probe()
    request_id, ev = receiver.pending[first]
    while receiver.until_probe() != first:
        pass
    outcome = receiver.answer(request_id, ev)
    assert outcome.counters == {NicCounter.RX_PROBE_RESPONSE: 1, NicCounter.TX_SACK: 1}
    receiver.check_path(outcome, first, ev)
    receiver.deliver(first)


def test_answer_counts_once(receiver: Receiver) -> None:
    plane = receiver.until_probe()
    request_id, ev = receiver.pending[plane]
    receiver.answer_pending(plane)
    assert receiver.answer(request_id, ev).counters == {NicCounter.DROP_STALE_PROBE: 1}


def test_answer_to_a_probe_of_an_earlier_qp_is_stale(receiver: Receiver) -> None:
    request_id, ev = receiver.pending[receiver.until_probe()]
    receiver.nic.edit_qp(qpn=receiver.nic.qp().head.qpn + (1 << Limit.QP_INDEX_BITS))
    assert receiver.answer(request_id, ev).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert not any(known.is_good for known in receiver.nic.qp().resp.ack_path)


def test_sender_with_little_under_way_is_not_kept_waiting(receiver: Receiver) -> None:
    """Packets that come one in a round trip: nothing else would bring the SACK."""
    receiver.answer_pending(receiver.until_probe())
    receiver.nic.edit_qp(ack_path_rtt_ns=1)
    receiver.known.clear()
    for _ in range(SPACING):
        outcome = receiver.target.arrive(receiver.target.packet(receiver.psn, b"slow"), 0, 0x00010000)
        receiver.psn += 1
        packet_of(outcome.frame, Sack)
    receiver.deliver(0)


@pytest.mark.parametrize("is_duplicate", [True, False], ids=["duplicate", "retransmission"])
def test_what_is_sent_again_is_answered_on_its_own_ev(receiver: Receiver, is_duplicate: bool) -> None:
    """Answers before it may have been lost on the ACK-path EV, and a silent sender asks in no other way."""
    for _ in range(PLANES):
        receiver.answer_pending(receiver.until_probe())
    psn = receiver.psn - 1 if is_duplicate else receiver.psn
    again = receiver.target.packet(psn, b"data", va=8 * psn, is_retransmission=True)
    receiver.psn = psn + 1
    outcome = receiver.target.arrive(again, 2, 2 << 28 | 3 << 16)
    del receiver.known[2]
    receiver.check_path(outcome, 2, 2 << 28 | 3 << 16)
    for plane in range(PLANES):
        receiver.deliver(plane)


def test_answer_avoids_a_plane_whose_port_the_peer_has_lost(receiver: Receiver) -> None:
    for _ in range(PLANES):
        receiver.answer_pending(receiver.until_probe())
    receiver.nic.edit_qp(peer_port_mask=0b0100)
    outcome = receiver.target.arrive(receiver.target.packet(receiver.psn, b"last words"), 1)
    assert (decode_frame(outcome.frame).ev, outcome.planes) == (receiver.known[2], (2,))


def test_coalesced_sacks_leave_frames_for_probes(target: WriteTarget) -> None:
    target.nic.edit_qp(sack_every=4)
    sent = [target.arrive(target.packet(psn, b"x")) for psn in range(SPACING + 1)]
    probes = [psn for psn, outcome in enumerate(sent) if NicCounter.TX_PROBE in outcome.counters]
    sacks = [psn for psn, outcome in enumerate(sent) if NicCounter.TX_SACK in outcome.counters]
    assert probes == [SPACING - 1]
    assert sacks == [*range(3, SPACING - 1, 4), SPACING]


def test_qp_that_sends_as_well_learns_from_its_sacks(
    source: WriteSource, nic: NicBench, distant: FarEnd
) -> None:
    source.post(2048 * 40)
    packets = source.send(12)
    for packet in packets:
        source.deliver(packet)
    last = {packet.plane: packet.entropy for packet in packets}
    target_key = nic.register(9, 0, 4096)
    for plane in range(PLANES):
        middle = Opcode.WRITE_MIDDLE
        write = distant.write(plane, b"answer me", va=0, r_key=target_key, opcode=middle, message_bytes=100)
        outcome = nic.receive(distant.arriving_octets(write, plane), plane)
        if plane < PLANES - 1:
            assert decode_frame(outcome.frame).ev == last[plane]
    assert nic.qp().resp.since_ack_path_probe == PLANES


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_packets_answers_and_silence(receiver: Receiver, seed: int) -> None:
    random = Random(seed)
    for _ in range(1000):
        receiver.deliver(random.randrange(PLANES), is_marked=random.random() < 0.05)
        for plane in list(receiver.pending):
            if random.random() < 0.02:
                receiver.answer_pending(plane)
    assert receiver.nic.qp().resp.cack_next == 1000
