"""NSCC's rules one by one, the worked example, and how far fixed point is from the text."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nscc_text import TextNscc
from reference.congestion import DELAY_SHIFT, CcReason, SackFeedback
from reference.nscc import Nscc

from agents.protocol.cc_profile import CcLink, CcParameters, CcProfile, Setting, derive_profile

LINK = CcLink(rate_bps=10**11, base_rtt_ns=12_000, mtu_bytes=4096)
BASE_NS, TARGET_NS = 12_000, 9_000
NOW_NS = 1_000_000
UNIT_BYTES = 256


def make(settings: dict[str, Setting] | None = None, **state: int) -> Nscc:
    nscc = Nscc.start(CcParameters.from_profile(derive_profile(LINK, settings)))
    for name, value in state.items():
        assert hasattr(nscc, name)
        setattr(nscc, name, value)
    return nscc


def sack(
    nscc: Nscc,
    received: int = 4096,
    delay_ns: int = 0,
    now_ns: int = NOW_NS,
    marked: int = 0,
    penalty: int = 0,
    is_penalty_over: int = 0,
) -> SackFeedback:
    units = nscc.received_units + received // UNIT_BYTES
    return SackFeedback(
        now_ns, units % (1 << 24), BASE_NS + delay_ns, bool(marked), penalty, bool(is_penalty_over)
    )


def test_worked_example_of_an_increase() -> None:
    nscc = make(cwnd_bytes=100_000)
    assert nscc.on_sack(sack(nscc, delay_ns=3_000)) == CcReason.PROPORTIONAL_INCREASE
    assert nscc.cwnd_bytes == 100_949


def test_worked_example_of_a_decrease() -> None:
    # the sample of 15 000 ns moves the average before it is used: undone here
    nscc = make(
        {"delay_gain": 0}, cwnd_bytes=100_000, avg_delay_q8=12_000 << DELAY_SHIFT, last_adjust_ns=NOW_NS
    )
    reason = nscc.on_sack(sack(nscc, delay_ns=15_000, marked=1))
    assert (reason, nscc.cwnd_bytes) == (CcReason.MULTIPLICATIVE_DECREASE, 80_000)


def test_mark_without_delay_changes_nothing() -> None:
    nscc = make(cwnd_bytes=100_000, last_adjust_ns=NOW_NS, is_increasing=1, fi_count_bytes=5)
    assert nscc.on_sack(sack(nscc, delay_ns=TARGET_NS - 1, marked=1)) == CcReason.NONE
    assert (nscc.cwnd_bytes, nscc.increase_square_bytes) == (100_000, 0)
    assert (nscc.is_increasing, nscc.fi_count_bytes) == (1, 5)


def test_delay_without_mark_is_a_fair_increase_granted_when_due() -> None:
    nscc = make(cwnd_bytes=100_000, last_adjust_ns=NOW_NS)
    for _ in range(8):
        assert nscc.on_sack(sack(nscc, delay_ns=TARGET_NS)) == CcReason.NONE
    assert nscc.increase_square_bytes == 8 * 4096 * 20_480
    assert nscc.on_sack(sack(nscc, delay_ns=TARGET_NS)) == CcReason.FAIR_INCREASE
    assert nscc.cwnd_bytes == 100_000 + 9 * 4096 * 20_480 // 100_000


def test_eta_comes_once_per_period_and_alone_if_nothing_else_does() -> None:
    nscc = make(cwnd_bytes=100_000)
    marked = {"delay_ns": 100, "marked": 1}
    assert nscc.on_sack(sack(nscc, **marked)) == CcReason.PERIODIC_INCREASE
    assert nscc.on_sack(sack(nscc, **marked, now_ns=NOW_NS + BASE_NS - 1)) == CcReason.NONE
    assert nscc.on_sack(sack(nscc, **marked, now_ns=NOW_NS + BASE_NS)) == CcReason.PERIODIC_INCREASE
    assert nscc.cwnd_bytes == 100_000 + 2 * 614


def test_decreases_are_a_base_rtt_apart_and_never_below_half() -> None:
    nscc = make({"gamma": 1, "eta": 0}, cwnd_bytes=100_000, avg_delay_q8=900_000 << DELAY_SHIFT)
    late = {"delay_ns": 900_000, "marked": 1}
    nscc.on_sack(sack(nscc, **late))
    assert nscc.cwnd_bytes == 50_000
    nscc.on_sack(sack(nscc, **late, now_ns=NOW_NS + BASE_NS - 1))
    assert nscc.cwnd_bytes == 50_000
    nscc.on_sack(sack(nscc, **late, now_ns=NOW_NS + BASE_NS))
    assert nscc.cwnd_bytes == 25_000


def test_fast_increase_begins_after_a_window_without_delay_and_ends_with_the_first_delay() -> None:
    nscc = make(cwnd_bytes=16_384, last_adjust_ns=NOW_NS)
    reasons = [nscc.on_sack(sack(nscc, delay_ns=1_000)) for _ in range(6)]
    assert reasons == [CcReason.NONE] * 4 + [CcReason.FAST_INCREASE] * 2
    assert nscc.cwnd_bytes == 16_384 + 2 * 1_024
    nscc.on_sack(sack(nscc, delay_ns=1_001))
    assert (nscc.is_increasing, nscc.fi_count_bytes) == (0, 0)


def test_shorter_rtt_becomes_the_base_and_lowers_the_largest_window() -> None:
    nscc = make()
    assert nscc.on_sack(sack(nscc, delay_ns=-4_000)) == CcReason.BASE_RTT
    assert (nscc.base_rtt_ns, nscc.max_wnd_bytes, nscc.cwnd_bytes) == (8_000, 150_000, 150_000)


def test_sack_without_sample_counts_with_the_average_delay() -> None:
    nscc = make(cwnd_bytes=100_000, avg_delay_q8=TARGET_NS << DELAY_SHIFT, last_adjust_ns=NOW_NS)
    nscc.on_sack(replace(sack(nscc), rtt_ns=None))
    assert nscc.increase_reason == CcReason.FAIR_INCREASE
    assert nscc.avg_delay_q8 == TARGET_NS << DELAY_SHIFT


def test_overtaken_sack_brings_no_bytes_but_its_mark_counts() -> None:
    nscc = make(received_units=100, inflight_bytes=50_000, avg_delay_q8=20_000 << DELAY_SHIFT)
    feedback = SackFeedback(NOW_NS, 90, BASE_NS + 20_000, is_marked=True)
    assert nscc.on_sack(feedback) == CcReason.MULTIPLICATIVE_DECREASE
    assert (nscc.received_units, nscc.inflight_bytes) == (100, 50_000)


def test_bytes_under_way_stay_within_a_unit_of_the_truth_over_a_wrap_of_the_count() -> None:
    nominal, received = 2136, (1 << 32) - 400 * UNIT_BYTES
    nscc = make(received_units=received >> 8)
    for _ in range(200):
        nscc.on_send(nominal)
        received += nominal
        nscc.on_sack(SackFeedback(NOW_NS, ((received + 255) >> 8) % (1 << 24)))
        assert -UNIT_BYTES < nscc.inflight_bytes <= 0


def test_trims_are_counted_then_quick_adapt_sets_the_window_to_what_arrived() -> None:
    nscc = make(inflight_bytes=200_000)
    nscc.on_sack(sack(nscc, received=8_192, delay_ns=5_000))
    end_ns = NOW_NS + BASE_NS + TARGET_NS
    assert nscc.qa_end_ns == end_ns
    window = nscc.cwnd_bytes
    assert nscc.on_nack(NOW_NS + 1, 4184, is_trimmed=True) == CcReason.TRIM
    assert nscc.cwnd_bytes == window - 4184
    nscc.on_sack(sack(nscc, received=20_480, delay_ns=8_000, now_ns=end_ns - 1))
    assert nscc.on_nack(end_ns, 4184, is_trimmed=True) == CcReason.QUICK_ADAPT
    assert nscc.cwnd_bytes == 20_480
    assert nscc.bytes_to_ignore == 200_000 - 8_192 - 2 * 4184 - 20_480
    # what was sent before the cut is not held against the new window
    assert nscc.on_nack(end_ns + 1, 4184, is_trimmed=True) == CcReason.NONE
    assert nscc.on_sack(sack(nscc, delay_ns=30_000, marked=1, now_ns=end_ns + 2)) == CcReason.NONE
    assert nscc.cwnd_bytes == 20_480


def test_quick_adapt_needs_little_to_have_arrived() -> None:
    limit = 225_000 >> 3
    for achieved, reason in ((limit - 1, CcReason.QUICK_ADAPT), (limit, CcReason.TRIM)):
        nscc = make(achieved_bytes=achieved, qa_end_ns=NOW_NS, inflight_bytes=90_000)
        assert nscc.on_nack(NOW_NS, 4184, is_trimmed=True) == reason


def test_delay_alone_triggers_quick_adapt_only_with_a_threshold() -> None:
    state = {"achieved_bytes": 0, "qa_end_ns": NOW_NS, "last_adjust_ns": NOW_NS}
    for threshold, reason in ((None, CcReason.NONE), (36_000, CcReason.QUICK_ADAPT)):
        nscc = make({"qa_threshold": threshold}, **state)
        assert nscc.on_sack(sack(nscc, delay_ns=36_001)) == reason


def test_quick_adapt_does_not_take_a_pause_for_a_loss() -> None:
    nscc = make(qa_end_ns=NOW_NS - 10**9, achieved_bytes=0)
    nscc.on_idle()
    nscc.on_send(4184)
    assert nscc.on_nack(NOW_NS, 4184, is_trimmed=True) == CcReason.TRIM
    assert nscc.cwnd_bytes == 225_000 - 4184


def test_bytes_never_reported_do_not_close_the_window_for_good() -> None:
    nscc = make(cwnd_bytes=4_096, inflight_bytes=5_000)
    assert not nscc.may_send()
    nscc.on_drained()
    assert nscc.packets_allowed(4_184) == 1


def test_inferred_loss_and_false_loss_balance_in_bytes_under_way() -> None:
    nscc = make(cwnd_bytes=6_000)
    nscc.on_send(4184)
    assert nscc.on_inferred_loss(4184) == CcReason.LOSS
    assert (nscc.inflight_bytes, nscc.cwnd_bytes) == (0, 4096)
    nscc.on_false_loss(4184)
    assert nscc.inflight_bytes == 4184


def test_other_refusals_leave_the_window() -> None:
    nscc = make(inflight_bytes=10_000)
    assert nscc.on_nack(NOW_NS, 4184, is_trimmed=False) == CcReason.NONE
    assert (nscc.inflight_bytes, nscc.cwnd_bytes, nscc.is_qa_triggered) == (5_816, 225_000, 0)


def test_penalty_of_a_half_for_a_window_halves_it_and_its_end_restores_it() -> None:
    nscc = make(inflight_bytes=225_280)
    for _ in range(55):
        nscc.on_send(4096)
        assert nscc.on_sack(sack(nscc, penalty=64)) == CcReason.PENALTY
    assert nscc.cwnd_bytes == 225_000 - 55 * 2_048
    assert nscc.saved_cwnd_bytes == 225_000
    assert nscc.on_sack(sack(nscc, penalty=64, is_penalty_over=1)) == CcReason.RESTORE
    assert (nscc.cwnd_bytes, nscc.saved_cwnd_bytes) == (225_000, 0)


def test_fixed_window_counts_bytes_and_nothing_else() -> None:
    nscc = make({"is_fixed": True, "max_cwnd": 50_000})
    nscc.on_send(60_000)
    assert not nscc.may_send()
    assert nscc.on_sack(sack(nscc, received=20_480, delay_ns=99_000, marked=1)) == CcReason.NONE
    assert nscc.on_nack(NOW_NS, 4184, is_trimmed=True) == CcReason.NONE
    assert nscc.on_inferred_loss(4184) == CcReason.NONE
    assert (nscc.cwnd_bytes, nscc.inflight_bytes) == (50_000, 60_000 - 20_480 - 2 * 4184)
    assert nscc.may_send()


@pytest.mark.parametrize(
    ("inflight", "packets", "asks"),
    [
        (-200, 5, False),
        (0, 4, False),
        (12_288, 1, False),
        (12_289, 1, True),
        (16_383, 1, True),
        (16_384, 0, True),
    ],
)
def test_one_packet_may_overshoot_the_window(inflight: int, packets: int, asks: bool) -> None:
    nscc = make(cwnd_bytes=16_384, inflight_bytes=inflight)
    assert nscc.packets_allowed(4096) == packets
    assert nscc.may_send() == (packets > 0)
    assert nscc.requests_sack() == asks


def test_small_window_always_asks_a_responder_that_coalesces() -> None:
    assert make({"sack_threshold": 16_384}, cwnd_bytes=16_383).requests_sack()
    assert not make({"sack_threshold": 16_384}, cwnd_bytes=16_384 + 4_096).requests_sack()


# ---- against the text ---------------------------------------------------------------------------

profiles = st.builds(
    derive_profile,
    st.builds(
        CcLink,
        rate_bps=st.sampled_from([10**8, 4 * 10**8, 10**10, 10**11, 8 * 10**11]),
        base_rtt_ns=st.integers(12_000, 2_000_000),
        mtu_bytes=st.sampled_from([1024, 2048, 4096]),
        is_trimming=st.booleans(),
    ),
)


@st.composite
def moments(draw: st.DrawFn) -> tuple[CcProfile, Nscc]:
    """Any state that a QP of some profile can be in."""
    profile = draw(profiles)
    nscc = Nscc.start(CcParameters.from_profile(profile))
    base_rtt_ns = profile.base_rtt_ns
    nscc.cwnd_bytes = draw(st.integers(profile.mtu_bytes, nscc.max_wnd_bytes))
    nscc.inflight_bytes = draw(st.integers(-255, nscc.cwnd_bytes))
    nscc.avg_delay_q8 = draw(st.integers(0, 4 * base_rtt_ns << DELAY_SHIFT))
    nscc.fi_count_bytes = draw(st.integers(0, 2 * nscc.cwnd_bytes))
    nscc.received_bytes = draw(st.integers(0, profile.adjust_bytes_threshold))
    nscc.increase_square_bytes = draw(st.integers(0, profile.fi_bytes)) * nscc.received_bytes
    nscc.achieved_bytes = draw(st.integers(0, nscc.max_wnd_bytes))
    nscc.bytes_to_ignore = draw(st.integers(0, nscc.cwnd_bytes))
    nscc.bytes_ignored = draw(st.integers(0, nscc.cwnd_bytes))
    nscc.is_increasing = draw(st.integers(0, 1))
    nscc.is_qa_triggered = draw(st.integers(0, 1))
    for name in ("qa_end_ns", "last_adjust_ns", "last_decrease_ns"):
        setattr(nscc, name, 10**9 - draw(st.integers(-base_rtt_ns, 2 * base_rtt_ns)))
    return profile, nscc


@given(
    moment=moments(),
    units=st.integers(0, 64),
    rtt_ratio=st.none() | st.floats(0.5, 4),
    is_marked=st.booleans(),
    penalty=st.sampled_from([0, 0, 0, 64]),
    is_trim=st.booleans(),
)
def test_fixed_point_stays_close_to_the_text(
    moment: tuple[CcProfile, Nscc],
    units: int,
    rtt_ratio: float | None,
    is_marked: bool,
    penalty: int,
    is_trim: bool,
) -> None:
    profile, nscc = moment
    text = TextNscc.like(nscc, profile)
    rtt_ns = None if rtt_ratio is None else int(profile.base_rtt_ns * rtt_ratio)
    cwnd_before, received = nscc.cwnd_bytes, units * UNIT_BYTES
    if is_trim:
        nscc.on_nack(10**9, 2136, is_trimmed=True)
        text.on_trim(10**9, 2136)
    else:
        nscc.on_sack(SackFeedback(10**9, units, rtt_ns, is_marked, penalty))
        text.on_sack(10**9, received, rtt_ns, is_marked, penalty)
    # bytes: a decrease loses 1 and 2^-16 of the window, eta, fi_scale and the penalty up to 1 each, and the
    # increase of a window up to 2 bytes, of which a SACK brings its part
    bound_bytes = 4 + 2 * cwnd_before / (1 << 16) + 2 * received / cwnd_before
    assert abs(nscc.cwnd_bytes - text.cwnd) <= bound_bytes
    assert nscc.max_wnd_bytes == pytest.approx(text.max_wnd, abs=1)
    # ns: half a unit of the gain, 2^-17, times a difference of at most 4 base RTTs, and one step of 2^-8
    assert (
        abs(nscc.avg_delay_q8 / (1 << DELAY_SHIFT) - text.avg_delay)
        <= 4 * profile.base_rtt_ns / 2**17 + 1 / 256
    )
    assert (nscc.inflight_bytes, nscc.achieved_bytes) == (text.inflight, text.achieved_bytes)
    assert (nscc.qa_end_ns, nscc.bytes_to_ignore) == (text.qa_endtime, text.bytes_to_ignore)
    assert bool(nscc.is_increasing) == text.increase_mode
