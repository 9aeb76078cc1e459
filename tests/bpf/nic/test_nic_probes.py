"""EV probes: asked, answered, matched once, and what they do for an EV that lost a packet."""

from collections import deque
from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench, Outcome
from program_bench import Verdict
from reference.endpoint_header import Eeth, EndpointOperation
from reference.ev_partition import PlanePartition, ev_partition
from reference.frame import encode_frame
from reference.opcode import Opcode
from reference.packet import EndpointRequest, EndpointResponse
from reference.transport_header import ENDPOINT_QPN, Bth
from write_source import Sent, WriteSource

from mrc_agents.abi import Command, EventKind, EvReason, EvState, Limit, NicCounter, ProbeKind
from mrc_agents.nic.work_queue import QPN_MIN
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

SUCCESSES = 3


# -- answering -----------------------------------------------------------------------------------------------


def check_answer(nic: NicBench, far: FarEnd, request_id: int, plane: int, uplink: int) -> None:
    """A probe on that path is answered on it, with id and timestamp of the request."""
    ev = far.clos.ev(plane, uplink, copy=7)
    request = far.probe_request(request_id, timestamp=0xABCD)
    outcome = nic.receive(far.arriving_octets(request, plane, ev), plane)
    bth = Bth(Opcode.ENDPOINT_RESPONSE, ENDPOINT_QPN, request_id)
    far.check_leaves(outcome, EndpointResponse(bth, Eeth(EndpointOperation.EV_PROBE, 0xABCD)), ev)
    assert outcome.counters == {NicCounter.TX_PROBE_RESPONSE: 1}


@pytest.mark.parametrize("request_id", [0, 1, 0x1234, 0xFFFF])
def test_probe_is_answered_without_a_qp(nic: NicBench, distant: FarEnd, request_id: int) -> None:
    check_answer(nic, distant, request_id, plane=1, uplink=2)


def check_answers_on_every_path(nic: NicBench, distant: FarEnd) -> None:
    clos = distant.clos
    for peer in set(range(clos.numbering.host_count)) - {distant.host}:
        far = replace(distant, peer=peer)
        for plane in range(clos.spec.planes):
            for way in range(clos.numbering.way_count(clos.distance(far.host, peer))):
                check_answer(nic, far, 9, plane, way)


def test_probes_of_every_host_on_every_path_are_answered_on_it(nic: NicBench, distant: FarEnd) -> None:
    check_answers_on_every_path(nic, distant)


def test_a_nic_in_a_fabric_of_three_tiers() -> None:
    """Carriers with and without a QP, to hosts at every distance."""
    tiers = [{"joins": 2}, {"joins": 3, "switches": 2, "links": 3}, {"joins": 2, "switches": 3, "links": 2}]
    clos = Clos(TopologySpec.model_validate({"planes": 2, "tiers": tiers}))
    assert [clos.distance(3, peer) for peer in (2, 4, 11)] == [0, 1, 2]
    with NicBench(clos, 3) as nic:
        for peer in (2, 4, 11):
            far = FarEnd(clos, 3, peer)
            ways = range(clos.numbering.way_count(clos.distance(3, peer)))
            nic.reset()
            evs = far.evs_on_uplinks(*ways)
            source = WriteSource(nic, far, far.attributes(evs=evs, backup_per_plane=0, window_packets=256))
            source.post(2048 * len(evs))
            assert {sent.entropy for sent in source.send()} == set(evs)  # in frames with their carriers
        nic.reset()
        check_answers_on_every_path(nic, FarEnd(clos, 3, 11))


def test_probe_for_another_qp_than_the_endpoint(nic: NicBench, distant: FarEnd) -> None:
    request = distant.probe_request(1)
    astray = replace(request, bth=replace(request.bth, destination_qpn=QPN_MIN))
    outcome = nic.receive(distant.arriving_octets(astray, 0), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_UNKNOWN_QP: 1})


@pytest.mark.parametrize("source", ["fd6d:7263::", "fd6d:7263::1:0:0", "fd6d:7263::ffff:ffff:ffff:ffff"])
def test_probe_of_no_host(nic: NicBench, distant: FarEnd, source: str) -> None:
    frame = distant.arriving(distant.probe_request(1), 0)
    nobody = replace(frame, inner=replace(frame.inner, source=IPv6Address(source)))
    outcome = nic.receive(encode_frame(nobody), 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_MALFORMED: 1})


# -- asking --------------------------------------------------------------------------------------------------


@pytest.fixture
def source(nic: NicBench, distant: FarEnd) -> WriteSource:
    attributes = distant.attributes(window_packets=2, loss_threshold_acks=2, probe_success_target=SUCCESSES)
    return WriteSource(nic, distant, attributes)


def test_probe_leaves_on_its_ev(source: WriteSource) -> None:
    evs = source.attributes.evs
    frames = source.nic.probe([0, 5, 15])
    for number, (frame, index) in enumerate(zip(frames, (0, 5, 15), strict=True)):
        request = packet_of(frame, EndpointRequest)
        assert request.bth.psn == number
        assert request.erth.operation is EndpointOperation.EV_PROBE
        expected = replace(source.far.probe_request(number), erth=request.erth)
        assert frame == encode_frame(source.far.leaving(expected, evs[index]))


def test_request_ids_wrap(source: WriteSource) -> None:
    source.nic.next_kick.next_probe_id = 0xFFFE
    ids = [packet_of(frame, EndpointRequest).bth.psn for frame in source.nic.probe([0, 1, 2, 3])]
    assert ids == [0xFFFE, 0xFFFF, 0, 1]


def test_no_more_probes_leave_than_were_asked_for(source: WriteSource) -> None:
    source.nic.probe([1])
    outcome = source.nic.kick_again()
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {})


def answer(source: WriteSource, request_id: int, ev: int | None = None) -> Outcome:
    """The peer's answer to a request comes in, on the EV that was probed or another."""
    entropy = source.nic.probe_under_way(request_id).entropy if ev is None else ev
    plane = entropy >> 28
    response = source.far.probe_response(request_id)
    return source.nic.receive(source.far.arriving_octets(response, plane, entropy), plane)


def probe(source: WriteSource, ev: int) -> int:
    """The request id of a probe."""
    (frame,) = source.nic.probe([ev])
    return packet_of(frame, EndpointRequest).bth.psn


def probe_and_answer(source: WriteSource, ev: int) -> None:
    outcome = answer(source, probe(source, ev))
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.RX_PROBE_RESPONSE: 1})


def test_answer_is_matched_exactly_once(source: WriteSource) -> None:
    request_id = probe(source, 3)
    for stale in (request_id + 1, request_id + Limit.PROBE_RING, 0xFFFF):
        assert answer(source, stale).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert answer(source, request_id).counters == {NicCounter.RX_PROBE_RESPONSE: 1}
    assert answer(source, request_id).counters == {NicCounter.DROP_STALE_PROBE: 1}


def test_request_whose_slot_was_taken_by_a_later_one_is_forgotten(source: WriteSource) -> None:
    source.nic.probe([3])
    source.nic.next_kick.next_probe_id = Limit.PROBE_RING
    source.nic.probe([4])
    assert answer(source, 0).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert answer(source, Limit.PROBE_RING).counters == {NicCounter.RX_PROBE_RESPONSE: 1}


def test_response_gives_the_round_trip_of_a_good_ev_and_nothing_else(source: WriteSource) -> None:
    before = source.nic.qp()
    probe_and_answer(source, 6)
    after = source.nic.qp()
    assert after.evs.ev[6].rtt_ns > 0
    with_rtt = before
    with_rtt.evs.ev[6].rtt_ns = after.evs.ev[6].rtt_ns
    assert bytes(after) == bytes(with_rtt)
    assert source.nic.events() == []


# -- the way back --------------------------------------------------------------------------------------------


def lose_one(source: WriteSource, ev: int | None = None) -> int:
    """Lets the next packet, or the next on an EV, be lost and found out; the index of its EV, now bad."""
    source.post(2048 * 16)
    under_way = deque(source.send())
    lost: Sent | None = None
    while under_way:
        packet = under_way.popleft()
        if lost is None and ev in {None, packet.ev}:
            lost = packet
            continue
        following = source.deliver(packet)
        if following is not None:
            under_way.append(following)
    assert lost is not None
    assert source.nic.qp().evs.ev[lost.ev].state == EvState.ASSUMED_BAD
    source.nic.events()
    return lost.ev


def partition_of(source: WriteSource, ev: int) -> PlanePartition:
    return ev_partition(source.nic.qp())[source.nic.qp().evs.ev[ev].plane]


def test_answers_in_a_row_bring_an_ev_back_as_a_backup(source: WriteSource) -> None:
    ev = lose_one(source)
    bad = partition_of(source, ev)
    for successes in range(1, SUCCESSES):
        probe_and_answer(source, ev)
        assert source.nic.qp().evs.ev[ev].probe_successes == successes
        assert partition_of(source, ev) == bad
    assert source.nic.events() == []
    probe_and_answer(source, ev)
    good = partition_of(source, ev)
    assert (good.active, good.backup, good.bad) == (bad.active, bad.backup | {ev}, bad.bad - {ev})
    returned = source.nic.qp().evs.ev[ev]
    assert (returned.state, returned.reason, returned.bad_count) == (EvState.GOOD, EvReason.PROBE, 1)
    (event,) = source.nic.events()
    assert (event.kind, event.a, event.b) == (EventKind.EV_STATE, ev, EvState.ASSUMED_BAD)
    assert (event.c, event.d) == (EvState.GOOD, EvReason.PROBE)


def test_ev_returns_to_a_plane_that_is_short_of_active_ones(nic: NicBench, distant: FarEnd) -> None:
    attributes = distant.attributes(
        window_packets=2, loss_threshold_acks=2, probe_success_target=1, backup_per_plane=0
    )
    source = WriteSource(nic, distant, attributes)
    before = ev_partition(nic.qp())
    ev = lose_one(source)
    assert partition_of(source, ev).active == before[nic.qp().evs.ev[ev].plane].active - {ev}
    probe_and_answer(source, ev)
    assert ev_partition(nic.qp()) == before


def test_unanswered_probe_starts_the_count_again(source: WriteSource) -> None:
    ev = lose_one(source)
    for _ in range(SUCCESSES - 1):
        probe_and_answer(source, ev)
    source.nic.probe([ev])
    for _ in range(SUCCESSES - 1):
        probe_and_answer(source, ev)
    assert source.nic.qp().evs.ev[ev].state == EvState.ASSUMED_BAD
    probe_and_answer(source, ev)
    assert source.nic.qp().evs.ev[ev].state == EvState.GOOD


def test_returned_ev_that_falls_again_has_to_earn_its_return_again(nic: NicBench, distant: FarEnd) -> None:
    evs = build_ev_set(distant.clos, distant.host, distant.peer, 4)
    attributes = distant.attributes(
        evs=evs, backup_per_plane=0, window_packets=2, loss_threshold_acks=2, probe_success_target=2
    )
    source = WriteSource(nic, distant, attributes)
    ev = lose_one(source)
    for _ in range(2):
        probe_and_answer(source, ev)
    assert nic.qp().evs.ev[ev].state == EvState.GOOD
    assert lose_one(source, ev) == ev
    assert nic.qp().evs.ev[ev].bad_count == 2
    probe_and_answer(source, ev)
    assert nic.qp().evs.ev[ev].state == EvState.ASSUMED_BAD


# -- exact matching ------------------------------------------------------------------------------------------


def test_answer_on_another_ev_than_the_probe_is_none(source: WriteSource) -> None:
    request_id = probe(source, 6)
    for other in (source.attributes.evs[7], source.attributes.evs[6] ^ 1):
        assert answer(source, request_id, other).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert answer(source, request_id).counters == {NicCounter.RX_PROBE_RESPONSE: 1}


def test_answer_of_another_host_is_none(source: WriteSource) -> None:
    request_id = probe(source, 0)
    stranger = replace(source.far, peer=5)
    octets = stranger.arriving_octets(stranger.probe_response(request_id), 0, source.attributes.evs[0])
    assert source.nic.receive(octets, 0).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert answer(source, request_id).counters == {NicCounter.RX_PROBE_RESPONSE: 1}


def test_answer_to_another_qp_than_the_endpoint(source: WriteSource) -> None:
    request_id = probe(source, 0)
    response = source.far.probe_response(request_id)
    astray = replace(response, bth=replace(response.bth, destination_qpn=source.far.qpn))
    octets = source.far.arriving_octets(astray, 0, source.attributes.evs[0])
    assert source.nic.receive(octets, 0).counters == {NicCounter.DROP_UNKNOWN_QP: 1}


def test_answer_to_a_probe_of_an_earlier_qp_says_nothing_of_its_successor(source: WriteSource) -> None:
    """The successor has the same index, EVs and peer; what its predecessor asked is not its business."""
    lost = lose_one(source)
    frames = [*source.nic.probe([lost]), *source.nic.probe([lost], kind=ProbeKind.PORT_STATUS)]
    ids = [packet_of(frame, EndpointRequest).bth.psn for frame in frames]
    qpn = source.nic.qp().head.qpn + (1 << Limit.QP_INDEX_BITS)
    source.nic.edit_qp(qpn=qpn, probe_success_target=1)
    before = bytes(source.nic.qp())
    for request_id in ids:
        assert answer(source, request_id).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert bytes(source.nic.qp()) == before
    assert source.nic.events() == []


def test_answer_to_a_probe_of_an_earlier_ev_says_nothing_of_its_successor(source: WriteSource) -> None:
    request_id = probe(source, 6)
    old = source.attributes.evs[6]
    new = old ^ 1
    assert source.nic.command(Command.REPLACE, source.index, 6, new, source.nic.qp().evs.ev[6].path)
    before = bytes(source.nic.qp())
    source.nic.events()
    assert answer(source, request_id, old).counters == {NicCounter.DROP_STALE_PROBE: 1}
    assert bytes(source.nic.qp()) == before
    assert source.nic.events() == []


# -- probes of no QP -----------------------------------------------------------------------------------------


def test_path_probe_needs_no_qp(nic: NicBench, distant: FarEnd) -> None:
    evs = [0x00010000, 0x10020001, 0x30030000]
    frames = nic.probe(evs, distant.peer, ProbeKind.PATH)
    for number, (frame, ev) in enumerate(zip(frames, evs, strict=True)):
        request = packet_of(frame, EndpointRequest)
        assert (request.bth.psn, nic.next_kick.probe_id[number]) == (number, number)
        expected = replace(distant.probe_request(number), erth=request.erth)
        assert frame == encode_frame(distant.leaving(expected, ev))


def test_path_probe_to_a_neighbour_stays_at_the_t0(nic: NicBench, neighbour: FarEnd) -> None:
    (frame,) = nic.probe([0x20000005], neighbour.peer, ProbeKind.PATH)
    request = packet_of(frame, EndpointRequest)
    expected = replace(neighbour.probe_request(0), erth=request.erth)
    assert frame == encode_frame(neighbour.leaving(expected, 0x20000005))


def test_response_to_a_path_probe_is_reported_once_with_its_rtt(nic: NicBench, distant: FarEnd) -> None:
    ev = 0x10020001
    nic.probe([0x00010000, ev], distant.peer, ProbeKind.PATH)
    octets = distant.arriving_octets(distant.probe_response(1), 1, ev)
    assert nic.receive(octets, 1).counters == {NicCounter.RX_PROBE_RESPONSE: 1}
    assert nic.receive(octets, 1).counters == {NicCounter.DROP_STALE_PROBE: 1}
    (event,) = nic.events()
    assert (event.kind, event.a, event.c, event.d) == (EventKind.PROBE, 1, ev, distant.peer)
    assert event.b > 0
    other = distant.arriving_octets(distant.probe_response(0), 0, 0x00010001)
    assert nic.receive(other, 0).counters == {NicCounter.DROP_STALE_PROBE: 1}
