"""Encoder and decoder of every header against bytes typed by hand, and the numbers that are published."""

import pytest
from golden_headers import GOLDEN
from reference.endpoint_header import Erth
from reference.layout import Header, WireError
from reference.opcode import Opcode
from reference.reliability_header import NackReason, Neth
from reference.transport_header import AckKind, Aeth, Bth


@pytest.mark.parametrize(("header", "octets"), [g[1:] for g in GOLDEN], ids=[g[0] for g in GOLDEN])
def test_golden_header_is_encoded_and_decoded(header: Header, octets: str) -> None:
    assert header.encode().hex(" ") == octets
    assert type(header).decode(bytes.fromhex(octets)) == header


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0xC6, "WRITE_FIRST"),
        (0xC7, "WRITE_MIDDLE"),
        (0xC8, "WRITE_LAST"),
        (0xC9, "WRITE_LAST_IMMEDIATE"),
        (0xCA, "WRITE_ONLY"),
        (0xCB, "WRITE_ONLY_IMMEDIATE"),
        (0xD1, "ACKNOWLEDGE"),
        (0xD8, "ENDPOINT_REQUEST"),
        (0xD9, "ENDPOINT_RESPONSE"),
        (0xDC, "SACK"),
        (0xDD, "NACK"),
        (0xDE, "PROBE"),
    ],
)
def test_opcode_has_its_published_number(code: int, name: str) -> None:
    assert Opcode[name] == code


def test_there_are_twelve_opcodes_all_of_the_mrc_class_and_one_that_is_ours() -> None:
    published = set(Opcode) - {Opcode.LINK_PROBE}
    assert len(published) == 12
    assert {opcode >> 5 for opcode in published} == {0b110}
    assert Opcode.LINK_PROBE.value == 0xE0


def test_reserved_bits_are_ignored_on_receipt() -> None:
    octets = bytes.fromhex("c6 00 ff ff ff 00 00 00 4f 00 00 00")
    assert Bth.decode(octets) == Bth(Opcode.WRITE_FIRST, 0, 0)


@pytest.mark.parametrize("code", [0x00, 0x0A, 0xC5, 0xCC, 0xD0, 0xDA, 0xDF, 0xFF])
def test_unknown_opcode_is_refused(code: int) -> None:
    with pytest.raises(WireError, match=f"opcode is {code:#x}, which is not defined"):
        Bth.decode(bytes([code]) + bytes(11))


def test_undefined_endpoint_operation_is_refused() -> None:
    with pytest.raises(WireError, match="operation is 0x2, which is not defined"):
        Erth.decode(bytes.fromhex("0002") + bytes(14))


@pytest.mark.parametrize(
    ("reason", "known"),
    [
        (0x01, NackReason.TRIMMED),
        (0x02, NackReason.TRIMMED_LASTHOP),
        (0x06, NackReason.NO_BITMAP),
        (0x07, NackReason.NO_PACKET_BUFFER),
        (0x0A, NackReason.NO_RESOURCE),
        (0x0B, NackReason.PSN_OUT_OF_WINDOW),
        (0x19, NackReason.UNEXPECTED_EVENT),
        (0x03, NackReason.UNEXPECTED_EVENT),
        (0xFF, NackReason.UNEXPECTED_EVENT),
    ],
)
def test_nack_reason_that_is_not_defined_counts_as_unexpected_event(reason: int, known: NackReason) -> None:
    assert Neth.decode(bytes([0, 0, reason]) + bytes(17)).known_reason is known


def test_nak_syndrome_is_reported_from_an_ack() -> None:
    assert Aeth.decode(bytes.fromhex("1f000000")).kind is AckKind.ACK
    assert Aeth.decode(bytes.fromhex("62000000")).kind is AckKind.NAK
