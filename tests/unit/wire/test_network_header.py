"""MAC addresses as text, and IPv6 fields that do not fit."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference.layout import WireError
from reference.network_header import Ipv6, NextHeader, format_mac, parse_mac

ADDRESS = IPv6Address("fd6d:7263::1")


@given(st.integers(0, 2**48 - 1))
def test_mac_address_survives_as_text(mac: int) -> None:
    assert parse_mac(format_mac(mac)) == mac


def test_mac_address_of_a_port() -> None:
    assert parse_mac("02:4d:52:00:01:0a") == 0x024D5200010A


@pytest.mark.parametrize(
    "text",
    ["", "02:4d:52:00:01", "02:4d:52:00:01:0g", "2:4d:52:0:1:a:b", "024d5200010a", "+2:4d:52:00:01:0a"],
)
def test_text_that_is_no_mac_address_is_refused(text: str) -> None:
    with pytest.raises(WireError, match="is not a MAC address"):
        parse_mac(text)


@pytest.mark.parametrize(
    ("header", "payload_bytes"),
    [
        (Ipv6(ADDRESS, ADDRESS, traffic_class=256), 0),
        (Ipv6(ADDRESS, ADDRESS, flow_label=1 << 20), 0),
        (Ipv6(ADDRESS, ADDRESS, hop_limit=-1), 0),
        (Ipv6(ADDRESS, ADDRESS), 65536),
    ],
)
def test_ipv6_field_that_does_not_fit_is_refused(header: Ipv6, payload_bytes: int) -> None:
    with pytest.raises(WireError, match="too large"):
        header.encode(payload_bytes, NextHeader.UDP)
