"""Whatever bytes arrive, the parser gives a frame or a WireError, and nothing else."""

import contextlib

from exploring import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packet_strategies import HEADERS, frames
from reference.frame import Frame, decode_frame, encode_frame, trim_frame
from reference.layout import WireError
from reference.packet import decode_packet, decode_trimmed


def parse_everywhere(octets: bytes) -> None:
    """Offers *octets* to every decoder; anything but a WireError escapes and fails the test."""
    for header in HEADERS:
        with contextlib.suppress(WireError):
            header.decode(octets)
    for checks_icrc in (False, True):
        with contextlib.suppress(WireError):
            decode_frame(octets, checks_icrc=checks_icrc)
    with contextlib.suppress(WireError):
        decode_packet(octets)
    with contextlib.suppress(WireError):
        decode_trimmed(octets, len(octets))
    with contextlib.suppress(WireError):
        decode_frame(trim_frame(octets, is_last_hop=False))


@settings(max_examples=examples(200))
@given(st.binary(max_size=300))
@example(b"")
@example(bytes(300))
@example(b"\xff" * 300)
def test_random_bytes_never_break_the_parser(octets: bytes) -> None:
    parse_everywhere(octets)


@settings(max_examples=examples(200))
@given(frames(), st.data())
def test_mutated_frames_never_break_the_parser(frame: Frame, data: st.DataObject) -> None:
    octets = bytearray(encode_frame(frame))
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    parse_everywhere(bytes(octets[: data.draw(st.integers(0, len(octets)))]))


@given(frames(), st.data())
def test_what_the_parser_accepts_it_can_also_write(frame: Frame, data: st.DataObject) -> None:
    octets = bytearray(encode_frame(frame))
    position = data.draw(st.integers(0, len(octets) - 1))
    octets[position] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(WireError):
        accepted = decode_frame(bytes(octets))
        assert decode_frame(encode_frame(accepted)) == accepted
