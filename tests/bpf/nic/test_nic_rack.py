"""RACK, and the RTT it goes by: a packet that others on other paths have passed is lost after a while."""

from fractions import Fraction

from far_end import FarEnd
from nic_bench import NicBench
from write_source import Sent, WriteSource

from mrc_agents.abi import EvState

REO_WND_NS = 50_000_000
RTO_NS = 40 * REO_WND_NS


def sent_when_asked(source: WriteSource) -> list[Sent]:
    """The packets that RACK or the RTO asks for, whose times begin now."""
    source.hasten(rto_ns=RTO_NS, reo_wnd_min_ns=REO_WND_NS)
    return source.send_when_asked()[0]


def test_first_sample_is_the_estimate_and_later_ones_move_it_by_less_than_a_ns_too(
    nic: NicBench, timed: FarEnd
) -> None:
    source = WriteSource(nic, timed)
    source.post(2048 * 24)
    first, *others = source.send()
    source.deliver(first)
    qp = nic.qp(source.index)
    assert 0 < qp.comp.srtt_ns == qp.comp.rtt_ns
    assert qp.comp.rttvar_ns == qp.comp.rtt_ns // 2
    srtt_ns, rttvar_ns = Fraction(qp.comp.rtt_ns), Fraction(qp.comp.rtt_ns // 2)
    assert len(others) > 16
    for packet in others[:16]:
        source.deliver(packet)
        qp = nic.qp(source.index)
        more_ns = abs(srtt_ns - qp.comp.rtt_ns) - rttvar_ns
        rttvar_ns += more_ns / (4 if more_ns > 0 else 64)
        srtt_ns += (qp.comp.rtt_ns - srtt_ns) / 8
        assert 0 <= srtt_ns - qp.comp.srtt_ns < 1.01
        assert 0 <= rttvar_ns - qp.comp.rttvar_ns < 1.01


def test_sample_of_a_short_packet_counts_as_that_of_a_full_one(nic: NicBench, timed: FarEnd) -> None:
    """Else a full packet would be late beside a short one that was sent behind it."""
    source = WriteSource(nic, timed, timed.attributes(byte_time_ps=100_000_000))
    source.post(100)
    (packet,) = source.send()
    source.deliver(packet)
    qp = nic.qp(source.index)
    assert qp.comp.srtt_ns == qp.evs.ev[packet.ev].rtt_ns > (2048 - 100) * 100_000


def test_packet_that_others_have_passed_is_lost_after_the_reordering_window(
    nic: NicBench, timed: FarEnd
) -> None:
    source = WriteSource(nic, timed)
    source.post(2048 * 4)
    lost, *others = source.send()
    for packet in others:
        source.deliver(packet)
    assert nic.qp(source.index).evs.ev[lost.ev].state == EvState.GOOD
    (again,) = sent_when_asked(source)
    assert (again.psn, again.write.bth.is_retransmission) == (lost.psn, True)
    assert again.ev != lost.ev
    qp = nic.qp(source.index)
    assert qp.evs.ev[lost.ev].state == EvState.ASSUMED_BAD
    assert (qp.head.retries, qp.comp.reo_wnd_steps) == (0, 0)


def test_last_packet_is_passed_by_none(nic: NicBench, timed: FarEnd) -> None:
    source = WriteSource(nic, timed)
    source.post(2048 * 4)
    *others, last = source.send()
    for packet in others:
        source.deliver(packet)
    (again,) = sent_when_asked(source)
    assert again.psn == last.psn
    assert nic.qp(source.index).head.retries == 1  # by the RTO: there is no tail loss probe here


def test_packet_that_had_only_been_late_makes_the_window_grow(nic: NicBench, timed: FarEnd) -> None:
    source = WriteSource(nic, timed)
    source.post(2048 * 4)
    late, *others, _ = source.send()
    for packet in others:
        source.deliver(packet)
    sent_when_asked(source)
    said = source.reply_to(late)
    assert isinstance(said, tuple)
    source.feed(said[0], plane=late.plane)
    assert nic.qp(source.index).comp.reo_wnd_steps == 1


def test_window_shrinks_again_after_losses_that_had_not_been_late(nic: NicBench, timed: FarEnd) -> None:
    source = WriteSource(nic, timed)
    nic.edit_qp(source.index, reo_wnd_steps=1, reo_wnd_losses=2)
    for left, steps in ((1, 1), (0, 0)):
        source.post(2048 * 4)
        _, *others = source.send()
        for packet in others:
            source.deliver(packet)
        (again,) = sent_when_asked(source)
        qp = nic.qp(source.index)
        assert (qp.comp.reo_wnd_losses, qp.comp.reo_wnd_steps) == (left, steps)
        source.hasten(reo_wnd_min_ns=0)
        source.deliver(again)
