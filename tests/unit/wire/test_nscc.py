"""NSCC: the worked examples of the text; C is held to the same oracle by tests/bpf/nscc."""

from reference.congestion import DELAY_SHIFT, CcReason, SackFeedback
from reference.nscc import Nscc
from reference.reliability_header import CcState

from mrc_agents.protocol.cc_profile import CcLink, CcParameters, Setting, derive_profile

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
    state = CcState(0, 0, bool(is_penalty_over), penalty, units % (1 << 24))
    return SackFeedback(now_ns, state, BASE_NS + delay_ns, bool(marked))


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
