"""Which EV carries a packet: silent ones lose their turn, twins of a failed path do not stand in for it."""

from collections import deque

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from reference.ev_partition import PlanePartition, ev_partition
from reference.packet import EndpointRequest
from write_source import Sent, WriteSource

from mrc_agents.abi import EvState
from mrc_testbed.topology.ev_set import build_ev_set

WINDOW = 8
THRESHOLD = 16
SILENCE_ACKS = WINDOW + WINDOW // 4


def lose_all_on(source: WriteSource, ev: int) -> list[tuple[int, Sent]]:
    """Packets that left, each with the acknowledgements before it, until *ev*, a dead one, is found bad."""
    log = [(0, packet) for packet in source.send()]
    under_way = deque(packet for _, packet in log if packet.ev != ev)
    while source.nic.qp().evs.ev[ev].state == EvState.GOOD:
        following = source.deliver(under_way.popleft())
        assert following is not None
        log.append((source.nic.qp().comp.acked_total, following))
        if following.ev != ev:
            under_way.append(following)
    return log


def test_ev_that_owes_an_acknowledgement_loses_its_turn(nic: NicBench, distant: FarEnd) -> None:
    """So a dead path takes a few packets, and not all whose turn comes before the loss is proven."""
    attributes = distant.attributes(
        evs=build_ev_set(distant.clos, distant.host, distant.peer, 4),
        backup_per_plane=0,
        window_packets=WINDOW,
        loss_threshold_acks=THRESHOLD,
    )
    source = WriteSource(nic, distant, attributes)
    source.post(2048 * 100)
    log = lose_all_on(source, ev=2)
    used_at = [acks for acks, packet in log if packet.ev == 2]
    assert used_at
    assert max(used_at) <= SILENCE_ACKS
    assert log[-1][0] > THRESHOLD
    turns_missed = [packet for acks, packet in log if SILENCE_ACKS < acks <= THRESHOLD]
    assert len(turns_missed) > len(attributes.evs)


def test_retransmission_avoids_the_ev_that_lost_the_packet_even_if_the_floor_keeps_it(
    nic: NicBench, distant: FarEnd
) -> None:
    attributes = distant.attributes(
        evs=build_ev_set(distant.clos, distant.host, distant.peer, 4),
        backup_per_plane=0,
        window_packets=WINDOW,
        loss_threshold_acks=THRESHOLD,
        min_active=4,
    )
    source = WriteSource(nic, distant, attributes)
    source.post(2048 * 60)
    under_way = deque(source.send())
    lost = under_way.popleft()
    while not (following := source.deliver(under_way.popleft())) or following.psn != lost.psn:
        under_way += [following] if following is not None else []
    assert following.ev != lost.ev
    assert nic.qp().evs.ev[lost.ev].state == EvState.GOOD


def with_order_as_given(nic: NicBench, source: WriteSource) -> None:
    """Puts the EVs of each plane in the order of their indices, the last one backup."""
    with nic.editing_qp() as qp:
        for index in range(qp.evs.plane_count * qp.evs.per_plane):
            qp.evs.order[index], qp.evs.ev[index].position = index, index % qp.evs.per_plane
    ev_partition(nic.qp())


@pytest.mark.parametrize(
    ("uplinks", "stands_in"), [((0, 1, 0, 2), True), ((0, 1, 2, 0), False), ((0, 0, 0, 0), False)]
)
def test_backup_must_be_on_another_path(
    nic: NicBench, distant: FarEnd, uplinks: tuple[int, ...], stands_in: bool
) -> None:
    attributes = distant.attributes(
        evs=distant.evs_on_uplinks(*uplinks), window_packets=WINDOW, loss_threshold_acks=THRESHOLD
    )
    source = WriteSource(nic, distant, attributes)
    with_order_as_given(nic, source)
    source.post(2048 * 100)
    first_of_plane_1, backup_of_plane_1 = 4, 7
    lose_all_on(source, first_of_plane_1)
    part = ev_partition(nic.qp())[1]
    assert part.bad == {first_of_plane_1}
    assert part.active == ({5, 6, 7} if stands_in else {5, 6})
    assert (backup_of_plane_1 in part.backup) is not stands_in


def test_backup_on_another_path_is_found_behind_twins(nic: NicBench, distant: FarEnd) -> None:
    attributes = distant.attributes(
        evs=distant.evs_on_uplinks(0, 3, 0, 0),
        backup_per_plane=3,
        window_packets=WINDOW,
        loss_threshold_acks=THRESHOLD,
    )
    source = WriteSource(nic, distant, attributes)
    with_order_as_given(nic, source)
    source.post(2048 * 100)
    lose_all_on(source, 4)
    part = ev_partition(nic.qp())[1]
    assert part == PlanePartition(frozenset({5}), frozenset({6, 7}), frozenset({4}))


def test_hosts_of_one_t0_have_one_path_and_so_any_backup_will_do(nic: NicBench, neighbour: FarEnd) -> None:
    attributes = neighbour.attributes(
        evs=neighbour.evs_on_uplinks(0, 0, 0, 0), window_packets=WINDOW, loss_threshold_acks=THRESHOLD
    )
    source = WriteSource(nic, neighbour, attributes)
    with_order_as_given(nic, source)
    source.post(2048 * 100)
    lose_all_on(source, 4)
    assert ev_partition(nic.qp())[1].active == {5, 6, 7}


def test_backup_falls_when_a_packet_from_its_former_life_proves_lost(nic: NicBench, distant: FarEnd) -> None:
    attributes = distant.attributes(
        evs=distant.evs_on_uplinks(0, 1),
        window_packets=WINDOW,
        loss_threshold_acks=THRESHOLD,
        probe_success_target=1,
    )
    source = WriteSource(nic, distant, attributes)
    with_order_as_given(nic, source)
    source.post(2048 * 100)
    dead, substitute = 2, 3
    log = lose_all_on(source, dead)
    late = [acks for acks, packet in log if packet.ev == dead and acks]
    assert late, "no packet on the dead EV that is found lost later than the first"
    (frame,) = nic.probe([dead])
    response = distant.probe_response(packet_of(frame, EndpointRequest).bth.psn)
    nic.receive(distant.arriving_octets(response, 1, source.attributes.evs[dead]), 1)
    assert ev_partition(nic.qp())[1] == PlanePartition(
        frozenset({substitute}), frozenset({dead}), frozenset()
    )
    under_way = deque(packet for _, packet in log if packet.ev != dead and packet.psn in unheard(source))
    while nic.qp().evs.ev[dead].state == EvState.GOOD:
        following = source.deliver(under_way.popleft())
        assert following is not None
        under_way.append(following)
    assert ev_partition(nic.qp())[1] == PlanePartition(
        frozenset({substitute}), frozenset(), frozenset({dead})
    )
    assert nic.qp().evs.ev[dead].bad_count == 2


@pytest.mark.parametrize("first_plane", range(4))
def test_dead_path_carries_nothing_while_any_other_comes_along(
    nic: NicBench, distant: FarEnd, first_plane: int
) -> None:
    """Though every other EV has lost its turn."""
    source = WriteSource(nic, distant, distant.attributes(evs=distant.evs_on_uplinks(0, 0, 0)))
    source.post(2048)
    with nic.editing_qp() as qp:
        for ev in qp.evs.ev[: len(source.attributes.evs)]:
            if ev.plane == 1:
                qp.paths.path[ev.path].is_dead = 1
            else:
                ev.state = EvState.SKIP
        qp.req.next_plane = first_plane
    (packet,) = source.send()
    assert packet.plane != 1


def unheard(source: WriteSource) -> set[int]:
    """PSNs that the responder has not received."""
    return {packet.psn for packet in source.sent if not source.reference.has(packet.psn)}


def test_plane_that_comes_back_fills_up_to_its_share(nic: NicBench, distant: FarEnd) -> None:
    """Turns alone would leave it with what is under way as it comes: as much returns from each plane."""
    window = 40
    source = WriteSource(nic, distant, distant.attributes(window_packets=window, loss_threshold_acks=1 << 20))
    source.post(2048 * 1000)
    nic.control.port_up_mask = 0b0001
    under_way = deque(source.send())
    assert {packet.plane for packet in under_way} == {0}
    nic.control.port_up_mask = 0b0011
    for _ in range(4 * window):
        following = source.deliver(under_way.popleft())
        under_way.extend([following] if following else source.send())
    counts = [sum(packet.plane == plane for packet in under_way) for plane in range(2)]
    assert sum(counts) == nic.qp().req.inflight
    assert [nic.qp().evs.planes[plane].outstanding for plane in range(2)] == counts
    assert min(counts) > window // 4
