"""Messages of protobuf, as far as Chakra's files need them: fields, and how each is encoded. Pure.

Source: the encoding page of Protocol Buffers.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

Value: TypeAlias = int | bytes
"""A whole number without its sign, or what has a length: text, a message, packed numbers."""

VARINT, LENGTH = 0, 2
"""Wire types of what is read."""

_FIXED_BYTES: Final = {1: 8, 5: 4}
_VARINT_BYTES_MAX: Final = 10


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read the number at an offset; the offset behind it comes with it."""
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            raise ValueError(f"truncated at byte {len(data)}")
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("a number of more than 64 bits")


def read_fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of each field of a message, in order; those of fixed size are passed over."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = read_varint(data, at)
            yield number, value
            continue
        length = _FIXED_BYTES.get(wire_type)
        if wire_type == LENGTH:
            length, at = read_varint(data, at)
        if length is None or at + length > len(data):
            raise ValueError(f"field {number} of wire type {wire_type} is no protobuf")
        if wire_type == LENGTH:
            yield number, data[at : at + length]
        at += length


def read_delimited(data: bytes, at: int = 0) -> Iterator[bytes]:
    """Messages that stand behind their lengths, as in a file of them."""
    while at < len(data):
        length, at = read_varint(data, at)
        if at + length > len(data):
            raise ValueError(f"truncated at byte {len(data)}: a message ends at byte {at + length}")
        yield data[at : at + length]
        at += length


def read_packed(value: Value) -> Iterator[int]:
    """Numbers of a repeated field, one by one or packed."""
    at = 0
    if isinstance(value, int):
        yield value
        return
    while at < len(value):
        number, at = read_varint(value, at)
        yield number


def signed(value: int) -> int:
    """Return what an int64 is, as it stands for it on the wire."""
    return value - (1 << 64) if value >> 63 else value


def varint(value: int) -> bytes:
    """Encode a whole number; one below 0 is an int64."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def delimited(message: bytes) -> bytes:
    """Encode a message behind its length."""
    return varint(len(message)) + message


def field(number: int, value: int | str | bytes) -> bytes:
    """Encode a field."""
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    return varint(number << 3 | LENGTH) + delimited(value.encode() if isinstance(value, str) else value)
