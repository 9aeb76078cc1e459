"""Every header survives encoding and decoding, and refuses what does not fit it."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packet_strategies import HEADERS, field_bounds, headers
from reference.layout import RESERVED, Header, Layout, WireError

each_header = pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.__name__)


@each_header
@given(data=st.data())
def test_header_survives_encoding_and_decoding(header: type[Header], data: st.DataObject) -> None:
    value = data.draw(headers(header))
    octets = value.encode()
    assert len(octets) == header.LAYOUT.size_bytes
    assert header.decode(octets + b"what follows") == value


@each_header
@given(data=st.data())
def test_reserved_bits_do_not_change_what_is_read(header: type[Header], data: st.DataObject) -> None:
    value = data.draw(headers(header))
    noise = data.draw(st.integers(0, 2**header.LAYOUT.width - 1))
    reserved, shift = 0, header.LAYOUT.width
    for field in header.LAYOUT.fields:
        shift -= field.width
        if field.name == RESERVED:
            reserved |= (2**field.width - 1) << shift
    octets = int.from_bytes(value.encode()) | noise & reserved
    assert header.decode(octets.to_bytes(header.LAYOUT.size_bytes)) == value


@each_header
@given(data=st.data())
def test_value_outside_its_field_is_refused(header: type[Header], data: st.DataObject) -> None:
    value = data.draw(headers(header))
    field = data.draw(st.sampled_from([f for f in header.LAYOUT.fields if f.name != RESERVED]))
    low, high = field_bounds(field)
    outside = data.draw(st.integers(max_value=low - 1) | st.integers(min_value=high + 1))
    wrong = dataclasses.replace(value, **{field.name: outside})  # type: ignore[type-var]
    with pytest.raises(WireError, match=f"{field.name} is {outside}, outside {low} to {high}"):
        wrong.encode()


@each_header
@given(data=st.data())
def test_header_cut_short_is_refused(header: type[Header], data: st.DataObject) -> None:
    octets = data.draw(headers(header)).encode()
    left = data.draw(st.integers(0, len(octets) - 1))
    with pytest.raises(WireError, match=f"{left} bytes where {len(octets)} are needed"):
        header.decode(octets[:left])


def test_layout_that_is_not_whole_bytes_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="12 bits are not whole bytes"):
        Layout("a:8 b:4")


def test_headers_cannot_be_changed() -> None:
    header = HEADERS[0].decode(bytes(64))
    with pytest.raises(dataclasses.FrozenInstanceError):
        header.msn = 1  # type: ignore[attr-defined]
