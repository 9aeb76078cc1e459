"""Packets that stay in order on their path: what one that arrives, or a path that is silent, proves."""

from collections import deque
from dataclasses import replace

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from reference.ev_partition import ev_partition
from reference.packet import EndpointRequest
from write_source import Sent, WriteSource

from mrc_agents.abi import EventKind, EvLayout, EvState, Limit, NicCounter, QpState
from mrc_agents.protocol.cc_profile import CcLink, CcParameters, derive_profile

WINDOW = 24
NEVER_ACKS = 1 << 20
TAIL_NS = 50_000_000
RTO_NS = 2_000_000_000


def path_of(source: WriteSource, packet: Sent) -> int:
    """Plane and uplink of a packet's EV."""
    return packet.entropy >> 16


@pytest.fixture
def source(nic: NicBench, distant: FarEnd) -> WriteSource:
    """Two EVs on each of two paths per plane, and losses that nothing but the order on a path can prove."""
    attributes = distant.attributes(
        evs=distant.evs_on_uplinks(0, 1, 0, 1), window_packets=WINDOW, loss_threshold_acks=NEVER_ACKS
    )
    source = WriteSource(nic, distant, attributes)
    source.post(2048 * 400)
    return source


def share_a_path(source: WriteSource, packets: list[Sent], count: int) -> list[Sent]:
    """The first *count* packets that took one path, that of the first packet of which there are so many."""
    for first in packets:
        same = [packet for packet in packets if path_of(source, packet) == path_of(source, first)]
        if len(same) >= count:
            return same[:count]
    raise AssertionError("no path has so many packets")


def test_burst_lost_on_a_path_is_found_by_the_first_packet_behind_it(source: WriteSource) -> None:
    packets = source.send()
    *lost, last = share_a_path(source, packets, 3)
    first = source.deliver(last)
    again = [] if first is None else [first]
    again += [packet for packet in source.send() if packet.write.bth.is_retransmission]
    assert [packet.psn for packet in again] == [packet.psn for packet in lost]


def test_slow_path_is_not_taken_for_a_dead_one(nic: NicBench, distant: FarEnd) -> None:
    """It is late by many windows, but now and then one of its packets is acknowledged."""
    threshold = 2 * WINDOW
    attributes = distant.attributes(
        evs=distant.evs_on_uplinks(0, 1),
        window_packets=WINDOW,
        loss_threshold_acks=threshold,
        backup_per_plane=0,
    )
    source = WriteSource(nic, distant, attributes)
    source.post(2048 * 2000)
    packets = source.send()
    slow_path = path_of(source, packets[0])
    slow = deque(packet for packet in packets if path_of(source, packet) == slow_path)
    others = deque(packet for packet in packets if path_of(source, packet) != slow_path)
    sent_on_it = len(slow)
    for turn in range(20 * threshold):
        is_slow_turn = turn % (threshold - 4) == 0 and bool(slow)
        following = source.deliver(slow.popleft() if is_slow_turn else others.popleft())
        if following is None:
            continue
        assert not following.write.bth.is_retransmission
        (slow if path_of(source, following) == slow_path else others).append(following)
        sent_on_it += path_of(source, following) == slow_path
    assert all(not part.bad for part in ev_partition(nic.qp()))
    # it takes no more than it carries
    assert len(slow) < WINDOW // 2
    assert sent_on_it < 20 * threshold // 8


def test_late_path_gets_no_packets_whatever_ev_names_it(source: WriteSource) -> None:
    packets = source.send()
    dead = path_of(source, packets[0])
    under_way = deque(packet for packet in packets if path_of(source, packet) != dead)
    latest = 0
    for _ in range(10 * WINDOW):
        following = source.deliver(under_way.popleft())
        if following is None:
            continue
        if path_of(source, following) == dead:
            latest = source.nic.qp().comp.acked_total
        else:
            under_way.append(following)
    window = source.nic.qp().req.tx[packets[0].psn].window_packets
    assert WINDOW <= window <= WINDOW + 2
    assert latest <= window + window // 4 + 1


def test_dead_path_gets_no_packets_until_an_ev_on_it_returns(nic: NicBench, distant: FarEnd) -> None:
    """Its EVs that lost nothing stay in the set, but have no turn either."""
    attributes = distant.attributes(
        evs=distant.evs_on_uplinks(0, 1, 0, 1, 0, 1),
        backup_per_plane=0,
        window_packets=WINDOW,
        loss_threshold_acks=2 * WINDOW,
        probe_success_target=1,
    )
    source = WriteSource(nic, distant, attributes)
    source.post(2048 * 2000)
    packets = source.send()
    dead = path_of(source, packets[0])
    under_way = deque(packet for packet in packets if path_of(source, packet) != dead)
    for _ in range(12 * WINDOW):
        following = source.deliver(under_way.popleft()) if under_way else source.send(1)[0]
        if following is not None and path_of(source, following) != dead:
            under_way.append(following)
    fallen = [index for part in ev_partition(nic.qp()) for index in part.bad]
    assert fallen
    assert all(attributes.evs[index] >> 16 == dead for index in fallen)
    number = nic.qp().evs.ev[fallen[0]].path
    assert (nic.qp().paths.path[number].outstanding, nic.qp().paths.path[number].is_dead) == (0, 1)
    assert all(path_of(source, packet) != dead for packet in source.sent[-4 * WINDOW :])

    (probe,) = nic.probe([fallen[0]])
    request_id = packet_of(probe, EndpointRequest).bth.psn
    entropy = attributes.evs[fallen[0]]
    plane = entropy >> EvLayout.PLANE_SHIFT
    nic.receive(distant.arriving_octets(distant.probe_response(request_id), plane, entropy), plane)
    assert nic.qp().paths.path[number].is_dead == 0
    for _ in range(4 * WINDOW):
        following = source.deliver(under_way.popleft())
        under_way.extend(source.send() if following is None else [following])
    assert any(path_of(source, packet) == dead for packet in source.sent[-4 * WINDOW :])


def tail_loss_probe(source: WriteSource) -> Sent:
    """The next one, after which none is sent any more."""
    source.hasten(pto_min_ns=TAIL_NS)
    probes, _ = source.send_when_asked()
    source.hasten(pto_min_ns=0)
    return probes[0]


def test_silent_tail_is_probed_and_the_sack_shows_what_is_lost(nic: NicBench, timed: FarEnd) -> None:
    source = WriteSource(nic, timed)
    before = nic.counters()
    source.post(2048 * 6)
    packets = source.send()
    for packet in packets[:3]:
        source.deliver(packet)
    probe = tail_loss_probe(source)
    assert (probe.psn, probe.write.bth.is_retransmission) == (3, True)
    assert all(not part.bad for part in ev_partition(nic.qp(source.index)))
    assert nic.qp(source.index).head.retries == 0

    again = source.deliver(probe)
    found = ([] if again is None else [again]) + source.send()
    assert [(packet.psn, packet.write.bth.is_retransmission) for packet in found] == [(4, True), (5, True)]
    for lost in packets[3:5]:
        assert nic.qp(source.index).evs.ev[lost.ev].state == EvState.ASSUMED_BAD
    for packet in found:
        source.deliver(packet)
    changed = nic.grown(before)
    assert changed[NicCounter.TX_RETRANSMIT_TAIL] == changed[NicCounter.MESSAGES] == 1
    assert changed[NicCounter.TX_RETRANSMIT_SACK] == 2
    assert NicCounter.TX_RETRANSMIT_TIMEOUT not in changed


def probed_message(nic: NicBench, timed: FarEnd) -> tuple[WriteSource, Sent, Sent]:
    """The second message of one packet, and the tail loss probe that repeats it."""
    source = WriteSource(nic, timed)
    source.post(100)
    source.deliver(*source.send())
    source.post(100)
    (packet,) = source.send()
    probe = tail_loss_probe(source)
    assert (probe.psn, probe.write.bth.is_retransmission) == (packet.psn, True)
    return source, packet, probe


def test_ev_of_a_message_that_a_tail_loss_probe_completes_leaves(nic: NicBench, timed: FarEnd) -> None:
    """Its answer is an ACK, which says no less than a SACK."""
    source, packet, probe = probed_message(nic, timed)
    source.deliver(probe)
    qp = nic.qp(source.index)
    assert qp.evs.ev[packet.ev].state == EvState.ASSUMED_BAD
    assert qp.evs.ev[probe.ev].state == EvState.GOOD


def test_ev_of_a_message_that_had_only_been_late_stays(nic: NicBench, timed: FarEnd) -> None:
    source, packet, _ = probed_message(nic, timed)
    source.acknowledge(packet.psn, 2, plane=packet.plane, entropy=packet.entropy)
    qp = nic.qp(source.index)
    assert qp.evs.ev[packet.ev].state == EvState.GOOD
    assert qp.comp.reo_wnd_steps == 1


def test_probe_that_is_not_answered_is_followed_by_another(nic: NicBench, timed: FarEnd) -> None:
    source, packet, probe = probed_message(nic, timed)
    assert tail_loss_probe(source).psn == packet.psn
    assert len({path_of(source, each) for each in (packet, probe)}) == 2
    qp = nic.qp(source.index)
    assert qp.evs.ev[packet.ev].state == EvState.ASSUMED_BAD
    assert qp.head.retries == 0


def test_lost_packet_is_sent_again_on_another_path(nic: NicBench, distant: FarEnd) -> None:
    """Not on another EV of the same, as one NIC port and two uplinks invite to."""
    for seed in range(8):
        nic.reset()
        nic.control.port_up_mask = 1
        attributes = distant.attributes(evs=distant.evs_on_uplinks(0, 1, 0, 1), backup_per_plane=0, seed=seed)
        source = WriteSource(nic, distant, attributes)
        source.post(2048 * 8)
        lost, later = share_a_path(source, source.send(), 2)
        again = source.deliver(later) or source.send()[0]
        assert again.psn == lost.psn
        assert path_of(source, again) != path_of(source, lost)


def test_silence_is_probed_once(nic: NicBench, timed: FarEnd) -> None:
    source = WriteSource(nic, timed, timed.attributes(pto_min_ns=TAIL_NS, rto_ns=RTO_NS, retry_limit=0))
    source.post(2048 * 3)
    source.send()
    probes: list[Sent] = []
    while nic.qp(source.index).state == QpState.RTS:
        kinds = {event.kind for event in nic.await_events()}
        if EventKind.KICK in kinds:
            probes += source.send()
    assert [packet.psn for packet in probes] == [0]


def test_a_qp_of_one_packet_fails_though_it_is_probed(nic: NicBench, timed: FarEnd) -> None:
    """A probe leaves nothing else in flight, and still the RTO goes on."""
    source = WriteSource(nic, timed, timed.attributes(pto_min_ns=TAIL_NS, rto_ns=RTO_NS, retry_limit=0))
    source.post(2048)
    source.send()
    probes: list[Sent] = []
    while nic.qp(source.index).state == QpState.RTS:
        kinds = {event.kind for event in nic.await_events()}
        if EventKind.KICK in kinds:
            probes += source.send()
        assert len(probes) < 20
    assert probes


def full_window(nic: NicBench, timed: FarEnd) -> WriteSource:
    """A QP whose congestion window is full: nothing more leaves before an acknowledgement comes."""
    cc = CcParameters.from_profile(derive_profile(CcLink(5 * 10**8, 750_000, 2048), {}))
    attributes = replace(timed.attributes(), cc=cc)
    source = WriteSource(nic, timed, attributes)
    source.post(2048 * 100)
    source.send()
    assert nic.qp(source.index).cc.inflight_bytes >= nic.qp(source.index).cc.cwnd_bytes
    return source


def test_a_tail_loss_probe_leaves_though_the_window_is_full(nic: NicBench, timed: FarEnd) -> None:
    """The packets that fill the window are not acknowledged, so nothing else would ever open it."""
    source = full_window(nic, timed)
    source.hasten(rto_ns=RTO_NS)
    probe = tail_loss_probe(source)
    assert (probe.psn, probe.write.bth.is_retransmission) == (0, True)
    assert nic.qp(source.index).req.rto_retx_left == 0


def test_what_a_time_out_finds_lost_leaves_though_the_window_is_full(nic: NicBench, timed: FarEnd) -> None:
    source = full_window(nic, timed)
    source.hasten(rto_ns=10 * TAIL_NS)
    again, _ = source.send_when_asked()
    assert all(packet.write.bth.is_retransmission for packet in again)
    assert nic.qp(source.index).req.rto_retx_left == 0
    source.deliver(again[0])
    assert nic.qp(source.index).head.retries == 0


def test_evs_that_name_no_path_have_one_each(nic: NicBench, distant: FarEnd) -> None:
    evs = distant.evs_on_uplinks(0, 0, 0, 0)
    WriteSource(nic, distant, distant.attributes(evs=evs, evs_name_paths=0))
    assert [ev.path for ev in nic.qp().evs.ev][: len(evs)] == list(range(len(evs)))
    nic.reset()
    WriteSource(nic, distant, distant.attributes(evs=evs))
    planes = distant.clos.spec.planes
    assert [ev.path for ev in nic.qp().evs.ev][: len(evs)] == [index // 4 for index in range(4 * planes)]


def test_chains_hold_what_is_under_way_whatever_happens(source: WriteSource) -> None:
    """Each path's chain, walked from its head, is its packets under way in the order they left."""
    under_way = deque(source.send())
    for turn in range(300):
        place = turn * 7919 % len(under_way)
        packet = under_way[place]
        del under_way[place]
        following = None if turn % 5 == 0 else source.deliver(packet)
        under_way.extend([] if following is None else [following])
        under_way.extend(source.send())
        if not under_way:
            break
        check_chains(source)


def check_chains(source: WriteSource) -> None:
    """Fails where chains and slots disagree."""
    qp = source.nic.qp()
    walked = 0
    for number, path in enumerate(qp.paths.path):
        slot, previous, order = path.head, None, None
        for _ in range(path.outstanding):
            entry = qp.req.tx[slot]
            assert qp.evs.ev[entry.ev_index].path == number
            assert previous is None or entry.path_prev == previous
            assert order is None or (entry.order - order) % (1 << 16) < 1 << 15
            previous, order = slot, entry.order
            last, slot = slot, entry.path_next
        if path.outstanding:
            assert path.tail == last
        walked += path.outstanding
    assert walked == qp.req.inflight
    place, seen = qp.paths.oldest, []
    for _ in range(qp.paths.busy):
        seen.append(place)
        place = qp.paths.path[place].newer
    assert sorted(seen) == [number for number, path in enumerate(qp.paths.path) if path.outstanding]
    assert not seen or seen[-1] == qp.paths.newest
    assert qp.req.inflight <= Limit.PSN_RING
