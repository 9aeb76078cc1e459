"""EV formats: how the bits of an entropy value are described, expanded and generated, after libmrc.

A format describes the bits of an EV as fields, the first one most significant, with zeros in front of them.
The top four bits of an EV name its plane, which follows from the port, whatever fields are there. An EV
profile says for each field which of its bits are fixed and which vary:

    width 12, init_val 0x800, mask 0x0ff      1000 vvvv vvvv        v: the next bits of the EV's own number

Source: docs/reference/protocol.md, "EV profiles".
"""

import errno
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Final

from mrc_agents.errors import UsageError

EV_BITS: Final = 32
FIELDS_MAX: Final = 8

MODES: Final = ("STEV", "SRV6", "UDP")
USUAL_WIDTHS: Final[Mapping[str, tuple[int, ...]]] = {
    "SRV6": (12, 16),
    "STEV": (12, 8, 8),
    "UDP": (12, 16),
}
"""Fields of each mode in this lab: uplink and copy; uplink, lane and copy; zeros and the UDP source port."""


@dataclass(frozen=True, slots=True)
class EvField:
    width: int  # bits, at most those of the format's field; the rest is zero in front
    init_val: int = 0  # value of the bits that do not vary
    min: int = 0  # lowest value that the varying bits together are given
    max: int = 0  # highest
    mask: int = 0  # bits that vary; 0 for a field that is the same in every EV, with min and max 0

    @property
    def varying_bits(self) -> int:
        return self.mask.bit_count()

    def check(self, number: int, width_max: int) -> None:
        """Raises UsageError, naming the attribute and its range, for what cannot be field *number*."""
        where = f"fields[{number}]"
        ranges = {
            "width": (1, width_max),
            "init_val": (0, (1 << max(self.width, 1)) - 1),
            "mask": (0, (1 << max(self.width, 1)) - 1),
            "max": (0, (1 << self.varying_bits) - 1),
            "min": (0, self.max),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise UsageError(f"{where}.{name}: {value}; {low} to {high} is accepted")

    def expand(self, value: int) -> int:
        """The field's bits when the varying ones together are *value*: highest bit to highest place."""
        bits = self.init_val & ~self.mask
        left = self.varying_bits
        for place in reversed(range(self.width)):
            if self.mask >> place & 1:
                left -= 1
                bits |= (value >> left & 1) << place
        return bits


def parse_fields(described: Sequence[Mapping[str, int]]) -> tuple[EvField, ...]:
    """The fields of a profile as a client wrote them."""
    known = {field.name for field in fields(EvField)}
    parsed = []
    for number, field in enumerate(described):
        unknown = sorted(set(field) - known)
        if unknown:
            raise UsageError(
                f"fields[{number}]: no attribute {unknown[0]}; known: {', '.join(sorted(known))}"
            )
        if "width" not in field:
            raise UsageError(f"fields[{number}].width: missing; 1 to {EV_BITS} is accepted")
        parsed.append(EvField(**field))
    return tuple(parsed)


def check_widths(widths: Sequence[int]) -> None:
    """Raises UsageError for what cannot be the field widths of a format."""
    _check_count(len(widths), FIELDS_MAX, "1 to {}")
    for number, width in enumerate(widths):
        if width < 1:
            raise UsageError(f"fields[{number}]: {width} bits; 1 to {EV_BITS} is accepted")
    if sum(widths) > EV_BITS:
        raise UsageError(
            f"fields: {sum(widths)} bits together; up to {EV_BITS} are accepted", number=errno.E2BIG
        )


def check_fields(chosen: Sequence[EvField], widths: Sequence[int]) -> None:
    """Raises UsageError for fields that do not fit a format of *widths*."""
    _check_count(len(chosen), len(widths), "1 to {}, as the format has,")
    for number, (field, width) in enumerate(zip(chosen, widths, strict=False)):
        field.check(number, width)


def _check_count(count: int, most: int, accepted: str) -> None:
    if not 1 <= count <= most:
        raise UsageError(
            f"fields: {count} of them; {accepted.format(most)} are accepted",
            number=errno.E2BIG if count else errno.EINVAL,
        )


def expand_body(chosen: Sequence[EvField], widths: Sequence[int], values: Sequence[int]) -> int:
    """The bits of an EV whose fields' varying bits are *values*; fields that are left out are zero."""
    body = 0
    for number, width in enumerate(widths):
        bits = chosen[number].expand(values[number]) if number < len(chosen) else 0
        body = body << width | bits
    return body


def generate_bodies(
    chosen: Sequence[EvField], widths: Sequence[int], count: int, random: Random
) -> Iterator[int]:
    """*count* different bodies, at random among all that the fields allow."""
    sizes = [field.max - field.min + 1 for field in chosen]
    total = 1
    for size in sizes:
        total *= size
    if total < count:
        raise UsageError(f"count: the fields allow {total} different EVs in a plane, {count} are asked for")
    for number in random.sample(range(total), count):
        values, rest = [], number
        for field, size in zip(reversed(chosen), reversed(sizes), strict=True):
            rest, value = divmod(rest, size)
            values.append(field.min + value)
        yield expand_body(chosen, widths, values[::-1])
