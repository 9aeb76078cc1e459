"""Reliability probes and port status updates: what is answered, and what the answers do."""

from dataclasses import replace

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench, Outcome
from program_bench import Verdict
from reference.endpoint_header import EndpointOperation
from reference.frame import decode_frame
from reference.opcode import Opcode
from reference.packet import EndpointRequest, Probe, Sack
from reference.reliability_header import PathAdvice, Peth, Seth
from reference.transport_header import Bth
from write_source import WriteSource
from write_target import WriteTarget

from mrc_agents.abi import EventKind, EvReason, EvState, NicCounter, ProbeKind, QpState

EV = 1 << 28 | 1 << 16 | 5


@pytest.fixture
def source(nic: NicBench, distant: FarEnd) -> WriteSource:
    source = WriteSource(nic, distant)
    source.post(2048 * 200)
    return source


# -- reliability probes --------------------------------------------------------------------------------------


def test_probe_is_answered_by_a_sack_at_once(target: WriteTarget, nic: NicBench, distant: FarEnd) -> None:
    for psn in (0, 1, 3):
        target.deliver(target.packet(psn, b"x", psn), psn)
    probe = Probe(Bth(Opcode.PROBE, distant.qpn), Peth(0xFFFE, 0x1357))
    outcome = nic.receive(distant.arriving_octets(probe, 1, EV), 1)
    sack = packet_of(outcome.frame, Sack)
    distant.check_leaves(outcome, sack, EV)
    assert (sack.seth.is_probe_response, sack.seth.ack_psn_offset & 0xFFFF) == (True, 0xFFFE)
    assert (sack.seth.cack_psn, sack.seth.sack_bitmap, sack.seth.entropy) == (1, 0b10, EV)
    assert sack.cc_state.tx_timestamp == 0x1357
    assert outcome.counters == {NicCounter.RX_PROBE: 1, NicCounter.TX_SACK: 1}
    assert nic.qp().resp.cack_next == 2


@pytest.mark.parametrize("state", [QpState.RESET, QpState.INIT, QpState.ERROR])
def test_probe_of_a_qp_that_does_not_receive_is_dropped(
    target: WriteTarget, nic: NicBench, distant: FarEnd, state: QpState
) -> None:
    nic.edit_qp(state=state)
    probe = Probe(Bth(Opcode.PROBE, distant.qpn), Peth(1, 0))
    target.refuse(distant.arriving_octets(probe, 0), NicCounter.DROP_QP_STATE)


def test_probe_leaves_on_its_ev_to_the_peers_qp(source: WriteSource) -> None:
    (octets,) = source.nic.probe([6], source.index, kind=ProbeKind.RELIABILITY)
    packet = packet_of(octets, Probe)
    assert (packet.bth.destination_qpn, packet.bth.psn) == (source.far.peer_qpn, 0)
    assert decode_frame(octets) == source.far.leaving(packet, source.evs[6])


def answer_probe(source: WriteSource, ev: int, probe_id: int, advice: PathAdvice) -> None:
    offset = probe_id - 0x10000 if probe_id & 0x8000 else probe_id
    entropy = source.attributes.evs[ev]
    cack = (source.reference.next_psn - 1) & 0xFFFFFF
    source.feed(Seth(cack, entropy, ack_psn_offset=offset, is_probe_response=True, advice=advice))


@pytest.mark.parametrize(
    ("advice", "state"), [(PathAdvice.NONE, EvState.GOOD), (PathAdvice.SKIP_ONCE, EvState.SKIP)]
)
def test_answer_brings_a_bad_ev_back(source: WriteSource, advice: PathAdvice, state: EvState) -> None:
    packet = source.send()[0]
    entropy = packet.entropy
    source.feed(Seth(0, entropy, ack_psn_offset=0, advice=PathAdvice.ALWAYS_SKIP))
    assert source.nic.qp(source.index).evs.ev[packet.ev].state == EvState.ASSUMED_BAD
    source.reference.next_psn = 1
    source.nic.events()
    (octets,) = source.nic.probe([packet.ev], source.index, kind=ProbeKind.RELIABILITY)
    probe = packet_of(octets, Probe)
    samples = source.nic.rtt_samples(packet.plane)
    source.nic.control.port_up_mask = 0  # nothing leaves, so no turn comes
    answer_probe(source, packet.ev, probe.peth.probe_id, advice)
    ev = source.nic.qp(source.index).evs.ev[packet.ev]
    assert (EvState(ev.state), EvReason(ev.reason)) == (state, EvReason.PROBE)
    assert source.nic.rtt_samples(packet.plane) == samples  # it is of no data packet
    assert source.nic.qp(source.index).comp.una_psn == 1
    (event,) = source.nic.events(EventKind.EV_STATE)
    assert (event.b, event.c) == (EvState.ASSUMED_BAD, state)


def test_answer_to_another_ev_or_to_no_probe_changes_no_ev(source: WriteSource) -> None:
    packet, *_ = source.send()
    entropy = packet.entropy
    source.feed(Seth(0, entropy, ack_psn_offset=0, advice=PathAdvice.ALWAYS_SKIP))
    source.reference.next_psn = 1
    (octets,) = source.nic.probe([packet.ev], source.index, kind=ProbeKind.RELIABILITY)
    probe = packet_of(octets, Probe)
    answer_probe(source, (packet.ev + 1) % 16, probe.peth.probe_id, PathAdvice.NONE)
    answer_probe(source, packet.ev, probe.peth.probe_id ^ 1, PathAdvice.NONE)
    assert source.nic.qp(source.index).evs.ev[packet.ev].state == EvState.ASSUMED_BAD


# -- port status ---------------------------------------------------------------------------------------------


def update_ports(source: WriteSource, mask: int, request_id: int) -> Outcome:
    """The peer's message about its ports comes in."""
    update = source.far.port_update(mask, request_id)
    return source.nic.receive(source.far.arriving_octets(update, 0), 0)


def test_peer_that_loses_a_port_is_left_on_that_plane_until_it_is_back(source: WriteSource) -> None:
    far = source.far
    outcome = update_ports(source, 0b1101, 7)
    far.check_leaves(outcome, far.probe_response(7, 0x4321, EndpointOperation.PORT_STATUS_UPDATE), 0)
    assert {packet.plane for packet in source.send(12)} == {0, 2, 3}
    update_ports(source, 0b1111, 8)
    assert {packet.plane for packet in source.send()} == {0, 1, 2, 3}
    reported = [(event.a, event.b) for event in source.nic.events(EventKind.PEER_PORTS)]
    assert reported == [(far.peer, 0b1101), (far.peer, 0b1111)]


@pytest.mark.parametrize(("first", "late"), [(7, 6), (7, 7), (2, 0xFFFF)])
def test_late_update_does_not_undo_a_newer_one(source: WriteSource, first: int, late: int) -> None:
    update_ports(source, 0b0001, first)
    outcome = update_ports(source, 0b1111, late)
    assert outcome.verdict is Verdict.REDIRECT  # it is answered all the same
    assert source.nic.qp(source.index).evs.peer_port_mask == 0b0001


def test_ports_of_another_host_are_of_no_concern(source: WriteSource) -> None:
    stranger = replace(source.far, peer=0)
    source.nic.receive(stranger.arriving_octets(stranger.port_update(0, 1), 0, 0), 0)
    assert source.nic.qp(source.index).evs.peer_port_mask == 0xFFFFFFFF


def test_update_has_the_state_of_all_ports_and_its_response_is_reported(source: WriteSource) -> None:
    source.nic.control.port_up_mask = 0b1011
    (octets,) = source.nic.probe([0], source.index, kind=ProbeKind.PORT_STATUS)
    request = packet_of(octets, EndpointRequest)
    assert request.erth.operation is EndpointOperation.PORT_STATUS_UPDATE
    assert request.erth.port_status_mask == 0b1011
    assert not source.nic.qp(source.index).evs.ev[0].is_probe_pending
    answer = source.far.probe_response(request.bth.psn, 0, EndpointOperation.PORT_STATUS_UPDATE)
    source.nic.receive(source.far.arriving_octets(answer, 0, source.attributes.evs[0]), 0)
    (event,) = source.nic.events(EventKind.PORT_STATUS)
    assert (event.qp_index, event.a) == (source.index, 0b1011)


# -- ports in SACKs ------------------------------------------------------------------------------------------


def test_sack_names_the_ports_that_are_down(target: WriteTarget, nic: NicBench) -> None:
    nic.control.port_up_mask = 0b1011
    outcome = target.arrive(target.packet(0, b"x"))
    sack = packet_of(outcome.frame, Sack)
    assert (sack.seth.ports_down, sack.seth.cack_psn) == (0b0100, 0)


def planes_in_use(source: WriteSource) -> set[int]:
    return {packet.plane for packet in source.send(8)}


def receive_sack(source: WriteSource, cack: int, ports_down: int) -> None:
    """Receive a SACK with the state of ports; its frame is not sent again."""
    ev = source.attributes.evs[0]
    source.try_feed(Seth(cack_psn=cack, entropy=ev, ack_psn_offset=0, ports_down=ports_down))


def test_requester_leaves_a_plane_with_the_first_sack_and_returns_with_the_next(source: WriteSource) -> None:
    assert planes_in_use(source) == {0, 1, 2, 3}
    receive_sack(source, 0, 0b0110)
    assert planes_in_use(source) == {0, 3}
    receive_sack(source, 1, 0)
    assert planes_in_use(source) == {0, 1, 2, 3}


def test_old_sack_says_nothing_of_ports(source: WriteSource) -> None:
    source.send(8)
    receive_sack(source, 3, 0b0001)
    receive_sack(source, 2, 0)
    assert planes_in_use(source) == {1, 2, 3}


def test_neither_sack_nor_update_overrules_the_other(source: WriteSource) -> None:
    source.send(8)
    update_ports(source, 0b0111, 1)
    receive_sack(source, 0, 0b0001)
    assert planes_in_use(source) == {1, 2}
    receive_sack(source, 1, 0)  # of a peer that never fills the field
    assert planes_in_use(source) == {0, 1, 2}
    update_ports(source, 0b1111, 2)
    assert planes_in_use(source) == {0, 1, 2, 3}


def test_update_is_newer_than_any_sack_before_it(source: WriteSource) -> None:
    source.send(8)
    receive_sack(source, 0, 0b1110)
    assert planes_in_use(source) == {0}
    update_ports(source, 0b1111, 1)
    assert planes_in_use(source) | planes_in_use(source) | planes_in_use(source) == {0, 1, 2, 3}
