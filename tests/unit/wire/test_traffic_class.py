"""DSCP classes, and ECN through the tunnel as RFC 6040 has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.layout import WireError
from reference.traffic_class import Dscp, Ecn, TrafficClass, decapsulate, decode_traffic_class

NOT, ECT0, ECT1, CE = Ecn.NOT_ECT, Ecn.ECT0, Ecn.ECT1, Ecn.CE


@pytest.mark.parametrize(
    ("inner", "outer", "result"),
    [
        (NOT, NOT, NOT), (NOT, ECT0, NOT), (NOT, ECT1, NOT),
        (ECT0, NOT, ECT0), (ECT0, ECT0, ECT0), (ECT0, ECT1, ECT1), (ECT0, CE, CE),
        (ECT1, NOT, ECT1), (ECT1, ECT0, ECT1), (ECT1, ECT1, ECT1), (ECT1, CE, CE),
        (CE, NOT, CE), (CE, ECT0, CE), (CE, ECT1, CE), (CE, CE, CE),
    ],
)  # fmt: skip
def test_no_mark_is_lost_at_the_end_of_the_tunnel(inner: Ecn, outer: Ecn, result: Ecn) -> None:
    arrived = decapsulate(TrafficClass(Dscp.TRIMMABLE, inner), TrafficClass(Dscp.TRIMMED, outer))
    assert arrived == TrafficClass(Dscp.TRIMMED, result)


def test_mark_on_a_packet_that_does_not_take_marks_drops_it() -> None:
    with pytest.raises(WireError, match="does not take marks"):
        decapsulate(TrafficClass(Dscp.CONTROL, NOT), TrafficClass(Dscp.CONTROL, CE))


@given(st.integers(0, 255))
def test_traffic_class_byte_survives(octet: int) -> None:
    assert decode_traffic_class(octet).octet == octet


def test_classes_that_wait_in_the_control_queue() -> None:
    assert {dscp for dscp in Dscp if dscp.is_control} == {Dscp.CONTROL, Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP}
    assert {dscp for dscp in Dscp if dscp.is_trimmable} == {Dscp.TRIMMABLE, Dscp.TRIMMABLE_RETX}
