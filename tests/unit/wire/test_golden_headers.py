"""Encoder and decoder of every header against bytes typed by hand, and the numbers that are published."""

import pytest
from golden_headers import GOLDEN
from reference.layout import Header
from reference.opcode import Opcode
from reference.transport_header import AckKind, Aeth


@pytest.mark.parametrize(("header", "octets"), [g[1:] for g in GOLDEN], ids=[g[0] for g in GOLDEN])
def test_golden_header_is_encoded_and_decoded(header: Header, octets: str) -> None:
    assert header.encode().hex(" ") == octets
    assert type(header).decode(bytes.fromhex(octets)) == header


def test_there_are_twelve_opcodes_all_of_the_mrc_class_and_one_that_is_ours() -> None:
    published = set(Opcode) - {Opcode.LINK_PROBE}
    assert len(published) == 12
    assert {opcode >> 5 for opcode in published} == {0b110}
    assert Opcode.LINK_PROBE.value == 0xE0


def test_nak_syndrome_is_reported_from_an_ack() -> None:
    assert Aeth.decode(bytes.fromhex("1f000000")).kind is AckKind.ACK
    assert Aeth.decode(bytes.fromhex("62000000")).kind is AckKind.NAK
