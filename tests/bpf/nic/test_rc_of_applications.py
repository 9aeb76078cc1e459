"""Reliable connections of applications: doorbells, arrivals, addresses, domains, limits, states."""

import os
import time
from ctypes import c_uint32
from dataclasses import replace

import pytest
from far_end import FarEnd
from nic_bench import MEMORY_BYTES, Outcome, Verdict
from rc_bench import REMOTE_KEY, RcBench, RcSource, attributes
from reference.frame import decode_frame
from reference.psn import wire_psn
from reference.rc_packet import RcAcknowledge, RcBth, RcOpcode, make_rc_write
from reference.transport_header import AckKind, Aeth, ImmDt, NakCode, Reth

from mrc_testbed.agents.abi import (
    Command,
    DoorbellFormat,
    Event,
    EventKind,
    KickMode,
    Limit,
    NicCounter,
    Notify,
    QpState,
    Status,
    Work,
    WorkSide,
)
from mrc_testbed.agents.bpf.maps import RingBuffer, create_ring, map_update
from mrc_testbed.agents.nic.qp import QpLimits
from mrc_testbed.agents.nic.work_queue import qp_index

pytestmark = pytest.mark.root

PATH = 0x0001_0007
SLOT, PD = 5, 3
BASE = 0x7F00_FFFF_F000
RTO_NS = 40_000_000


class Target:
    """A connection of an application's domain, and a region there at virtual addresses."""

    def __init__(self, nic: RcBench, far: FarEnd) -> None:
        self.nic, self.far, self.index = nic, far, qp_index(far.qpn)
        self.r_key = nic.register(SLOT, 0, MEMORY_BYTES)
        nic.regions[SLOT].base, nic.regions[SLOT].pd = BASE, PD
        nic.connect(self.index, attributes(far, peer_first_psn=0), far.peer_qpn)
        self.edit(pd=PD)

    def edit(self, **values: int) -> None:
        self.nic.edit_rc_qp(self.index, **values)

    def arrive(self, psn: int, payload: bytes, *, va: int = BASE, immediate: int | None = None) -> Outcome:
        opcode = RcOpcode.WRITE_ONLY if immediate is None else RcOpcode.WRITE_ONLY_IMMEDIATE
        carried = None if immediate is None else ImmDt(immediate)
        reth = Reth(va, self.r_key, len(payload))
        packet = make_rc_write(opcode, self.far.qpn, psn, payload, reth=reth, immediate=carried)
        return self.nic.receive(self.far.arriving_octets(packet, 0, PATH), 0)


@pytest.fixture
def target(rc_nic: RcBench, distant: FarEnd) -> Target:
    return Target(rc_nic, distant)


@pytest.fixture
def source(rc_nic: RcBench, distant: FarEnd) -> RcSource:
    return RcSource(rc_nic, distant, attributes(distant))


def answer(outcome: Outcome) -> Aeth:
    packet = decode_frame(outcome.frame).packet
    assert isinstance(packet, RcAcknowledge)
    return packet.aeth


def test_bytes_go_where_an_address_says(target: Target) -> None:
    assert answer(target.arrive(0, b"hello", va=BASE + 9)).kind is AckKind.ACK
    assert bytes(target.nic.memory[9:14]) == b"hello"
    assert answer(target.arrive(1, b"outside", va=BASE - 1)).value == NakCode.REMOTE_ACCESS_ERROR
    assert answer(target.arrive(1, b"far off", va=BASE + (1 << 32))).value == NakCode.REMOTE_ACCESS_ERROR


@pytest.mark.parametrize("values", [{"pd": PD + 1}, {"pd": 0}, {"is_writable": 0}])
def test_peers_write_to_their_domain_alone_and_where_the_qp_lets_them(
    target: Target, values: dict[str, int]
) -> None:
    target.edit(**values)
    outcome = target.arrive(0, b"hello")
    assert answer(outcome).value == NakCode.REMOTE_ACCESS_ERROR
    assert outcome.counters[NicCounter.DROP_R_KEY] == 1
    assert not any(target.nic.memory[:5])


def test_an_armed_channel_is_woken_once_in_place_of_an_event(target: Target) -> None:
    place = 3
    channel = create_ring("channel", Limit.PAGE_BYTES)
    map_update(target.nic.map_fd("channels"), c_uint32(place), c_uint32(channel))
    wakes = RingBuffer(channel)
    ring = target.nic.work_ring(target.index)
    ring.channels[WorkSide.RECEIVES] = 1 + place
    ring.notify[:] = [Notify.ARMED, Notify.ARMED]
    target.nic.post_receives(2, target.index)
    for psn in range(2):
        target.arrive(psn, b"x", immediate=psn)
    assert target.nic.events() == []
    assert len(wakes.drain()) == 1
    assert list(ring.notify) == [Notify.ARMED, Notify.NEVER]
    wakes.close()
    os.close(channel)


def test_arrivals_are_in_the_ring_and_an_event_comes_when_one_was_asked_for(target: Target) -> None:
    ring = target.nic.work_ring(target.index)
    target.nic.post_receives(3, target.index)
    for psn, notify in enumerate((Notify.NEVER, Notify.ARMED, Notify.ALWAYS)):
        ring.notify[WorkSide.RECEIVES] = notify
        target.arrive(psn, b"x" * (psn + 1), immediate=0x70 + psn)
        events = [event.a for event in target.nic.events()]
        assert events == ([] if notify == Notify.NEVER else [psn + 1])
    arrivals = [ring.arrivals[number] for number in (1, 2, 3)]
    assert [(each.number, each.immediate, each.length) for each in arrivals] == [
        (1, 0x70, 1),
        (2, 0x71, 2),
        (3, 0x72, 3),
    ]


def test_a_doorbell_sends_whatever_the_agent_kicks(source: RcSource) -> None:
    source.post(100)
    source.nic.kick_once(7, KickMode.DATA, 1)
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
    work = Work(id=1, length=10, iterations=1, depth=1, local_slots=1, remote_slots=1, r_key=REMOTE_KEY)
    work.remote_offset, work.remote_high = BASE & 0xFFFFFFFF, BASE >> 32
    source.nic.post(work, source.index)
    (left,) = source.send()
    assert left.write.reth == Reth(BASE, REMOTE_KEY, 10)


def test_states_follow_one_another(rc_nic: RcBench, distant: FarEnd) -> None:
    source = RcSource(rc_nic, distant, attributes(distant))
    rc_nic.edit_rc_qp(source.index, state=QpState.RTR)
    source.post(10)
    assert source.send() == []
    assert rc_nic.rc_command(Command.RC_RTS, source.index, 0x123456)
    assert not rc_nic.rc_command(Command.RC_RTS, source.index, 7)
    source.responder.expected = 0x123456
    assert [left.psn for left in source.send()] == [0x123456]
    assert rc_nic.rc_command(Command.ERROR, source.index)
    assert not rc_nic.rc_command(Command.ERROR, source.index)
    (event,) = (event for event in source.events() if event.kind == EventKind.QP_STATE)
    assert (event.a, event.b, event.c) == (QpState.RTS, QpState.ERROR, Status.FLUSHED)
    assert not rc_nic.rc_command(Command.DENY, source.index, 0)


def test_limits_change_while_it_sends(source: RcSource) -> None:
    assert source.nic.rc_command(Command.LIMITS, source.index, 50, 1280, 2, 0)
    qp = source.nic.rc_qp(source.index)
    assert (qp.give_up_ns, qp.rnr_timer_ns, qp.rnr_limit, qp.is_writable) == (50_000, 1_280_000, 2, 0)
    assert source.nic.rc_command(Command.LIMITS, source.index, 0xFFFFFFFF, 0, 7, 1)
    assert source.nic.rc_qp(source.index).give_up_ns == replace(QpLimits(), give_up_us=0xFFFFFFFF).give_up_ns


def test_rnr_naks_beyond_the_limit_end_it(source: RcSource) -> None:
    source.nic.rc_command(Command.LIMITS, source.index, 0, 10**9, 1, 1)
    source.post(10, immediate=1)
    no_receive = RcAcknowledge(
        RcBth(RcOpcode.ACKNOWLEDGE, source.far.qpn, wire_psn(0)), Aeth(AckKind.RNR_NAK, 0x0E, 0)
    )
    for _ in range(3):  # those that come during a wait are the same wait
        source.send()
        source.receive(no_receive, 0, PATH)
    assert source.nic.rc_qp().state == QpState.RTS
    source.nic.edit_rc_qp(source.index, is_rnr_wait=0)
    source.send()
    source.receive(no_receive, 0, PATH)
    (event,) = (event for event in source.events() if event.kind == EventKind.QP_STATE)
    assert (event.b, event.c) == (QpState.ERROR, Status.RNR_RETRY_EXCEEDED)


def let_agent_die(nic: RcBench) -> None:
    nic.control.heartbeat_limit_ns = 1_000_000_000
    nic.control.heartbeat_ns = time.monotonic_ns() - 1_000_000_001


def test_without_its_agent_it_stops(rc_nic: RcBench, distant: FarEnd) -> None:
    source = RcSource(rc_nic, distant, attributes(distant, rto_ns=RTO_NS, retry_limit=1000))
    source.post(2048, iterations=1000)
    source.send(1)
    let_agent_die(rc_nic)
    events: list[Event] = []
    while not any(event.kind == EventKind.QP_STATE for event in events):
        events += rc_nic.await_events()
    assert rc_nic.rc_qp(source.index).state == QpState.ERROR
    assert events[-1].c == Status.FLUSHED


def test_without_its_agent_it_receives_no_more(target: Target) -> None:
    let_agent_die(target.nic)
    assert target.arrive(0, b"nobody is there").verdict is Verdict.DROP
    assert target.nic.rc_qp(target.index).state == QpState.ERROR
    assert not any(target.nic.memory[:5])
