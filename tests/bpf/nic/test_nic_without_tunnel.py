"""The NIC where switches choose the path: one IPv6 header on the wire, and all else as over SRv6."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from far_end import FarEnd
from frame_offsets import patched
from nic_bench import NicBench
from program_bench import Verdict
from reference.frame import Frame, decode_frame, encode_frame, trim_frame
from reference.opcode import Opcode
from reference.packet import EndpointRequest, Nack, Packet, Sack, Write
from reference.reliability_header import NackReason, Neth
from reference.transport_header import Bth
from write_source import WriteSource
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import EvState, NicCounter
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

HOST, NEIGHBOUR, DISTANT = 3, 2, 4
IPV6_AT, UDP_AT, AFTER_BTH = 14, 54, 74
LOST_PSN = 2


def fabric(forwarding: str) -> Clos:
    return Clos(
        TopologySpec.model_validate(
            {"forwarding": forwarding, "planes": 4, "t0": 3, "hosts_per_t0": 2, "uplinks_per_pair": 2}
        )
    )


@pytest.fixture(scope="module", params=["stev", "ecmp"])
def plain_bench(request: pytest.FixtureRequest) -> Iterator[NicBench]:
    with NicBench(fabric(request.param), HOST) as nic:
        yield nic


@pytest.fixture
def nic(plain_bench: NicBench) -> NicBench:
    plain_bench.reset()
    return plain_bench


@pytest.fixture(params=[DISTANT, NEIGHBOUR], ids=["distant", "neighbour"])
def far(nic: NicBench, request: pytest.FixtureRequest) -> FarEnd:
    return FarEnd(nic.clos, HOST, request.param)


def test_packets_leave_and_their_answers_are_understood(nic: NicBench, far: FarEnd) -> None:
    source = WriteSource(nic, far)
    source.post(2048 * 5 + 17, iterations=4)
    for packet in source.send():
        source.deliver(packet)
    assert [done.iterations for done in source.completions()] == [4]
    assert len(source.sent) == 24


def test_packets_are_placed_and_answered(nic: NicBench, far: FarEnd) -> None:
    target = WriteTarget(nic, far)
    for psn in (1, 0, 3, 2, 2):
        ev = build_ev_set(nic.clos, far.peer, HOST)[psn]
        packet = target.packet(psn, random_bytes(2048, psn), va=psn * 2048)
        target.deliver(packet, psn, plane=ev >> 28, ev=ev, is_marked=psn == LOST_PSN)


@pytest.mark.parametrize("is_last_hop", [False, True])
def test_trimmed_packet_is_refused(nic: NicBench, far: FarEnd, is_last_hop: bool) -> None:
    target = WriteTarget(nic, far)
    plane, ev = 2, 2 << 28 | 1 << 16 | 7
    packet = target.packet(5, random_bytes(2048), va=100, timestamp=0x7654)
    frame = trim_frame(far.arriving_octets(packet, plane, ev), is_last_hop=is_last_hop)
    assert len(frame) == 98
    outcome = nic.receive(frame, plane)
    reason = NackReason.TRIMMED_LASTHOP if is_last_hop else NackReason.TRIMMED
    ids = {"source_qpn_low": far.qpn & 0xFFFF, "destination_qpn_low": far.peer_qpn & 0xFFFF}
    nack = Nack(Bth(Opcode.NACK, far.peer_qpn, 5), Neth(reason, 5, ev, 0x7654, **ids))
    far.check_leaves(outcome, nack, ev)
    assert outcome.counters == {NicCounter.RX_TRIMMED: 1, NicCounter.TX_NACK: 1}


def test_probe_is_answered_on_its_ev(nic: NicBench, far: FarEnd) -> None:
    plane, ev = 3, 3 << 28 | 1 << 16 | 0x0102
    outcome = nic.receive(far.arriving_octets(far.probe_request(77, timestamp=0xABCD), plane, ev), plane)
    far.check_leaves(outcome, far.probe_response(77, 0xABCD), ev)
    assert outcome.counters == {NicCounter.TX_PROBE_RESPONSE: 1}


def test_probes_leave_on_their_evs(nic: NicBench, far: FarEnd) -> None:
    source = WriteSource(nic, far)
    frames = [decode_frame(frame) for frame in nic.probe([0, 5, 11])]
    assert [frame.ev for frame in frames] == [source.attributes.evs[index] for index in (0, 5, 11)]
    assert all(isinstance(frame.packet, EndpointRequest) for frame in frames)
    for frame in frames:
        assert frame == far.leaving(frame.packet, frame.ev)


def test_truncated_frame_of_any_length(nic: NicBench, far: FarEnd) -> None:
    target = WriteTarget(nic, far)
    good = far.arriving_octets(target.packet(0, random_bytes(98), opcode=Opcode.WRITE_ONLY), 0)
    for length in range(AFTER_BTH, len(good)):
        target.refuse(good[:length], NicCounter.DROP_LENGTH)
    for length in range(UDP_AT, AFTER_BTH):
        target.refuse(good[:length], NicCounter.DROP_MALFORMED)
    for length in range(IPV6_AT, UDP_AT):
        outcome = nic.receive(good[:length], 0)
        assert (outcome.verdict, outcome.counters) == (Verdict.PASS, {})


@pytest.mark.parametrize("at", [IPV6_AT + 4, UDP_AT + 4], ids=["IPv6", "UDP"])
@pytest.mark.parametrize("length", [0, 1, 40, 65495, 65496, 65535])
def test_one_wrong_length_field(nic: NicBench, far: FarEnd, at: int, length: int) -> None:
    target = WriteTarget(nic, far)
    good = far.arriving_octets(target.packet(0, random_bytes(98), opcode=Opcode.WRITE_ONLY), 0)
    target.refuse(patched(good, at, length, width=2), NicCounter.DROP_LENGTH)


def test_frames_for_others_are_left_alone(nic: NicBench, far: FarEnd) -> None:
    target = WriteTarget(nic, far)
    frame = far.arriving(target.packet(0, b"x", opcode=Opcode.WRITE_ONLY), 0)

    def counters_of(changed: Frame) -> tuple[Verdict, dict[NicCounter, int]]:
        outcome = nic.receive(encode_frame(changed), 0)
        return outcome.verdict, dict(outcome.counters)

    def to(host: int, plane: int) -> Frame:
        return replace(frame, inner=replace(frame.inner, destination=nic.clos.inner_address(host, plane)))

    dropped = (Verdict.DROP, {NicCounter.DROP_NOT_OURS: 1})
    assert counters_of(to(HOST, 1)) == dropped
    assert counters_of(to(HOST + 1, 0)) == dropped
    assert counters_of(replace(frame, destination_port=53)) == dropped
    elsewhere = replace(
        frame, inner=replace(frame.inner, destination=frame.inner.source.__class__("fd00::1"))
    )
    outcome = nic.receive(encode_frame(elsewhere), 0)
    assert (outcome.verdict, outcome.counters, outcome.frame) == (Verdict.PASS, {}, encode_frame(elsewhere))


def test_frame_with_a_tunnel_header_is_not_taken(nic: NicBench, far: FarEnd) -> None:
    target = WriteTarget(nic, far)
    over_srv6 = FarEnd(fabric("srv6"), HOST, far.peer)
    frame = over_srv6.arriving_octets(target.packet(0, b"x", opcode=Opcode.WRITE_ONLY), 0)
    outcome = nic.receive(frame, 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.PASS, {})


@pytest.mark.parametrize(("forwarding", "suspects"), [("stev", True), ("ecmp", False)])
def test_uplink_of_a_fallen_ev_is_suspected_where_the_ev_names_it(forwarding: str, suspects: bool) -> None:
    with NicBench(fabric(forwarding), HOST) as nic:
        far = FarEnd(nic.clos, HOST, DISTANT)
        source = WriteSource(nic, far, far.attributes(loss_threshold_acks=1))
        source.post(2048 * 12)
        sent = source.send()
        lost = sent[LOST_PSN]
        for packet in sent[:LOST_PSN] + sent[LOST_PSN + 1 : LOST_PSN + 5]:
            source.deliver(packet)
        assert EvState(nic.qp().evs.ev[lost.ev].state) is EvState.ASSUMED_BAD
        assert bool(nic.qp().evs.planes[lost.plane].suspect_uplinks) is suspects


def test_what_is_said_is_the_same_in_every_mode() -> None:
    """The same packets come in; but for the outer header, the same packets leave."""
    said: dict[str, list[Packet]] = {}
    for forwarding in ("srv6", "stev", "ecmp"):
        with NicBench(fabric(forwarding), HOST) as nic:
            target = WriteTarget(nic, FarEnd(nic.clos, HOST, DISTANT))
            packets = [target.packet(psn, random_bytes(500, psn), va=psn * 500) for psn in (0, 4, 2, 4, 1, 3)]
            said[forwarding] = [target.deliver(packet, packet.bth.psn) for packet in packets]
            assert all(isinstance(packet, Write) for packet in packets)
            assert all(isinstance(packet, Sack) for packet in said[forwarding])
    assert said["srv6"] == said["stev"] == said["ecmp"]
