"""Reliable connections of applications: doorbells, arrivals, addresses, domains, limits, states."""

import os
from ctypes import c_uint32
from dataclasses import replace

import pytest
from far_end import RC_PATH, FarEnd
from nic_bench import NicBench, Outcome
from program_bench import Verdict
from reference.rc_packet import RcOpcode
from reference.transport_header import AckKind, NakCode, Reth
from write_source import REMOTE_KEY, RcSource
from write_target import REGION_OFFSET, REGION_SLOT, RcTarget, aeth_of

from mrc_agents.abi import (
    Command,
    CompletionStatus,
    DoorbellFormat,
    EventKind,
    KickMode,
    Limit,
    NicCounter,
    Notify,
    QpState,
    WorkSide,
)
from mrc_agents.bpf.maps import RingBuffer, create_ring, map_update
from mrc_agents.nic.work_queue import QpLimits

PD = 3
BASE = 0x7F00_FFFF_F000
RTO_NS = 40_000_000


@pytest.fixture
def target(rc_nic: NicBench, distant: FarEnd) -> RcTarget:
    """A connection of an application's domain, and a region there at virtual addresses."""
    target = RcTarget(rc_nic, distant)
    region = rc_nic.regions[REGION_SLOT]
    region.base, region.pd = BASE, PD
    rc_nic.edit_rc_qp(pd=PD)
    return target


@pytest.fixture
def source(rc_nic: NicBench, distant: FarEnd) -> RcSource:
    return RcSource(rc_nic, distant)


def arrive(
    target: RcTarget, psn: int, payload: bytes, va: int = BASE, immediate: int | None = None
) -> Outcome:
    opcode = RcOpcode.WRITE_ONLY if immediate is None else RcOpcode.WRITE_ONLY_IMMEDIATE
    packet = target.packet(psn, payload, opcode, va=va, immediate=immediate or 0)
    return target.arrive(packet, 0, RC_PATH)


def test_bytes_go_where_an_address_says(target: RcTarget) -> None:
    assert aeth_of(arrive(target, 0, b"hello", va=BASE + 9)).kind is AckKind.ACK
    assert bytes(target.nic.memory[REGION_OFFSET + 9 :][:5]) == b"hello"
    assert aeth_of(arrive(target, 1, b"outside", va=BASE - 1)).value == NakCode.REMOTE_ACCESS_ERROR
    assert aeth_of(arrive(target, 1, b"far off", va=BASE + (1 << 32))).value == NakCode.REMOTE_ACCESS_ERROR


@pytest.mark.parametrize("values", [{"pd": PD + 1}, {"pd": 0}, {"is_writable": 0}])
def test_peers_write_to_their_domain_alone_and_where_the_qp_lets_them(
    target: RcTarget, values: dict[str, int]
) -> None:
    target.nic.edit_rc_qp(**values)
    outcome = arrive(target, 0, b"hello")
    assert aeth_of(outcome).value == NakCode.REMOTE_ACCESS_ERROR
    assert outcome.counters[NicCounter.DROP_R_KEY] == 1
    target.check_memory()


def test_an_armed_channel_is_woken_once_in_place_of_an_event(target: RcTarget) -> None:
    place = 3
    channel = create_ring("channel", Limit.PAGE_BYTES)
    map_update(target.nic.map_fd("channels"), c_uint32(place), c_uint32(channel))
    wakes = RingBuffer(channel)
    ring = target.nic.work[target.index]
    ring.channels[WorkSide.RECEIVES] = 1 + place
    ring.notify[:] = [Notify.ARMED, Notify.ARMED]
    target.nic.post_receives(2, target.index)
    for psn in range(2):
        arrive(target, psn, b"x", immediate=psn)
    assert target.nic.events() == []
    assert len(wakes.drain()) == 1
    assert list(ring.notify) == [Notify.ARMED, Notify.NEVER]
    wakes.close()
    os.close(channel)


def test_arrivals_are_in_the_ring_and_an_event_comes_when_one_was_asked_for(target: RcTarget) -> None:
    ring = target.nic.work[target.index]
    target.nic.post_receives(3, target.index)
    for psn, notify in enumerate((Notify.NEVER, Notify.ARMED, Notify.ALWAYS)):
        ring.notify[WorkSide.RECEIVES] = notify
        arrive(target, psn, b"x" * (psn + 1), immediate=0x70 + psn)
        events = [event.a for event in target.nic.events()]
        assert events == ([] if notify == Notify.NEVER else [psn + 1])
    arrivals = [ring.arrivals[number] for number in (1, 2, 3)]
    found = [(each.number, each.immediate, each.length) for each in arrivals]
    assert found == [(1, 0x70, 1), (2, 0x71, 2), (3, 0x72, 3)]


def test_a_doorbell_sends_whatever_the_agent_kicks(source: RcSource) -> None:
    source.post(100)
    source.nic.ask(KickMode.DATA, qp_index=7, frames_left=1)
    outcome = source.nic.ring_doorbell(DoorbellFormat.RC_MAGIC, source.index)
    assert source.take(outcome).write.reth == Reth(0, REMOTE_KEY, 100)
    assert source.nic.ring_doorbell(DoorbellFormat.RC_MAGIC, source.index).verdict is Verdict.DROP
    assert source.nic.ring_doorbell(DoorbellFormat.RC_MAGIC, 0xFFFFFFFF).verdict is Verdict.DROP


def test_a_doorbell_leaves_to_acknowledgements_and_agent_what_they_send(source: RcSource) -> None:
    """With seven of a window of 64 free and a kick pending, it sends only what nobody else sends."""

    def sends() -> bool:
        outcome = source.nic.ring_doorbell(DoorbellFormat.RC_MAGIC, source.index)
        return outcome.verdict is Verdict.REDIRECT

    source.post(2048, iterations=1000, depth=1000)
    source.nic.edit_rc_qp(source.index, is_kick_pending=1)
    assert [sends() for _ in range(2)] == [True, False]
    source.nic.edit_rc_qp(source.index, is_kick_pending=0)
    assert sum(sends() for _ in range(100)) == 55
    assert len(source.send()) == 8


def test_an_address_may_lie_beyond_4_gib(source: RcSource) -> None:
    source.post(10, remote=(BASE, 1))
    (left,) = source.send()
    assert left.write.reth == Reth(BASE, REMOTE_KEY, 10)


def test_states_follow_one_another(source: RcSource, rc_nic: NicBench) -> None:
    rc_nic.edit_rc_qp(source.index, state=QpState.RTR)
    source.post(10)
    assert source.send() == []
    assert rc_nic.rc_command(Command.RC_RTS, source.index, 0x123456)
    assert not rc_nic.rc_command(Command.RC_RTS, source.index, 7)
    source.responder.expected = 0x123456
    assert [left.psn for left in source.send()] == [0x123456]
    assert rc_nic.rc_command(Command.ERROR, source.index)
    assert not rc_nic.rc_command(Command.ERROR, source.index)
    (event,) = source.nic.events(EventKind.QP_STATE)
    assert (event.a, event.b, event.c) == (QpState.RTS, QpState.ERROR, CompletionStatus.FLUSHED)
    assert not rc_nic.rc_command(Command.DENY, source.index, 0)


def test_limits_change_while_it_sends(source: RcSource) -> None:
    assert source.nic.rc_command(Command.LIMITS, source.index, 50, 1280, 2, 0)
    head = source.nic.rc_qp(source.index).head
    assert (head.give_up_ns, head.rnr_timer_ns, head.rnr_limit, head.is_writable) == (50_000, 1_280_000, 2, 0)
    assert source.nic.rc_command(Command.LIMITS, source.index, 0xFFFFFFFF, 0, 7, 1)
    head = source.nic.rc_qp(source.index).head
    assert head.give_up_ns == replace(QpLimits(), give_up_us=0xFFFFFFFF).give_up_ns


def test_rnr_naks_beyond_the_limit_end_it(source: RcSource) -> None:
    source.nic.rc_command(Command.LIMITS, source.index, 0, 10**9, 1, 1)
    source.post(10, immediate=1)
    for _ in range(3):  # those that come during a wait are the same wait
        source.send()
        source.nak(0, 0x0E, AckKind.RNR_NAK)
    assert source.nic.rc_qp().state == QpState.RTS
    source.nic.edit_rc_qp(source.index, is_rnr_wait=0)
    source.send()
    source.nak(0, 0x0E, AckKind.RNR_NAK)
    (event,) = source.nic.events(EventKind.QP_STATE)
    assert (event.b, event.c) == (QpState.ERROR, CompletionStatus.RNR_RETRY_EXCEEDED)


def test_without_its_agent_it_receives_no_more(target: RcTarget) -> None:
    target.nic.let_agent_die(looks=3)
    assert arrive(target, 0, b"nobody is there").verdict is Verdict.DROP
    assert target.nic.rc_qp(target.index).state == QpState.ERROR
    target.check_memory()
