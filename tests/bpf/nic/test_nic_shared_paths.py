"""QPs of a NIC to hosts of one T0 share their paths: what one finds out, the others use."""

from collections import Counter

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from reference.packet import EndpointRequest
from write_source import Sent, WriteSource

from mrc_agents.abi import Command, EventKind, EvLayout, EvReason, EvState
from mrc_agents.nic.qp import QpAttributes, nic_path
from mrc_testbed.topology.ev import Ev

UPLINKS = (0, 1, 2, 3)
SRTT_MAX_NS = (1 << 30) - 1


def attributes(far: FarEnd, *uplinks: int, **changes: int) -> QpAttributes:
    """Two EVs on each uplink of each plane, all of them active."""
    planes = range(far.clos.spec.planes)
    evs = tuple(Ev(plane, uplink, copy).value for plane in planes for uplink in uplinks for copy in range(2))
    return far.attributes(evs=evs, **({"backup_per_plane": 0, "shares_paths": 1} | changes))


def path_of(source: WriteSource, ev: int) -> int:
    return source.attributes.evs[ev] >> EvLayout.UPLINK_SHIFT


def lose_one(source: WriteSource) -> Sent:
    """A packet that a later one on its path passes."""
    packets = source.send()
    for lost in packets:
        later = [packet for packet in packets if path_of(source, packet.ev) == path_of(source, lost.ev)]
        if len(later) > 1 and later[0] is lost:
            source.deliver(later[1])
            return lost
    raise AssertionError("no path has two packets")


def deliver_late(nic: NicBench, source: WriteSource, packet: Sent, *, srtt_ns: int = SRTT_MAX_NS) -> None:
    """Lets a packet arrive that was given up, by default in time however slow this machine is."""
    nic.edit_qp(srtt_ns=srtt_ns)
    source.deliver(packet)


def one_of_two(nic: NicBench, far: FarEnd, **changes: int) -> WriteSource:
    source = WriteSource(nic, far, attributes(far, *UPLINKS, **changes))
    source.post(2048 * 100)
    return source


@pytest.fixture
def first(nic: NicBench, distant: FarEnd) -> WriteSource:
    """A QP that has lost a packet."""
    return one_of_two(nic, distant)


def test_path_on_which_one_qp_lost_a_packet_is_left_alone_by_another(
    nic: NicBench, first: WriteSource, timed: FarEnd
) -> None:
    second = one_of_two(nic, timed)
    lost = lose_one(first)
    place = nic.paths.path[nic_path(nic.qp(), first.attributes.evs[lost.ev])]
    assert place.suspected_ns > 0
    assert place.falls == 1
    avoided = path_of(first, lost.ev)
    packets = second.send()  # long before the two seconds of a suspicion are over
    assert len(packets) > 4 * len(UPLINKS)
    assert avoided not in {path_of(second, packet.ev) for packet in packets}
    assert all(ev.state == EvState.GOOD for ev in nic.qp(second.index).evs.ev[: len(second.attributes.evs)])


def test_turn_of_a_path_that_is_left_alone_goes_to_another_of_its_plane(
    nic: NicBench, first: WriteSource, timed: FarEnd
) -> None:
    """Its port is not to blame: planes go on carrying the same."""
    second = one_of_two(nic, timed)
    lose_one(first)
    counts = Counter(packet.plane for packet in second.send())
    assert counts.keys() == set(range(timed.clos.spec.planes))
    assert max(counts.values()) - min(counts.values()) <= 1


def test_qps_that_had_nothing_under_way_begin_on_planes_in_turn(
    nic: NicBench, distant: FarEnd, timed: FarEnd
) -> None:
    sources = [WriteSource(nic, far, attributes(far, *UPLINKS)) for far in (distant, timed)]
    planes: list[int] = []
    for _ in range(4):
        for source in sources:
            source.post(100)
            (packet,) = source.send()
            planes.append(packet.plane)
            source.deliver(packet)
    count = timed.clos.spec.planes
    assert planes == [(planes[0] + i) % count for i in range(len(planes))]


def test_qp_that_shares_nothing_does_not_use_it(nic: NicBench, first: WriteSource, timed: FarEnd) -> None:
    second = one_of_two(nic, timed, shares_paths=0)
    lost = lose_one(first)
    assert path_of(first, lost.ev) in {path_of(second, packet.ev) for packet in second.send()}


def test_suspected_path_is_taken_when_there_is_no_other(
    nic: NicBench, first: WriteSource, timed: FarEnd
) -> None:
    lost = lose_one(first)
    plane, uplink = divmod(path_of(first, lost.ev), 1 << (EvLayout.PLANE_SHIFT - EvLayout.UPLINK_SHIFT))
    nic.control.port_up_mask = 1 << plane
    second = WriteSource(nic, timed, attributes(timed, uplink))
    second.post(2048 * 4)
    assert len(second.send()) == 4


def test_answered_probes_clear_a_path_for_all(nic: NicBench, first: WriteSource, timed: FarEnd) -> None:
    second = one_of_two(nic, timed)
    lost = lose_one(first)
    entropy = first.attributes.evs[lost.ev]
    place = nic_path(nic.qp(), entropy)
    for _ in range(first.attributes.probe_success_target):
        assert nic.paths.path[place].suspected_ns > 0
        (probe,) = nic.probe([lost.ev])
        response = first.far.probe_response(packet_of(probe, EndpointRequest).bth.psn)
        nic.receive(first.far.arriving_octets(response, lost.plane, entropy), lost.plane)
    assert nic.qp().evs.ev[lost.ev].state == EvState.GOOD
    assert nic.paths.path[place].suspected_ns == 0
    assert path_of(first, lost.ev) in {path_of(second, packet.ev) for packet in second.send()}


def test_packet_that_was_only_late_gives_back_its_ev_and_its_path(nic: NicBench, first: WriteSource) -> None:
    lost = lose_one(first)
    place = nic.paths.path[nic_path(nic.qp(), first.attributes.evs[lost.ev])]
    nic.events()
    deliver_late(nic, first, lost)
    ev = nic.qp().evs.ev[lost.ev]
    assert (ev.state, ev.reason) == (EvState.GOOD, EvReason.LATE)
    assert place.suspected_ns == 0
    (event,) = nic.events(EventKind.EV_STATE)
    assert (event.a, event.b) == (lost.ev, EvState.ASSUMED_BAD)
    assert (event.c, event.d) == (EvState.GOOD, EvReason.LATE)


def test_late_packet_gives_nothing_back_once_another_was_lost_there(
    nic: NicBench, first: WriteSource
) -> None:
    packets = first.send()
    path = path_of(first, packets[0].ev)
    one, later = [packet for packet in packets if path_of(first, packet.ev) == path][:2]
    first.deliver(later)
    assert nic.qp().evs.ev[one.ev].state == EvState.ASSUMED_BAD
    with nic.editing_qp() as qp:
        qp.evs.ev[one.ev].lost_packets += 1
    deliver_late(nic, first, one)
    assert nic.qp().evs.ev[one.ev].state == EvState.ASSUMED_BAD


def test_packet_that_is_late_by_more_than_a_round_trip_gives_nothing_back(
    nic: NicBench, first: WriteSource
) -> None:
    """Its path is slow: used again, it would make the next packet as late."""
    lost = lose_one(first)
    deliver_late(nic, first, lost, srtt_ns=1)
    assert nic.qp().evs.ev[lost.ev].state == EvState.ASSUMED_BAD


def test_late_packet_does_not_bring_back_what_the_administrator_took_away(
    nic: NicBench, first: WriteSource
) -> None:
    lost = lose_one(first)
    assert nic.command(Command.GOOD, first.index, lost.ev)
    assert nic.command(Command.ASSUMED_BAD, first.index, lost.ev)
    deliver_late(nic, first, lost)
    assert nic.qp().evs.ev[lost.ev].state == EvState.ASSUMED_BAD


def test_retransmission_that_arrives_gives_nothing_back(nic: NicBench, first: WriteSource) -> None:
    packets = first.send()
    path = path_of(first, packets[0].ev)
    lost, later = [packet for packet in packets if path_of(first, packet.ev) == path][:2]
    again = first.deliver(later)
    assert again is not None
    assert (again.psn, again.write.bth.is_retransmission) == (lost.psn, True)
    first.deliver(again)
    assert nic.qp().evs.ev[lost.ev].state == EvState.ASSUMED_BAD


def test_suspicion_that_nothing_confirms_ends(nic: NicBench, first: WriteSource, timed: FarEnd) -> None:
    second = one_of_two(nic, timed)
    lost = lose_one(first)
    nic.paths.path[nic_path(nic.qp(), first.attributes.evs[lost.ev])].suspected_ns = 1
    assert path_of(first, lost.ev) in {path_of(second, packet.ev) for packet in second.send()}


def test_loss_within_a_t0_on_a_path_that_is_alive_suspects_nothing(nic: NicBench, neighbour: FarEnd) -> None:
    """A plane has no other path to hosts there, and what left on it later has arrived."""
    source = WriteSource(nic, neighbour, neighbour.attributes(shares_paths=1))
    source.post(2048 * 100)
    packets = source.send()
    lost, later = [packet for packet in packets if packet.plane == packets[0].plane][:2]
    source.deliver(later)
    assert nic.qp().evs.ev[lost.ev].state == EvState.ASSUMED_BAD
    assert nic.paths.path[nic_path(nic.qp(), source.attributes.evs[lost.ev])].suspected_ns == 0


def test_silence_within_a_t0_suspects_the_path(nic: NicBench, neighbour: FarEnd) -> None:
    source = WriteSource(nic, neighbour, neighbour.attributes(shares_paths=1, loss_threshold_acks=8))
    source.post(2048 * 400)
    packets = source.send(200)
    silent = packets[0].plane
    for packet in packets:
        if packet.plane != silent:
            source.deliver(packet)
    entropy = source.attributes.evs[packets[0].ev]
    assert nic.paths.path[nic_path(nic.qp(), entropy)].suspected_ns > 0


def test_unanswered_probe_confirms_a_suspicion(nic: NicBench, first: WriteSource) -> None:
    lost = lose_one(first)
    place = nic.paths.path[nic_path(nic.qp(), first.attributes.evs[lost.ev])]
    nic.probe([lost.ev])
    before_ns = place.suspected_ns
    nic.probe([lost.ev])
    assert place.suspected_ns > before_ns
    assert place.falls == 1
