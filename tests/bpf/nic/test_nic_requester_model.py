"""The requester against its reference, over a network that loses, delays, doubles and reorders in any way."""

import time
from collections import Counter
from collections.abc import Callable
from ctypes import sizeof
from dataclasses import asdict, dataclass, replace

from exploring import examples
from far_end import FarEnd, packet_of
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import NicBench
from reference.congestion import CcReason
from reference.ev_partition import ev_partition
from reference.nscc import Nscc
from reference.packet import EndpointRequest, Packet
from reference.psn import wire_psn
from reference.reliability_header import CcState, NackReason, PathAdvice, Seth
from reference.requester import ReferenceRequester
from reference.responder import MessagesDone
from write_source import Sent, WriteSource

from mrc_agents.abi import EventKind, EvLayout, EvState, Limit, NicCounter
from mrc_agents.abi import Nscc as NsccState
from mrc_agents.protocol.cc_profile import CcLink, CcParameters, Setting, derive_profile
from mrc_agents.protocol.sizes import write_nominal_bytes

PMTU_BYTES = 256
BASE_RTT_NS = 1_000_000
CC_SETTINGS: dict[str, st.SearchStrategy[Setting]] = {
    "qa_threshold": st.none() | st.integers(0, 3 * BASE_RTT_NS),
    "qa_gate": st.integers(0, 4),
    "disable_qa": st.booleans(),
    "no_delay": st.integers(0, BASE_RTT_NS // 4),
    "adjust_bytes_threshold": st.integers(0, 4000),
    "max_cwnd": st.integers(256, 6000),
}
OPERATIONS = {
    "post": 2,
    "kick": 2,
    "flow": 6,
    "arrive": 3,
    "arrive twice": 1,
    "lose": 3,
    "lose newest": 3,
    "lose a plane": 1,
    "mark": 3,
    "trim": 2,
    "wait": 2,
    "acknowledge": 3,
    "acknowledge twice": 1,
    "mute": 1,
    "probe": 1,
    "answer": 2,
}
"""Frequency of each step, in proportion. "Flow" carries packets and SACKs in order for a while."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from([name for name, weight in OPERATIONS.items() for _ in range(weight)]),
        st.integers(0, 1000),
    ),
    min_size=10,
    max_size=60,
)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A NACK for a packet that a switch has trimmed."""

    psn: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The responder's response to a packet that came on the EV *entropy*."""

    said: tuple[Seth, CcState] | MessagesDone | Trimmed
    entropy: int
    is_retransmission: bool


class Network:
    """The NIC, its reference, and what is on its way between them and the responder."""

    def __init__(self, source: WriteSource, first_psn: int) -> None:
        self.source = source
        partition = ev_partition(source.nic.qp())
        self.reference = ReferenceRequester(
            source.attributes,
            list(partition),
            Nscc.start(source.attributes.congestion),
            first_psn,
            first_psn,
            first_psn,
            peer_next_psn=first_psn,
        )
        self.now_ns = time.monotonic_ns()
        self.counters = source.nic.counters()
        self.packets: list[Sent] = []
        self.answers: list[Answer] = []
        self.probes: list[tuple[int, int]] = []
        self.completed = 0
        self.fallen: list[int] = []

    def perform(self, operation: str, choice: int) -> None:
        """One step, with *choice* saying of what; then both sides must agree."""
        steps: dict[str, Callable[[int], None]] = {
            "post": self._post,
            "kick": self._kick,
            "flow": self._flow,
            "mark": lambda place: self._arrive(place, stays=False, is_marked=True),
            "trim": self._trim,
            "wait": self._wait,
            "arrive": lambda place: self._arrive(place, stays=False),
            "arrive twice": lambda place: self._arrive(place, stays=True),
            "lose": self._lose,
            "lose newest": lambda _: self._lose(-1),
            "lose a plane": self._lose_plane,
            "acknowledge": lambda place: self._receive(place, stays=False),
            "acknowledge twice": lambda place: self._receive(place, stays=True),
            "mute": self._mute,
            "probe": self._probe,
            "answer": self._answer,
        }
        steps[operation](choice)
        self._compare()

    def _post(self, choice: int) -> None:
        packet_count = 1 + choice % 20
        if len(self.reference.message_ends) < 40:
            self.source.post(packet_count * PMTU_BYTES)
            self.reference.post(packet_count)

    def _kick(self, choice: int) -> None:
        for _ in range(1 + choice % 4):
            expected = self.reference.next_to_send()
            sent = self.source.send(1)
            assert [packet.psn for packet in sent] == ([] if expected is None else [expected])
            self._take_note(sent)

    def _flow(self, choice: int) -> None:
        for _ in range(1 + choice % 30):
            if not self.packets and not self.answers:
                self._kick(3)
            self._arrive(0, stays=False)
            self._receive(0, stays=False)
            self._compare()

    def _take_note(self, sent: list[Sent]) -> None:
        for packet in sent:
            slot = self.source.nic.qp().req.tx[packet.psn % Limit.PSN_RING]
            self.reference.send(packet.psn, packet.ev, len(packet.write.payload), slot.sent_ns)
            self.packets.append(packet)

    def _wait(self, choice: int) -> None:
        self.now_ns += choice * (BASE_RTT_NS // 250)

    def _trim(self, place: int) -> None:
        if self.packets:
            packet = self.packets.pop(place % len(self.packets))
            trimmed = Trimmed(wire_psn(packet.psn))
            self.answers.append(Answer(trimmed, packet.entropy, is_retransmission=False))

    def _arrive(self, place: int, *, stays: bool, is_marked: bool = False) -> None:
        if not self.packets:
            return
        packet = self.packets[place % len(self.packets)]
        if not stays:
            self.packets.remove(packet)
        said = self.source.reply_to(packet, is_marked=is_marked)
        if is_marked and not isinstance(said, MessagesDone):
            said = replace(said[0], advice=PathAdvice.SKIP_ONCE), said[1]
        self.answers.append(Answer(said, packet.entropy, packet.write.bth.is_retransmission))

    def _lose(self, place: int) -> None:
        if self.packets:
            self.packets.pop(place % len(self.packets))

    def _lose_plane(self, choice: int) -> None:
        self.packets = [packet for packet in self.packets if packet.plane != choice % 4]

    def _receive(self, place: int, *, stays: bool) -> None:
        if not self.answers:
            return
        answer = self.answers[place % len(self.answers)]
        if not stays:
            self.answers.remove(answer)
        said, entropy, far, now_ns = answer.said, answer.entropy, self.source.far, self.now_ns
        if isinstance(said, MessagesDone):
            self.reference.on_ack(said, entropy, now_ns)
            is_fresh, counter = True, NicCounter.RX_ACK
            packet: Packet = far.ack(said.psn, said.count)
        elif isinstance(said, Trimmed):
            is_fresh = self.reference.on_trimmed(said.psn, entropy, now_ns)
            counter = NicCounter.RX_NACK if is_fresh else NicCounter.DROP_STALE_NACK
            packet = far.nack(said.psn, NackReason.TRIMMED, entropy)
        else:
            is_retransmission = answer.is_retransmission
            is_fresh = self.reference.on_sack(*said, now_ns, is_retransmission=is_retransmission)
            counter = NicCounter.RX_SACK if is_fresh else NicCounter.DROP_STALE_SACK
            packet = far.sack(*said, is_retransmission=is_retransmission)
        plane = entropy >> EvLayout.PLANE_SHIFT
        outcome, sent = self.source.receive(packet, plane, entropy, now_ns)
        assert outcome.counters[counter] == 1
        self.reference.adopt(ev_partition(self.source.nic.qp()))
        expected = self.reference.next_to_send() if is_fresh else None
        assert (None if sent is None else sent.psn) == expected
        self._take_note([] if sent is None else [sent])

    def _mute(self, place: int) -> None:
        if self.answers:
            self.answers.pop(place % len(self.answers))

    def _probe(self, choice: int) -> None:
        fallen = sorted(ev for part in self.reference.planes for ev in part.bad)
        ev = fallen[choice % len(fallen)] if fallen else choice % len(self.source.attributes.evs)
        (frame,) = self.source.nic.probe([ev])
        self.reference.probe(ev)
        self.probes.append((packet_of(frame, EndpointRequest).bth.psn, ev))

    def _answer(self, place: int) -> None:
        if not self.probes:
            return
        request_id, ev = self.probes.pop(place % len(self.probes))
        self.reference.on_probe_response(ev)
        far = self.source.far
        entropy = self.source.attributes.evs[ev]
        response = far.arriving_octets(far.probe_response(request_id), entropy >> 28, entropy)
        outcome = self.source.nic.receive(response, entropy >> 28)
        assert outcome.counters == {NicCounter.RX_PROBE_RESPONSE: 1}

    def _compare(self) -> None:
        qp = self.source.nic.qp()
        mine = self.reference
        assert (qp.req.next_psn, qp.comp.una_psn) == (mine.next_psn % 2**32, mine.oldest_psn % 2**32)
        assert (qp.req.inflight, qp.req.lost_count) == (mine.under_way, len(mine.lost_psns))
        assert qp.comp.acked_total == mine.acked_total
        state = {name: value for name, value in asdict(mine.nscc).items() if name != "parameters"}
        own = NsccState.from_buffer_copy(bytes(qp.cc.own)[: sizeof(NsccState)])
        assert {name: getattr(own if hasattr(own, name) else qp.cc, name) for name in state} == state
        changes = self.source.nic.counters()
        for reason in CcReason:
            if reason:
                counter = NicCounter[f"CWND_{reason.name}"]
                assert changes[counter] - self.counters[counter] == mine.window_changes[reason]
        assert changes[NicCounter.CC_DRIFT] == self.counters[NicCounter.CC_DRIFT]
        mine.adopt(ev_partition(qp))
        outstanding = Counter(mine.outstanding())
        for index in range(len(self.source.attributes.evs)):
            assert qp.evs.ev[index].outstanding == outstanding[index]
            if qp.evs.ev[index].state == EvState.ASSUMED_BAD:
                assert qp.evs.ev[index].probe_successes == mine.successes[index]
        for event in self.source.nic.events():
            if event.kind == EventKind.COMPLETION:
                self.completed += 1
            elif event.kind == EventKind.EV_STATE and event.c == EvState.ASSUMED_BAD:
                self.fallen.append(event.a)
        assert self.completed == mine.completed
        assert self.fallen == mine.fallen


@settings(max_examples=examples(40))
@given(
    first_psn=st.sampled_from([0, 2**24 - 10, 2**32 - 10]),
    window=st.integers(1, 12),
    spare_acks=st.integers(0, 10),
    backup_per_plane=st.integers(0, 3),
    min_active=st.integers(1, 12),
    reorder_packets=st.integers(0, 3),
    byte_time_ps=st.sampled_from([0, 100_000]),
    congestion=st.one_of(st.none(), st.fixed_dictionaries({}, optional=CC_SETTINGS)),
    steps=STEPS,
)
def test_any_network(
    bench: NicBench,
    distant: FarEnd,
    first_psn: int,
    window: int,
    spare_acks: int,
    backup_per_plane: int,
    min_active: int,
    reorder_packets: int,
    byte_time_ps: int,
    congestion: dict[str, Setting] | None,
    steps: list[tuple[str, int]],
) -> None:
    bench.reset()
    attributes = distant.attributes(
        window_packets=window,
        loss_threshold_acks=window + spare_acks,
        backup_per_plane=backup_per_plane,
        min_active=min_active,
        pmtu_bytes=PMTU_BYTES,
        probe_success_target=2,
        reorder_packets=reorder_packets,
        byte_time_ps=byte_time_ps,
    )
    if congestion is not None:
        link = CcLink(window * write_nominal_bytes(PMTU_BYTES) * 8 * 1000, BASE_RTT_NS, PMTU_BYTES)
        cc = CcParameters.from_profile(derive_profile(link, congestion))
        attributes = replace(attributes, cc=cc)
    network = Network(WriteSource(bench, distant, attributes, first_psn), first_psn)
    network.perform("post", 19)
    network.perform("kick", 3)
    for operation, choice in steps:
        network.perform(operation, choice)
