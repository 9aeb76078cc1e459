"""The traffic class byte."""

from hypothesis import given
from hypothesis import strategies as st
from reference.traffic_class import decode_traffic_class


@given(st.integers(0, 255))
def test_traffic_class_byte_survives(octet: int) -> None:
    assert decode_traffic_class(octet).octet == octet
