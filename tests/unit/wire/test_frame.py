"""Whole frames: golden bytes, round trips, lengths, trimming."""

from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packet_strategies import bths, frames, headers, packets, writes
from reference.frame import (
    WRITE_HEADER_BYTES,
    WRITE_OVERHEAD_BYTES,
    Frame,
    Route,
    build_frame,
    decode_frame,
    encode_frame,
    traffic_class_of,
    trim_frame,
)
from reference.layout import WireError
from reference.opcode import Opcode
from reference.packet import (
    Nack,
    Packet,
    Sack,
    TrimmedWrite,
    Write,
    decode_packet,
    make_write,
)
from reference.reliability_header import CcState, NackReason, Neth, PathAdvice, Seth
from reference.traffic_class import Dscp, Ecn, TrafficClass
from reference.transport_header import Bth, Meth, Reth, Tseth

ROUTE = Route(
    source_mac=0x024D52000001,
    destination_mac=0x024D52000002,
    source=IPv6Address("fd6d:7263:0:1::1"),
    destination=IPv6Address("fd6d:7263:0:1::6"),
    carrier=IPv6Address("fcbb:0:4400:8401:4401:c401::"),
    ev=0x1001_ABCD,
)
WRITE = make_write(
    Opcode.WRITE_ONLY, 0x123, 0xABCD, Meth(2, 7), Reth(0x1000, 0xDEADBEEF, 5), b"hello", tseth=Tseth(0x1234)
)
WRITE_OCTETS = """
    02 4d 52 00 00 02  02 4d 52 00 00 01  86 dd
    61 20 10 01  00 60 29 40
        fd 6d 72 63 00 00 00 01  00 00 00 00 00 00 00 01
        fc bb 00 00 44 00 84 01  44 01 c4 01 00 00 00 00
    61 20 10 01  00 38 11 40
        fd 6d 72 63 00 00 00 01  00 00 00 00 00 00 00 01
        fd 6d 72 63 00 00 00 01  00 00 00 00 00 00 00 06
    ab cd 12 b7 00 38 00 00
    ca 30 ff ff 00 00 01 23  10 00 ab cd
    00 02 00 07
    12 34 00 01
    00 00 00 00 00 00 10 00  de ad be ef  00 00 00 05
    68 65 6c 6c 6f 00 00 00
    00 00 00 00
"""
SACK = Sack(
    Bth(Opcode.SACK, 0x456, 4),
    Seth(4, ROUTE.ev, 0x76, ack_psn_offset=7, advice=PathAdvice.SKIP_ONCE),
    CcState(0x1234, 5, received_units=84),
)
SACK_OCTETS = """
    02 4d 52 00 00 02  02 4d 52 00 00 01  86 dd
    6b 80 10 01  00 64 29 40
        fd 6d 72 63 00 00 00 01  00 00 00 00 00 00 00 01
        fc bb 00 00 44 00 84 01  44 01 c4 01 00 00 00 00
    6b 80 10 01  00 3c 11 40
        fd 6d 72 63 00 00 00 01  00 00 00 00 00 00 00 01
        fd 6d 72 63 00 00 00 01  00 00 00 00 00 00 00 06
    ab cd 12 b7 00 3c 00 00
    dc 00 ff ff 00 00 04 56  00 00 00 04
    00 20 00 07  10 01 ab cd  00 00 00 00  00 00 00 04  00 00 00 01  00 00 00 00 00 00 00 76
    12 34 00 05 00 00 00 54
    00 00 00 00
"""


@pytest.mark.parametrize(
    ("packet", "octets"), [(WRITE, WRITE_OCTETS), (SACK, SACK_OCTETS)], ids=["WRITE Only", "SACK"]
)
def test_golden_frame_is_built_and_read(packet: Packet, octets: str) -> None:
    frame = build_frame(ROUTE, packet)
    assert encode_frame(frame) == bytes.fromhex(octets)
    assert decode_frame(bytes.fromhex(octets)) == frame


def test_write_has_the_header_bytes_that_the_data_plane_counts_on() -> None:
    payload = bytes(2048)
    write = make_write(Opcode.WRITE_FIRST, 1, 0, Meth(0, 0), Reth(0, 1, 4096), payload, tseth=Tseth(0))
    octets = encode_frame(build_frame(ROUTE, write))
    assert len(octets) == WRITE_OVERHEAD_BYTES + 2048 == 142 + 2048
    assert octets[WRITE_HEADER_BYTES : WRITE_HEADER_BYTES + 2048] == payload


@given(frames(), st.booleans())
def test_frame_survives_encoding_and_decoding(frame: Frame, with_icrc: bool) -> None:
    octets = encode_frame(frame, with_icrc=with_icrc)
    assert decode_frame(octets, checks_icrc=with_icrc) == frame


@given(frames())
def test_frame_carries_the_ev_it_was_built_with(frame: Frame) -> None:
    route = replace(ROUTE, ev=frame.ev)
    assert decode_frame(encode_frame(build_frame(route, frame.packet))).ev == frame.ev


@given(frames(), st.data())
def test_frame_of_another_length_is_refused(frame: Frame, data: st.DataObject) -> None:
    octets = encode_frame(frame)
    shorter = octets[: data.draw(st.integers(0, len(octets) - 1))]
    with pytest.raises(WireError):
        decode_frame(shorter)
    with pytest.raises(WireError, match="bytes follow an IPv6 header that announces"):
        decode_frame(octets + data.draw(st.binary(min_size=1, max_size=60)))


@given(packets())
def test_only_data_is_trimmable_and_takes_marks(packet: Packet) -> None:
    dscp, ecn = traffic_class_of(packet)
    if isinstance(packet, Write):
        assert ecn is Ecn.ECT0
        assert dscp == (Dscp.TRIMMABLE_RETX if packet.bth.is_retransmission else Dscp.TRIMMABLE)
    else:
        assert (dscp, ecn) == (Dscp.CONTROL, Ecn.NOT_ECT)


@given(writes(), st.booleans())
def test_trimmed_frame_says_what_was_lost(write: Write, is_last_hop: bool) -> None:
    write = replace(write, bth=replace(write.bth, has_timestamp=True), tseth=write.tseth or Tseth(0))
    before = build_frame(ROUTE, write)
    trimmed = decode_frame(trim_frame(encode_frame(before), is_last_hop=is_last_hop))
    expected = Dscp.TRIMMED_LASTHOP if is_last_hop else Dscp.TRIMMED
    assert trimmed.traffic_class == TrafficClass(expected, Ecn.ECT0)
    assert trimmed.ev == before.ev
    assert trimmed.packet == TrimmedWrite(write.bth, write.meth, write.tseth, write.reth, len(write.encode()))


@given(writes())
def test_trimmed_frame_survives_encoding_and_decoding(write: Write) -> None:
    left = TrimmedWrite(write.bth, write.meth, write.tseth, write.reth, len(write.encode()))
    frame = build_frame(ROUTE, left, TrafficClass(Dscp.TRIMMED, Ecn.CE))
    assert decode_frame(encode_frame(frame)) == frame


def test_trim_keeps_what_it_is_asked_to() -> None:
    write = make_write(Opcode.WRITE_FIRST, 1, 9, Meth(0, 0), Reth(0, 1, 8192), bytes(2048), tseth=Tseth(77))
    octets = trim_frame(encode_frame(build_frame(ROUTE, write)), is_last_hop=False, kept_bytes=122)
    assert len(octets) == 122
    packet = decode_frame(octets).packet
    assert packet == TrimmedWrite(write.bth, write.meth, write.tseth, None, len(write.encode()))


@given(bths(Opcode.NACK), headers(Neth))
def test_control_packets_are_never_trimmed(bth: Bth, neth: Neth) -> None:
    octets = encode_frame(build_frame(ROUTE, Nack(bth, neth)))
    with pytest.raises(WireError, match="DSCP 46 is not to be trimmed"):
        trim_frame(octets, is_last_hop=True)


def test_a_packet_is_not_trimmed_twice() -> None:
    once = trim_frame(bytes.fromhex(WRITE_OCTETS), is_last_hop=False)
    with pytest.raises(WireError, match="DSCP 12 is not to be trimmed"):
        trim_frame(once, is_last_hop=True)


def with_octet(offset: int, value: int) -> bytes:
    octets = bytearray.fromhex(WRITE_OCTETS)
    octets[offset] = value
    return bytes(octets)


@pytest.mark.parametrize(
    ("octets", "message"),
    [
        (b"", "0 bytes where 14 are needed"),
        (with_octet(12, 0x08), "ethertype 0x08dd is not IPv6"),
        (with_octet(14, 0x41), "IP version 4 where 6 is expected"),
        (with_octet(20, 43), "next header 43 where UDP is expected"),
        (with_octet(54, 0x71), "IP version 7 where 6 is expected"),
        (with_octet(59, 0x39), "inner length 57 in an outer one of 96"),
        (with_octet(60, 6), "next header 6 where UDP is expected"),
        (with_octet(97, 0xB8), "UDP port 4792 is not MRC"),
        (with_octet(99, 0x37), "UDP length 55 in 56 bytes of IPv6 payload"),
        (with_octet(102, 0xC0), "opcode is 0xc0, which is not defined"),
        (with_octet(103, 0x31), "transport version 1 where 0 is expected"),
        (with_octet(102, 0xD1), "28 bytes too many in ACKNOWLEDGE"),
    ],
)
def test_malformed_frame_is_refused_with_the_reason(octets: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        decode_frame(octets)


@pytest.mark.parametrize(("pad_bytes", "payload"), [(0, b"hello"), (3, b""), (1, b"hello!")])
def test_pad_that_does_not_fill_up_the_payload_is_refused(pad_bytes: int, payload: bytes) -> None:
    headers_of_a_write = replace(WRITE.bth, pad_bytes=pad_bytes).encode() + WRITE.encode()[12:36]
    with pytest.raises(WireError, match=f"pad of {pad_bytes} in {len(payload)} bytes of payload and pad"):
        decode_packet(headers_of_a_write + payload)


def test_another_udp_port_can_be_accepted() -> None:
    assert decode_frame(with_octet(97, 0xB8), udp_ports=(4791, 4792)).destination_port == 4792


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (replace(WRITE, tseth=None), "BTH of WRITE_ONLY contradicts the headers that follow it"),
        (replace(WRITE, payload=b"hell"), "pad of 3 for a payload of 4 bytes"),
        (Sack(Bth(Opcode.NACK, 1), SACK.seth, SACK.cc_state), "BTH of NACK in front of SACK headers"),
        (Nack(Bth(Opcode.NACK, 1 << 24), Neth(NackReason.TRIMMED, 0, 0, 0)), "destination_qpn is 16777216"),
    ],
)
def test_packet_that_contradicts_itself_is_not_encoded(packet: Packet, message: str) -> None:
    with pytest.raises(WireError, match=message):
        encode_frame(build_frame(ROUTE, packet))
