"""The EV in source port and flow label."""

from hypothesis import given
from hypothesis import strategies as st
from reference.entropy_value import reflected_ev

from mrc_testbed.topology.ev import ev_flow_label, ev_source_port

evs = st.integers(0, 2**32 - 1)


def test_low_half_is_the_source_port() -> None:
    assert (ev_source_port(0x1001ABCD), ev_flow_label(0x1001ABCD)) == (0xABCD, 0x1001)


@given(evs, st.integers(0, 15))
def test_ev_is_reflected_whatever_the_top_of_the_flow_label(ev: int, top: int) -> None:
    assert reflected_ev(ev_source_port(ev), ev_flow_label(ev) | top << 16) == ev
