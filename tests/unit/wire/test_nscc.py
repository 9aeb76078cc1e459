"""NSCC: the worked examples, and how far fixed point is from the text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nscc_text import TextNscc
from reference.congestion import DELAY_SHIFT, CcReason, SackFeedback
from reference.nscc import Nscc

from mrc_testbed.agents.protocol.cc_profile import CcLink, CcParameters, CcProfile, Setting, derive_profile

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
