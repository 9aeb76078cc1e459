"""A QP without SACKs: its timer finds losses, requests frames, and gives up in the end."""

from itertools import count

import pytest
from far_end import FarEnd
from nic_bench import NicBench
from program_bench import Verdict
from reference.ev_partition import ev_partition
from reference.reliability_header import Seth
from write_source import Completed, Sent, WriteSource, completed

from mrc_agents.abi import Command, CompletionStatus, Event, EventKind, EvReason, EvState, NicCounter, QpState
from mrc_agents.clock import monotonic_ns

RTO_NS = 500_000_000  # a busy machine may stand still for hundreds of milliseconds
PACE_S = 0.005


def timed_source(nic: NicBench, timed: FarEnd, **changes: int) -> WriteSource:
    return WriteSource(nic, timed, timed.attributes(rto_ns=RTO_NS, **changes))


def test_lost_last_packet_costs_one_time_out(nic: NicBench, timed: FarEnd) -> None:
    source = WriteSource(nic, timed)
    before = nic.counters()
    source.post(2048 * 5)
    *others, last = source.send()
    for packet in others:
        source.deliver(packet)
    source.hasten(rto_ns=RTO_NS)
    (again,), events = source.send_when_asked()
    assert (again.psn, again.write.bth.is_retransmission) == (4, True)
    assert again.ev != last.ev
    ev = nic.qp(source.index).evs.ev[last.ev]
    assert (ev.state, ev.reason) == (EvState.ASSUMED_BAD, EvReason.TIMEOUT)
    assert last.ev in ev_partition(nic.qp(source.index))[last.plane].bad
    assert EventKind.KICK in {event.kind for event in events}
    assert nic.qp(source.index).head.retries == 1
    source.deliver(again)
    assert nic.qp(source.index).head.retries == 0
    assert Completed(1, 1, CompletionStatus.SUCCESS, 2048 * 5) in [completed(event) for event in nic.events()]
    grown = nic.grown(before)
    assert grown[NicCounter.TX_RETRANSMIT_TIMEOUT] == 1
    assert NicCounter.TX_RETRANSMIT_SACK not in grown


def test_whole_window_lost_is_sent_again(nic: NicBench, timed: FarEnd) -> None:
    source = timed_source(nic, timed, window_packets=10, retry_limit=1000)
    source.post(2048 * 10)
    # a slow machine sends some of them again before all have left
    assert {packet.psn for packet in source.send()} == set(range(10))
    again: dict[int, Sent] = {}
    while len(again) < 10:
        again |= {packet.psn: packet for packet in source.send_when_asked()[0]}
    assert all(packet.write.bth.is_retransmission for packet in again.values())
    for packet in again.values():
        source.deliver(packet)
    assert nic.qp(source.index).req.inflight == 0
    ev_partition(nic.qp(source.index))


@pytest.mark.parametrize("retry_limit", [0, 2])
def test_retry_limit_ends_the_qp(nic: NicBench, timed: FarEnd, retry_limit: int) -> None:
    source = timed_source(nic, timed, retry_limit=retry_limit)
    source.post(100)
    events: list[Event] = []
    while EventKind.QP_STATE not in {event.kind for event in events}:
        source.send()
        events += nic.await_events()
    assert nic.qp(source.index).head.retries == 1 + retry_limit  # a late machine sends less often
    failure = events[-1]
    assert (failure.kind, failure.qp_index) == (EventKind.QP_STATE, source.index)
    assert (failure.a, failure.b, failure.c) == (QpState.RTS, QpState.ERROR, CompletionStatus.RETRY_EXCEEDED)
    assert nic.qp(source.index).state == QpState.ERROR
    assert nic.kick(source.index).verdict is Verdict.DROP


def test_work_ends_once_nothing_was_acknowledged_for_as_long_as_a_program_says(
    nic: NicBench, timed: FarEnd
) -> None:
    source = WriteSource(nic, timed, timed.attributes(rto_ns=RTO_NS // 50, retry_limit=0))
    assert nic.command(Command.LIMITS, source.index, 4 * RTO_NS // 1000, 1000, 7, 1)
    source.post(100)
    begun_ns = monotonic_ns()
    events: list[Event] = []
    while EventKind.QP_STATE not in {event.kind for event in events}:
        source.send()
        events += nic.await_events()
    assert len(source.sent) > 2  # the number of time-outs is no limit now
    assert CompletionStatus(events[-1].c) == CompletionStatus.RETRY_EXCEEDED
    assert events[-1].time_ns - begun_ns >= 4 * RTO_NS


def test_ports_that_come_back_find_the_work_waiting(nic: NicBench, timed: FarEnd) -> None:
    source = timed_source(nic, timed, retry_limit=1000)
    source.post(2048 * 4)
    assert len(source.send()) == 4
    nic.control.port_up_mask = 0
    while nic.qp(source.index).req.lost_count < 4:
        nic.await_events()
        assert source.send() == []
    nic.control.port_up_mask = 0b0010
    again, _ = source.send_when_asked()
    assert {packet.plane for packet in again} == {1}
    for packet in again:
        source.deliver(packet)
    assert source.reference.next_psn == 4


def test_a_clock_that_has_stopped_is_started_again(nic: NicBench, timed: FarEnd) -> None:
    source = timed_source(nic, timed)
    source.post(2048)
    source.send()
    # a store ends the element's timer, and says that it runs
    nic.edit_qp(source.index, is_timer_armed=1, timer_due_ns=1)
    before = nic.counters()[NicCounter.CLOCK_RESTARTS]
    nic.kick(source.index)
    assert nic.counters()[NicCounter.CLOCK_RESTARTS] == before + 1
    assert source.send_when_asked()[0]


def test_a_clock_that_ticks_is_left_alone(nic: NicBench, timed: FarEnd) -> None:
    source = timed_source(nic, timed)
    source.post(2048)
    source.send()
    before = nic.counters()[NicCounter.CLOCK_RESTARTS]
    nic.kick(source.index)
    assert nic.counters()[NicCounter.CLOCK_RESTARTS] == before


def test_a_little_credit_is_asked_for_when_nothing_has_spent_it_from_one_look_to_the_next(
    nic: NicBench, timed: FarEnd
) -> None:
    """Credit that SACKs on their way are about to spend is idle too, but never for so long."""
    source = WriteSource(nic, timed, timed.attributes(rto_ns=4 * 10**9, window_packets=40))
    source.post(2048 * 1000)  # a look each second: time enough for a slow machine to feed a SACK in between
    source.send()
    looks: set[int] = set()
    asked: list[Event] = []
    for cack in count(3):  # the first SACK frees four packets, and each one carries one
        assert source.feed(Seth(cack_psn=cack, entropy=source.attributes.evs[0])) is not None
        looks.add(nic.qp(source.index).req.timer_kick_ns)
        asked = [event for event in nic.events_within(PACE_S) if event.kind == EventKind.KICK]
        if asked:
            break
    assert [(event.qp_index, event.a) for event in asked] == [(source.index, 3)]
    assert looks - {0}  # the first look asked for nothing
