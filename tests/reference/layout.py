"""Bit fields of a header, declared once as text and read both ways.

    Layout("version:4 traffic_class:8 flow_label:20 ...")

Fields follow one another from the most significant bit of the first byte, as the tables of
docs/reference/protocol.md list them. `name:n` is an unsigned field of n bits, `name:sn` a two's complement
one, `name:flag` one bit read as a bool, `_:n` reserved bits: sent as 0, ignored on receipt.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Self, dataclass_transform

RESERVED: Final = "_"


class WireError(ValueError):
    """Bytes that are not a well-formed packet, or a value that does not fit its field."""


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One bit field: its width, and how its bits are read."""

    name: str
    width: int
    is_signed: bool = False
    values: Callable[[int], object] | None = None  # the type of a value


class Layout:
    """The fields of one header in wire order; *kinds* are the types of their values, where these matter."""

    def __init__(self, text: str, kinds: Mapping[str, Callable[[int], object]] = {}) -> None:
        parsed = []
        for name, _, form in (declaration.partition(":") for declaration in text.split()):
            kind = bool if form == "flag" else kinds.get(name)
            parsed.append(Field(name, 1 if form == "flag" else int(form.lstrip("s")), form[0] == "s", kind))
        self.fields = tuple(parsed)
        self.size_bytes = sum(field.width for field in parsed) // 8

    def pack(self, header: object) -> bytes:
        """The bytes of *header*, which has an attribute for each named field."""
        bits = 0
        for field in self.fields:
            value = 0 if field.name == RESERVED else int(getattr(header, field.name))
            end = 1 << field.width - field.is_signed
            if not -end * field.is_signed <= value < end:
                raise WireError(f"{field.name} is {value}, which {field.width} bits do not hold")
            bits = bits << field.width | value & (1 << field.width) - 1
        return bits.to_bytes(self.size_bytes)

    def unpack(self, octets: bytes) -> dict[str, object]:
        """Values of the named fields at the start of *octets*."""
        if len(octets) < self.size_bytes:
            raise WireError(f"{len(octets)} bytes where {self.size_bytes} are needed")
        bits = int.from_bytes(octets[: self.size_bytes])
        found: dict[str, object] = {}
        for field in reversed(self.fields):
            value = bits & (1 << field.width) - 1
            bits >>= field.width
            if field.is_signed and value >> field.width - 1:
                value -= 1 << field.width
            try:
                found[field.name] = value if field.values is None else field.values(value)
            except ValueError as error:
                raise WireError(f"{field.name} is {value:#x}, which is not defined") from error
        found.pop(RESERVED, None)
        return found


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Frozen:
    """A class whose subclasses are frozen dataclasses."""

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True)(cls)


class Header(Frozen):
    """A header whose attributes are the named fields of its layout."""

    LAYOUT: ClassVar[Layout]

    def __init_subclass__(cls, layout: str) -> None:
        super().__init_subclass__()
        cls.LAYOUT = Layout(layout, cls.__annotations__)

    def encode(self) -> bytes:
        return self.LAYOUT.pack(self)

    @classmethod
    def decode(cls, octets: bytes) -> Self:
        """The header at the start of *octets*."""
        return cls(**cls.LAYOUT.unpack(octets))

    @classmethod
    def take(cls, octets: bytes) -> tuple[Self, bytes]:
        """The header at the start of *octets*, and what follows it."""
        return cls.decode(octets), octets[cls.LAYOUT.size_bytes :]


class HeaderSequence(Frozen):
    """A packet as the headers among its attributes, in wire order."""

    @property
    def headers(self) -> tuple[Header, ...]:
        return tuple(part for part in vars(self).values() if isinstance(part, Header))

    def encode(self) -> bytes:
        return b"".join(header.encode() for header in self.headers)


def pad_bytes(payload_bytes: int) -> int:
    """Bytes between a payload of that length and the iCRC, 0 to 3."""
    return -payload_bytes % 4


def without_pad(octets: bytes, pad: int) -> bytes:
    """The payload in front of a pad of so many bytes."""
    payload_bytes = len(octets) - pad
    if payload_bytes < 0 or pad != pad_bytes(payload_bytes):
        raise WireError(f"pad of {pad} in {len(octets)} bytes of payload and pad")
    return octets[:payload_bytes]
