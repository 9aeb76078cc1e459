"""Messages complete by transport ACK alone: when it is sent, what it completes, how it is asked for."""

from random import Random

import pytest
from far_end import FarEnd
from nic_bench import NicBench
from program_bench import Verdict
from reference.opcode import Opcode
from reference.received_bytes import received_units
from reference.reliability_header import Seth
from reference.traffic_class import Dscp
from write_source import Completed, WriteSource
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import CompletionStatus, EventKind, NicCounter, QpState
from mrc_agents.protocol.sizes import write_nominal_bytes

FIRST, MIDDLE, LAST, ONLY = Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_ONLY
START = 0xFFFFFE


@pytest.fixture
def target(nic: NicBench, distant: FarEnd) -> WriteTarget:
    return WriteTarget(nic, distant, first_psn=START)


# -- the responder -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_messages_in_any_order_of_packets(target: WriteTarget, seed: int) -> None:
    """The reference keeps sets; every answer is compared with what it says."""
    random = Random(seed)
    waiting = []
    psn = START
    for msn in range(40):
        length = random.randint(1, 5)
        for i in range(length):
            kind = ONLY if length == 1 else FIRST if i == 0 else LAST if i == length - 1 else MIDDLE
            options = {"opcode": kind, "msn": msn, "message_bytes": 20 * length}
            packet = target.packet(psn, random_bytes(20, psn), 20 * (psn - START), **options)
            waiting.append((psn, packet))
            psn += 1
    while waiting:
        place = random.randrange(min(len(waiting), 90))
        number, packet = waiting[place] if random.random() < 0.2 else waiting.pop(place)
        target.deliver(packet, number, plane=random.randrange(4), is_marked=random.random() < 0.2)
    assert target.reference.done == 40


# -- the requester -------------------------------------------------------------------------------------------


def test_sack_alone_completes_nothing_and_makes_the_nic_ask(source: WriteSource) -> None:
    source.post(3000)
    first, last = source.send()
    source.feed(Seth(0, 0, ack_psn_offset=0))
    asked = source.feed(Seth(1, 0, ack_psn_offset=0))
    assert asked is not None
    assert (asked.psn, asked.dscp, asked.write.bth.is_retransmission) == (last.psn, Dscp.TRIMMABLE_RETX, True)
    assert asked.write.payload == last.write.payload
    assert source.completions() == []
    assert source.nic.qp(source.index).req.inflight == 0
    assert source.send() == []  # it asks once
    assert source.acknowledge(1, 1) is None
    assert source.completions() == [Completed(1, 1, CompletionStatus.SUCCESS, 3000)]
    assert first.psn == 0


def test_ack_that_another_cpu_is_busy_with_is_no_drift_and_counts_once(source: WriteSource) -> None:
    source.post(2048, iterations=3)
    assert len(source.send()) == 3
    assert source.acknowledge(2, 3) is None
    size = write_nominal_bytes(2048)
    # As that ACK leaves the QP between its steps: its packets are off the books, its bytes not yet.
    with source.nic.editing_qp(source.index) as qp:
        qp.cc.inflight_bytes += 3 * size
        qp.cc.received_units = 0
    source.post(2048)
    outcome = source.nic.kick(source.index)
    assert outcome.counters == {NicCounter.TX_DATA: 1, NicCounter.KICK_PACKETS: 1}  # and no CC_DRIFT
    qp = source.nic.qp(source.index)
    assert (qp.cc.inflight_bytes, qp.cc.received_units) == (size, received_units(3 * size))


@pytest.mark.parametrize(
    ("psn", "count"), [(10, 1), (0xFFFFFE, 3), (2, 11), (4, 4), (4, 6), (9, 0x8000), (9, 0xFFFF)]
)
def test_ack_that_contradicts_what_was_sent_is_stale(source: WriteSource, psn: int, count: int) -> None:
    source.post(10, iterations=10, depth=10)
    source.send()
    check_stale(source, psn, count)


def test_a_silent_request_is_completed_without_an_event(source: WriteSource) -> None:
    source.post(10)
    work = source.nic.work[source.index].entries[0]
    work.is_silent = 1
    assert len(source.send()) == 1
    assert source.acknowledge(0, 1) is None
    assert source.completions() == []
    assert work.is_completed == 1


@pytest.mark.parametrize("psn", [0, 1])
def test_ack_that_names_no_end_of_a_message_is_stale(source: WriteSource, psn: int) -> None:
    source.post(3 * 2048)
    assert len(source.send()) == 3
    check_stale(source, psn, 1)


def check_stale(source: WriteSource, psn: int, count: int) -> None:
    """An ACK is dropped, counted so, and leaves the QP as it was."""
    before = bytes(source.nic.qp())
    outcome, _ = source.receive(source.far.ack(psn, count), 0, 0)
    assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_STALE_ACK: 1})
    assert bytes(source.nic.qp()) == before


def test_ack_gives_a_round_trip_of_the_path_it_came_by(source: WriteSource) -> None:
    source.post(10)
    (packet,) = source.send()
    before = source.nic.rtt_samples(packet.plane)
    source.acknowledge(0, 1, plane=packet.plane, entropy=packet.entropy)
    assert source.nic.rtt_samples(packet.plane) == before + 1


def test_missing_ack_is_asked_for_again_by_the_clock_until_the_retry_limit(
    nic: NicBench, timed: FarEnd
) -> None:
    source = WriteSource(nic, timed, timed.attributes(retry_limit=2, exponential_count=0))
    source.post(10)
    source.send()
    assert source.feed(Seth(0, 0, ack_psn_offset=0)) is not None
    source.hasten(rto_ns=2_000_000)
    kinds: list[int] = []
    while EventKind.QP_STATE not in kinds:
        kinds += [event.kind for event in nic.await_events()]
        nic.kick(source.index)
    assert kinds.count(EventKind.KICK) >= 2
    assert nic.qp(source.index).state == QpState.ERROR
