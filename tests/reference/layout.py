"""Bit fields of a header, declared once as text and read both ways.

    Layout("version:4 traffic_class:8 flow_label:20 ...")

Fields follow one another from the most significant bit of the first byte, as the tables of
docs/reference/protocol.md list them. `name:n` is an unsigned field of n bits, `name:sn` a two's complement
one, `name:flag` one bit read as a bool, `_:n` reserved bits: sent as 0, ignored on receipt.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Self

RESERVED: Final = "_"


class WireError(ValueError):
    """Bytes that are not a well-formed packet, or a value that does not fit its field."""


@dataclass(frozen=True, slots=True)
class Field:
    """One bit field: its width, and how its bits are read."""

    name: str
    width: int
    is_signed: bool = False
    is_flag: bool = False
    values: type[IntEnum] | None = None

    def to_bits(self, value: int) -> int:
        """*value* as an unsigned number of `width` bits.

        Raises:
            WireError: it does not fit.
        """
        low, high = (-(1 << self.width - 1), 1 << self.width - 1) if self.is_signed else (0, 1 << self.width)
        if not low <= value < high:
            raise WireError(f"{self.name} is {value}, outside {low} to {high - 1}")
        return value & (1 << self.width) - 1

    def from_bits(self, bits: int) -> int:
        """The value that *bits* stand for.

        Raises:
            WireError: an enumeration has no such member.
        """
        if self.is_flag:
            return bool(bits)
        if self.is_signed and bits >> self.width - 1:
            return bits - (1 << self.width)
        if self.values is None:
            return bits
        try:
            return self.values(bits)
        except ValueError as error:
            raise WireError(f"{self.name} is {bits:#x}, which is not defined") from error


class Layout:
    """The fields of one header in wire order.

    Args:
        text: the fields, separated by spaces.
        enumerations: per field whose values are named, the names; other values are refused on receipt.
    """

    def __init__(self, text: str, **enumerations: type[IntEnum]) -> None:
        self.fields = tuple(self._parse(text, enumerations))
        self.width = sum(field.width for field in self.fields)
        if self.width % 8:
            raise ValueError(f"{self.width} bits are not whole bytes: {text}")
        self.size_bytes = self.width // 8

    @staticmethod
    def _parse(text: str, enumerations: Mapping[str, type[IntEnum]]) -> Iterator[Field]:
        for declaration in text.split():
            name, _, form = declaration.partition(":")
            is_flag, is_signed = form == "flag", form.startswith("s")
            width = 1 if is_flag else int(form.removeprefix("s"))
            yield Field(name, width, is_signed, is_flag, enumerations.get(name))

    def pack(self, values: object) -> bytes:
        """The header as bytes, its fields taken from the attributes of *values*.

        Raises:
            WireError: a value does not fit its field.
        """
        bits = 0
        for field in self.fields:
            bits <<= field.width
            if field.name != RESERVED:
                bits |= field.to_bits(getattr(values, field.name))
        return bits.to_bytes(self.size_bytes)

    def unpack(self, octets: bytes) -> dict[str, int]:
        """Values of the named fields at the start of *octets*.

        Raises:
            WireError: too few bytes, or a value that is not defined.
        """
        if len(octets) < self.size_bytes:
            raise WireError(f"{len(octets)} bytes where {self.size_bytes} are needed")
        bits = int.from_bytes(octets[: self.size_bytes])
        values = {}
        shift = self.width
        for field in self.fields:
            shift -= field.width
            if field.name != RESERVED:
                values[field.name] = field.from_bits(bits >> shift & (1 << field.width) - 1)
        return values


class Header:
    """A header whose attributes are the named fields of its LAYOUT."""

    __slots__ = ()

    LAYOUT: ClassVar[Layout]

    def encode(self) -> bytes:
        """The header's bytes, `LAYOUT.size_bytes` of them.

        Raises:
            WireError: a value does not fit its field.
        """
        return self.LAYOUT.pack(self)

    @classmethod
    def decode(cls, octets: bytes) -> Self:
        """The header at the start of *octets*.

        Raises:
            WireError: too few bytes, or a value that is not defined.
        """
        return cls(**cls.LAYOUT.unpack(octets))
