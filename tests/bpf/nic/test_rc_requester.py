"""A reliable connection that sends: order, acknowledgements, going back, congestion notifications."""

from random import Random

import pytest
from exploring import examples
from far_end import RC_PATH, FarEnd
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import NicBench
from program_bench import Verdict
from reference.rc_packet import Cnp, RcBth, RcOpcode
from reference.transport_header import AckKind, Aeth, ImmDt, NakCode, Reth
from write_source import REMOTE_KEY, Completed, RcSource, Sent

from mrc_agents.abi import Command, CompletionStatus, DcqcnReason, EventKind, NicCounter, QpState
from mrc_agents.protocol.dcqcn import DcqcnParameters


@pytest.fixture
def source(rc_nic: NicBench, distant: FarEnd) -> RcSource:
    return RcSource(rc_nic, distant)


def test_a_message_is_cut_into_packets_of_one_path(source: RcSource) -> None:
    source.post(2048 * 3 + 5)
    left = source.send()
    assert [packet.psn for packet in left] == [0, 1, 2, 3]
    first, middle, last = RcOpcode.WRITE_FIRST, RcOpcode.WRITE_MIDDLE, RcOpcode.WRITE_LAST
    assert [packet.write.bth.opcode for packet in left] == [first, middle, middle, last]
    assert {(packet.plane, packet.entropy) for packet in left} == {(0, RC_PATH)}
    assert b"".join(packet.write.payload for packet in left) == bytes(source.nic.memory[: 2048 * 3 + 5])
    assert left[0].write.reth == Reth(0, REMOTE_KEY, 2048 * 3 + 5)


def test_short_messages_are_single_packets_with_their_immediate(source: RcSource) -> None:
    source.post(7, immediate=0xABCD)
    (packet,) = source.send()
    assert packet.write.bth.opcode is RcOpcode.WRITE_ONLY_IMMEDIATE
    assert packet.write.immediate == ImmDt(0xABCD)
    assert packet.write.bth.pad_bytes == 1


def test_no_more_than_the_window_is_under_way_and_each_ack_lets_one_go(source: RcSource) -> None:
    source.post(2048 * 200)
    assert len(source.send()) == 64
    outcome, packet = source.ack(0)
    assert outcome.counters[NicCounter.RX_ACK] == 1
    assert packet is not None
    assert packet.psn == 64


def test_an_ack_covers_all_before_it_and_completes_messages(source: RcSource) -> None:
    source.post(2048 * 2, iterations=3)
    assert len(source.send()) == 6
    source.ack(3)
    assert source.completions() == []
    outcome, _ = source.ack(5, 3)
    assert outcome.counters[NicCounter.MESSAGES] == 1
    assert source.completions() == [Completed(1, 3, CompletionStatus.SUCCESS, 4096)]
    assert source.nic.rc_qp().req.acked_bytes == 3 * 4096


def test_sixty_messages_may_complete_at_once(source: RcSource) -> None:
    source.post(1, iterations=60, depth=60)
    assert len(source.send()) == 60
    outcome, _ = source.ack(59, 60)
    assert outcome.counters[NicCounter.MESSAGES] == 60
    assert source.completions() == [Completed(1, 60, CompletionStatus.SUCCESS, 1)]


def test_a_sequence_nak_sends_everything_from_there_again(source: RcSource) -> None:
    source.post(2048 * 20)
    first = source.send()
    _, again = source.nak(5, NakCode.PSN_SEQUENCE_ERROR)
    assert again is not None
    resent = [again, *source.send()]
    assert [packet.psn for packet in resent] == list(range(5, 20))
    assert [packet.write for packet in resent] == [packet.write for packet in first[5:]]
    assert source.nic.rc_qp().req.acked_psn == 5


def test_an_ack_that_names_what_was_never_sent_is_dropped(source: RcSource) -> None:
    source.post(2048 * 4)
    source.send()
    for outcome, _ in (source.ack(4), source.ack(-2), source.nak(5, NakCode.PSN_SEQUENCE_ERROR)):
        assert outcome.verdict is Verdict.DROP
        assert outcome.counters.keys() <= {NicCounter.DROP_STALE_ACK, NicCounter.DROP_STALE_NACK}
    assert source.nic.rc_qp().req.acked_psn == 0


@pytest.mark.parametrize("psn", [-1, 0, 1])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (NakCode.REMOTE_ACCESS_ERROR, AckKind.NAK),
        (NakCode.PSN_SEQUENCE_ERROR, AckKind.NAK),
        (0x0E, AckKind.RNR_NAK),
    ],
)
def test_a_nak_for_a_packet_that_was_not_sent_is_stale(
    source: RcSource, psn: int, code: int, kind: AckKind
) -> None:
    outcome, following = source.nak(psn, code, kind)
    assert (following, outcome.counters) == (None, {NicCounter.DROP_STALE_NACK: 1})
    source.post(2048)
    assert [packet.psn for packet in source.send()] == [0]
    outcome, following = source.nak(psn + 1 if psn >= 0 else psn, code, kind)
    assert (following, outcome.counters) == (None, {NicCounter.DROP_STALE_NACK: 1})
    assert source.nic.rc_qp().state == QpState.RTS


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (NakCode.REMOTE_ACCESS_ERROR, CompletionStatus.REMOTE_ACCESS),
        (NakCode.INVALID_REQUEST, CompletionStatus.REMOTE_INVALID_REQUEST),
        (NakCode.REMOTE_OPERATIONAL_ERROR, CompletionStatus.REMOTE_OPERATION),
    ],
)
def test_other_naks_end_the_connection(source: RcSource, code: NakCode, status: CompletionStatus) -> None:
    source.post(100)
    source.send()
    source.nak(0, code)
    assert source.nic.rc_qp().state == QpState.ERROR
    (event,) = source.nic.events()
    assert (event.kind, event.b, event.c) == (EventKind.QP_STATE, QpState.ERROR, status)


def test_nothing_leaves_while_the_peer_has_no_receive(source: RcSource) -> None:
    # its timer is not up before the test is over
    assert source.nic.rc_command(Command.LIMITS, source.index, 0, 10**9, 7, 1)
    source.post(10, iterations=5, immediate=1)
    source.send()
    _, packet = source.nak(0, 0x0E, AckKind.RNR_NAK)
    assert packet is None
    assert source.send() == []
    assert source.nic.rc_qp().req.is_rnr_wait


def test_a_time_out_goes_back_and_too_many_end_the_connection(rc_nic: NicBench, distant: FarEnd) -> None:
    source = RcSource(rc_nic, distant, retry_limit=1)
    source.post(2048 * 3)
    assert {packet.psn for packet in source.send()} == {0, 1, 2}
    rc_nic.edit_rc_qp(source.index, rto_ns=50_000_000, is_timer_armed=0)  # a store stops the timer
    assert source.send() == []
    assert EventKind.KICK in {event.kind for event in rc_nic.await_error()}
    assert rc_nic.rc_qp().state == QpState.ERROR


def test_several_evs_take_turns_over_planes_that_work(rc_nic: NicBench, distant: FarEnd) -> None:
    evs = tuple(plane << 28 | copy for copy in range(2) for plane in range(4))
    source = RcSource(rc_nic, distant, evs=evs)
    rc_nic.control.port_up_mask = 0b1011
    source.post(2048 * 24)
    planes = [packet.plane for packet in source.send()]
    assert len(planes) == 24
    assert {plane: planes.count(plane) for plane in set(planes)} == {0: 8, 1: 8, 3: 8}


def test_a_cnp_cuts_the_rate_and_acknowledges(rc_nic: NicBench, distant: FarEnd) -> None:
    source = RcSource(rc_nic, distant, cc=DcqcnParameters.scaled(10**9, 750_000, 2190))
    source.post(2048 * 100)
    assert len(source.send()) == 42  # rate x RTT in frames
    cnp = Cnp(RcBth(RcOpcode.CNP, distant.qpn, 20, becn=True), Aeth.ack(0))
    outcome, _ = source.receive(cnp, 0, RC_PATH)
    assert outcome.counters[NicCounter.RX_CNP] == 1
    qp = rc_nic.rc_qp()
    assert qp.req.acked_psn == 21
    assert (qp.dcqcn.rate_kbps, qp.dcqcn.reason) == (500_000, DcqcnReason.CNP)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32),
    first_psn=st.sampled_from([0, 2**24 - 20]),
    length=st.sampled_from([1, 2048, 9000, 30_000]),
    loss=st.sampled_from([0.0, 0.05, 0.3]),
    is_sprayed=st.booleans(),
)
def test_all_arrives_in_order_whatever_the_network_does(
    rc_nic: NicBench, distant: FarEnd, seed: int, first_psn: int, length: int, loss: float, is_sprayed: bool
) -> None:
    """The network loses, delays and reorders in both directions; a stall is ended as the clock would."""
    rc_nic.reset()
    random = Random(seed)
    evs = tuple(plane << 28 for plane in range(4)) if is_sprayed else (RC_PATH,)
    source = RcSource(rc_nic, distant, evs=evs, first_psn=first_psn)
    iterations = 4
    source.post(length, iterations=iterations)
    under_way: list[Sent] = source.send()
    stalls = 0
    while not source.completions():
        if not under_way:
            stalls += 1
            assert stalls < 200
            rc_nic.edit_rc_qp(next_psn=rc_nic.rc_qp().req.acked_psn)  # what a time-out does
            under_way = source.send()
            continue
        packet = under_way.pop(random.randrange(min(4, len(under_way))) if is_sprayed else 0)
        if random.random() < loss:
            continue
        said = source.responder.receive(packet.psn, packet.write)
        if said is None or random.random() < loss:
            continue
        _, following = source.receive(
            source.responder.answer(said, distant.qpn), packet.plane, packet.entropy
        )
        under_way += [following] if following else []
        under_way += source.send(4)
    packets = source.responder.taken
    assert source.responder.messages == iterations
    whole = b"".join(write.payload for write in packets)
    assert whole == bytes(rc_nic.memory[:length]) * iterations
    assert rc_nic.rc_qp().req.acked_psn == rc_nic.rc_qp().req.max_psn
