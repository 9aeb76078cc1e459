"""The EV in source port and flow label, and as a string of selectors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.entropy_value import join_selectors, reflected_ev, split_selectors
from reference.layout import WireError

from testbed.topology.ev import ev_flow_label, ev_source_port

evs = st.integers(0, 2**32 - 1)
selector_widths = st.sampled_from([(16, 16), (8, 4, 4), (8, 8, 8, 8), (1,), (32,)])


def test_low_half_is_the_source_port() -> None:
    assert (ev_source_port(0x1001ABCD), ev_flow_label(0x1001ABCD)) == (0xABCD, 0x1001)


@given(evs, st.integers(0, 15))
def test_ev_is_reflected_whatever_the_top_of_the_flow_label(ev: int, top: int) -> None:
    assert reflected_ev(ev_source_port(ev), ev_flow_label(ev) | top << 16) == ev


def test_first_hop_is_the_most_significant_selector() -> None:
    assert join_selectors((0xAB, 0xC, 0xD), (8, 4, 4)) == 0xABCD0000


@given(selector_widths, st.data())
def test_selectors_survive_joining_and_splitting(widths: tuple[int, ...], data: st.DataObject) -> None:
    selectors = tuple(data.draw(st.integers(0, 2**width - 1)) for width in widths)
    assert split_selectors(join_selectors(selectors, widths), widths) == selectors


@pytest.mark.parametrize(
    ("selectors", "widths", "message"),
    [
        ((16,), (4,), "selector 16 does not fit 4 bits"),
        ((1, 2), (4,), "2 selectors for 1 tiers"),
        ((1, 2), (16, 17), "not positive numbers of together 32 bits"),
        ((1, 2), (4, 0), "not positive numbers of together 32 bits"),
    ],
)
def test_selectors_that_do_not_fit_are_refused(
    selectors: tuple[int, ...], widths: tuple[int, ...], message: str
) -> None:
    with pytest.raises(WireError, match=message):
        join_selectors(selectors, widths)
