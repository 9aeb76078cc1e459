"""States of EVs without a loss: marks and the turn they cost, advice for good, the administrator's word."""

import pytest
from far_end import FarEnd
from nic_bench import NicBench
from reference.ev_partition import ev_partition
from reference.reliability_header import PathAdvice, Seth
from write_source import Sent, WriteSource

from mrc_agents.abi import Command, CompletionStatus, EventKind, EvLayout, EvReason, EvState, Limit, QpState
from mrc_testbed.topology.ev import Ev


@pytest.fixture
def source(nic: NicBench, distant: FarEnd) -> WriteSource:
    source = WriteSource(nic, distant)
    source.post(2048 * 200)
    return source


def state_of(source: WriteSource, ev: int) -> tuple[EvState, EvReason]:
    entry = source.nic.qp(source.index).evs.ev[ev]
    return EvState(entry.state), EvReason(entry.reason)


def advise(source: WriteSource, packet: Sent, advice: PathAdvice) -> Sent | None:
    """Lets the SACK of a packet that is next in order come in with *advice*; what its frame turned into."""
    reply = source.reference.receive(packet.psn, 100, entropy=packet.entropy, timestamp=0)
    assert isinstance(reply, tuple)
    seth, _ = reply
    return source.feed(Seth(seth.cack_psn, seth.entropy, advice=advice, ack_psn_offset=0), plane=packet.plane)


def test_marked_ev_loses_exactly_one_turn(source: WriteSource) -> None:
    packets = source.send(12)  # one cycle over the active EVs
    marked = packets[0].ev
    source.nic.control.port_up_mask = 0  # nothing leaves meanwhile, so no turn comes
    advise(source, packets[0], PathAdvice.SKIP_ONCE)
    source.nic.control.port_up_mask = 0xF
    assert state_of(source, marked) == (EvState.SKIP, EvReason.ECN)
    walked = [0]
    while state_of(source, marked) == (EvState.SKIP, EvReason.ECN):
        (packet,) = source.send(1)
        assert packet.ev != marked
        walked.append(packet.psn)
    assert state_of(source, marked) == (EvState.GOOD, EvReason.TURN)
    assert len(walked) <= 24  # its turn came within two cycles
    assert marked in {packet.ev for packet in source.send(24)}
    assert source.nic.qp(source.index).evs.ev[marked].marks == 1


def test_further_marks_do_not_cost_further_turns(source: WriteSource) -> None:
    packets = source.send(30)
    marked = packets[0].ev
    same = [packet for packet in packets if packet.ev == marked]
    assert len(same) > 1
    changed = []
    for packet in packets:
        if packet.psn > same[-1].psn:
            break
        source.nic.control.port_up_mask = 0  # nothing leaves meanwhile, so no turn comes
        advise(source, packet, PathAdvice.SKIP_ONCE if packet.ev == marked else PathAdvice.NONE)
        changed.append(source.nic.qp(source.index).evs.ev[marked].changed_ns)
    source.nic.control.port_up_mask = 0xF
    assert len(set(changed)) == 1
    assert source.nic.qp(source.index).evs.ev[marked].marks == len(same)


def test_mark_counts_although_another_sack_reported_the_packet_first(source: WriteSource) -> None:
    first, second, *_ = source.send(12)
    entropy = source.attributes.evs
    source.feed(Seth(1, entropy[second.ev], ack_psn_offset=0))
    source.feed(Seth(1, entropy[first.ev], ack_psn_offset=-1, advice=PathAdvice.SKIP_ONCE))
    assert source.nic.qp(source.index).evs.ev[first.ev].marks == 1


def test_of_evs_that_name_one_path_one_loses_its_turn_at_a_time(nic: NicBench, distant: FarEnd) -> None:
    """A mark is about the path: one with all of its EVs in SKIP would carry nothing for a pass."""
    planes = range(distant.clos.spec.planes)
    evs = tuple(Ev(plane, uplink, copy).value for plane in planes for uplink in (0, 1) for copy in range(4))
    source = WriteSource(nic, distant, distant.attributes(evs=evs, backup_per_plane=0, window_packets=400))
    source.post(2048 * 400)
    packets = source.send(2 * len(evs))
    nic.control.port_up_mask = 0  # nothing leaves meanwhile, so no turn comes
    for packet in packets[: len(evs)]:
        advise(source, packet, PathAdvice.SKIP_ONCE)
    nic.control.port_up_mask = 0xF
    paths = sorted({ev >> EvLayout.UPLINK_SHIFT for ev in evs})
    skipped = [ev for ev in range(len(evs)) if state_of(source, ev)[0] is EvState.SKIP]
    assert sorted(evs[ev] >> EvLayout.UPLINK_SHIFT for ev in skipped) == paths
    for _ in range(5):  # a packet restores one, however many it finds
        source.send(len(evs))
    assert {state_of(source, ev)[0] for ev in range(len(evs))} == {EvState.GOOD}
    nic.control.port_up_mask = 0
    twin = next(packet for packet in packets[len(evs) :] if packet.ev not in skipped)
    source.feed(Seth(twin.psn, evs[twin.ev], advice=PathAdvice.SKIP_ONCE, ack_psn_offset=0))
    assert state_of(source, twin.ev)[0] is EvState.SKIP


def test_when_all_are_to_be_skipped_packets_leave_all_the_same(nic: NicBench, distant: FarEnd) -> None:
    source = WriteSource(nic, distant)
    source.post(2048 * 100)
    packets = source.send(40)
    nic.control.port_up_mask = 0
    for packet in packets:
        advise(source, packet, PathAdvice.SKIP_ONCE)
    nic.control.port_up_mask = 0xF
    active = {packet.ev for packet in packets}
    assert {state_of(source, ev)[0] for ev in active} == {EvState.SKIP}
    assert len(source.send(60)) == 60
    assert {state_of(source, ev)[0] for ev in active} == {EvState.GOOD}


def test_advice_for_another_ev_than_the_packets_own_is_ignored(source: WriteSource) -> None:
    packet = source.send(1)[0]
    source.feed(Seth(0, 0x7777, ack_psn_offset=0, advice=PathAdvice.SKIP_ONCE))
    assert state_of(source, packet.ev)[0] == EvState.GOOD


def test_always_skip_ends_the_use_of_an_ev(source: WriteSource) -> None:
    packets = source.send(12)
    advise(source, packets[0], PathAdvice.ALWAYS_SKIP)
    assert state_of(source, packets[0].ev) == (EvState.ASSUMED_BAD, EvReason.ADVICE)
    (event,) = source.nic.events(EventKind.EV_STATE)
    assert (event.a, event.b) == (packets[0].ev, EvState.GOOD)
    assert (event.c, event.d) == (EvState.ASSUMED_BAD, EvReason.ADVICE)
    assert packets[0].ev not in {packet.ev for packet in source.send(40)}


def test_reserved_advice_is_none(source: WriteSource) -> None:
    packet = source.send(1)[0]
    advise(source, packet, PathAdvice.RESERVED)
    assert state_of(source, packet.ev)[0] == EvState.GOOD


# -- the administrator ---------------------------------------------------------------------------------------


def test_denied_ev_is_replaced_and_not_used_until_it_is_allowed(source: WriteSource) -> None:
    packets = source.send(12)
    denied = packets[5].ev
    assert source.nic.command(Command.DENY, source.index, denied)
    assert state_of(source, denied) == (EvState.DENIED, EvReason.ADMIN)
    assert source.nic.qp(source.index).evs.active_total == 12  # a backup took its place
    assert denied not in {packet.ev for packet in source.send(36)}
    assert source.nic.command(Command.ALLOW, source.index, denied)
    assert state_of(source, denied) == (EvState.GOOD, EvReason.ADMIN)
    changes = [(event.b, event.c) for event in source.nic.events() if event.kind == EventKind.EV_STATE]
    assert changes == [(EvState.GOOD, EvState.DENIED), (EvState.DENIED, EvState.GOOD)]


def test_loss_on_a_denied_ev_leaves_it_denied(source: WriteSource) -> None:
    packets = source.send(64)
    denied = packets[0].ev
    source.nic.command(Command.DENY, source.index, denied)
    for packet in packets[1:]:
        source.deliver(packet)
    for packet in source.send(64):
        source.deliver(packet)
    assert state_of(source, denied)[0] == EvState.DENIED


def test_denial_goes_below_the_floor_but_never_takes_the_last(source: WriteSource) -> None:
    denied = [source.nic.command(Command.DENY, source.index, ev) for ev in range(len(source.attributes.evs))]
    assert denied.count(True) == len(denied) - 1
    qp = source.nic.qp(source.index)
    assert (qp.evs.active_total, sum(ev.state == EvState.DENIED for ev in qp.evs.ev)) == (1, len(denied) - 1)
    assert {packet.ev for packet in source.send(20)} == {denied.index(False)}
    assert all(source.nic.command(Command.ALLOW, source.index, ev) for ev in range(len(denied)) if denied[ev])
    qp = source.nic.qp(source.index)
    assert [plane.active_count for plane in qp.evs.planes][:4] == [3, 3, 3, 3]
    # The plane that has all twenty under way waits until the others have their share.
    alone = qp.evs.ev[denied.index(False)].plane
    assert {packet.plane for packet in source.send(20)} == {0, 1, 2, 3} - {alone}


def test_a_controller_sets_any_state(source: WriteSource) -> None:
    ev = source.send(1)[0].ev
    for command, state in (
        (Command.ASSUMED_BAD, EvState.ASSUMED_BAD),
        (Command.DENY, EvState.DENIED),
        (Command.ASSUMED_BAD, EvState.ASSUMED_BAD),
        (Command.GOOD, EvState.GOOD),
        (Command.GOOD, EvState.GOOD),
        (Command.DENY, EvState.DENIED),
        (Command.GOOD, EvState.GOOD),
    ):
        assert source.nic.command(command, source.index, ev)
        assert state_of(source, ev) == (state, EvReason.ADMIN)
        ev_partition(source.nic.qp(source.index))


def test_allowing_is_for_denied_evs_alone(source: WriteSource) -> None:
    ev = source.send(1)[0].ev
    source.nic.command(Command.ASSUMED_BAD, source.index, ev)
    assert not source.nic.command(Command.ALLOW, source.index, ev)
    assert state_of(source, ev)[0] == EvState.ASSUMED_BAD


@pytest.mark.parametrize("command", [None, Command.DENY, Command.ASSUMED_BAD])
def test_an_ev_that_replaces_another_is_as_good_as_new(source: WriteSource, command: Command | None) -> None:
    packets = source.send(12)
    old = packets[5].ev
    if command is not None:
        source.nic.command(command, source.index, old)
    other = source.attributes.evs[old] ^ 0x77
    assert source.nic.command(Command.REPLACE, source.index, old, other, 255)
    ev = source.nic.qp(source.index).evs.ev[old]
    assert (ev.entropy, ev.state, ev.reason) == (other, EvState.GOOD, EvReason.ADMIN)
    assert (ev.tx_packets, ev.lost_packets, ev.marks, ev.rtt_ns) == (0, 0, 0, 0)
    assert ev.path == 255
    ev_partition(source.nic.qp(source.index))
    # What was under way on the old one still counts as arrived, and says nothing about the new one.
    before = source.nic.qp(source.index)
    source.nic.control.port_up_mask = 0
    assert source.deliver(packets[5]) is None
    after = source.nic.qp(source.index)
    assert after.comp.acked_total == before.comp.acked_total + 1
    assert after.evs.ev[old].marks == 0


def test_commands_about_evs_that_are_not_there(source: WriteSource) -> None:
    count = len(source.attributes.evs)
    for index in (count, Limit.EV_MAX, 2**32 - 1):
        for command in (Command.DENY, Command.ASSUMED_BAD, Command.REPLACE):
            assert not source.nic.command(command, source.index, index, 1)


# -- states of the QP ----------------------------------------------------------------------------------------


def test_qp_moves_to_rts_by_command_and_takes_the_negotiated_range(source: WriteSource) -> None:
    source.nic.edit_qp(source.index, state=QpState.RTR)
    assert source.send() == []
    assert source.nic.command(Command.RTS, source.index, 128, 0)
    with source.nic.editing_qp(source.index) as qp:
        qp.cc.cwnd_bytes = 1 << 30
    assert len(source.send()) == 128


@pytest.mark.parametrize("state", [QpState.RESET, QpState.INIT, QpState.RTS, QpState.ERROR])
def test_only_rtr_leads_to_rts(source: WriteSource, state: QpState) -> None:
    source.nic.edit_qp(source.index, state=state)
    assert not source.nic.command(Command.RTS, source.index, 1024, 0)
    assert source.nic.qp(source.index).state == state


def test_qp_is_put_in_error_by_command(source: WriteSource) -> None:
    assert source.nic.command(Command.ERROR, source.index)
    assert not source.nic.command(Command.ERROR, source.index)
    (event,) = source.nic.events(EventKind.QP_STATE)
    assert (event.a, event.b, event.c) == (QpState.RTS, QpState.ERROR, CompletionStatus.FLUSHED)
    assert source.send() == []
