"""Micro segments and carriers: the source route that MRC writes into an IPv6 destination address.

A carrier in F3216 format holds a 32-bit block and up to six 16-bit uSIDs, the first of them active:

    fcbb:0000 : T0 source : T1 : T0 destination : downlink : 0 : 0
    fcbb:0000 : T0 source : T1 : T2 : T1 : T0 destination : downlink

A uSID of this fabric:

    15 14 | 13 12 11 10 | 9 ............ 0
    role  | plane       | index               role 1 T0, 2 T1, 3 downlink, or T2 where another follows;
                                              never 0, so 0 ends a carrier

The plane bits stand at the same place in every role: a NIC deposits the plane in all uSIDs by one
multiplication. On the way up a switch owns the numbers of the uplinks that reach it. On the way down it owns
a uSID per lane, which chooses the lane: T0 i the indices i*U .. i*U+U-1, and the T1s of pod p likewise,
behind the numbers of the uplinks of a T0.

Source: RFC 9800 (NEXT-CSID, uN); docs/reference/protocol.md, "uSIDs". The numeric layout is ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from ipaddress import IPv6Address
from typing import Final

from mrc_testbed.topology.numbering import Numbering

BLOCK: Final = 0xFCBB_0000
"""First 32 bits of every carrier: the SRv6 locator block fcbb:0::/32."""

ROLE_SHIFT: Final = 14
PLANE_SHIFT: Final = 10
PLANE_COUNT: Final = 1 << ROLE_SHIFT - PLANE_SHIFT
INDEX_COUNT: Final = 1 << PLANE_SHIFT
CARRIER_SLOTS: Final = 6

_BLOCK_SHIFT: Final = 96
_ARGUMENT_MASK: Final = (1 << _BLOCK_SHIFT) - 1


class Role(IntEnum):
    T0 = 1
    T1 = 2
    DOWNLINK = 3
    T2 = 4

    @property
    def bits(self) -> int:
        """The role on the wire: a T0 reads as downlink what the switches above it read as T2."""
        return min(self, Role.DOWNLINK)

    @property
    def label(self) -> str:
        """The label for people: T0, T1 or DL."""
        return "DL" if self is Role.DOWNLINK else self.name


@dataclass(frozen=True, slots=True)
class Usid:
    """A decoded uSID."""

    role: Role  # what it names
    plane: int  # 0 to 15
    index: int  # 0 to 1023

    @property
    def value(self) -> int:
        """The 16 bits on the wire."""
        return self.role.bits << ROLE_SHIFT | self.plane << PLANE_SHIFT | self.index

    def __str__(self) -> str:
        return f"{self.role.label}({self.index})"


def decode_usid(value: int) -> Usid | None:
    """The uSID of 16 bits; None if the role bits are 0, which no uSID of a fabric has."""
    role = value >> ROLE_SHIFT
    if role == 0:
        return None
    return Usid(Role(role), value >> PLANE_SHIFT & PLANE_COUNT - 1, value & INDEX_COUNT - 1)


def slot_unit(slot: int) -> int:
    """The number that adds 1 to the uSID in *slot* (0 is the active one) of a carrier."""
    return 1 << _BLOCK_SHIFT - 16 * (slot + 1)


def pack_carrier(usids: tuple[Usid, ...]) -> IPv6Address:
    """The carrier that holds *usids* in order, at most six, the rest zero."""
    address = BLOCK << _BLOCK_SHIFT
    for slot, usid in enumerate(usids):
        address |= usid.value * slot_unit(slot)
    return IPv6Address(address)


def active_usid(carrier: IPv6Address) -> Usid | None:
    """The first uSID of a carrier; None at its end, or if the address is of another block."""
    return next(iter(unpack_carrier(carrier)), None)


def unpack_carrier(carrier: IPv6Address) -> tuple[Usid, ...]:
    """The uSIDs of a carrier up to the first slot without a role; empty for an address of another block."""
    address = int(carrier)
    if address >> _BLOCK_SHIFT != BLOCK:
        return ()
    usids: list[Usid] = []
    for slot in range(CARRIER_SLOTS):
        usid = decode_usid(address // slot_unit(slot) & 0xFFFF)
        if usid is None:
            break
        if usids and usids[-1].role is Role.DOWNLINK:
            usids[-1] = replace(usids[-1], role=Role.T2)
        usids.append(usid)
    return tuple(usids)


def shift_carrier(carrier: IPv6Address) -> IPv6Address:
    """The carrier with its active uSID consumed: the argument moves up by 16 bits, zeros follow.

    fcbb:0:4000:8001:4002:c003:: becomes fcbb:0:8001:4002:c003::

    Source: RFC 9800, section 4.1 (NEXT-CSID behaviour of End).
    """
    address = int(carrier)
    return IPv6Address(address & ~_ARGUMENT_MASK | address << 16 & _ARGUMENT_MASK)


def usid_up(level: int, uplink: int) -> Usid:
    """The uSID, in plane 0, of a switch of a tier above T0 that this uplink of a switch below it reaches."""
    return Usid(Role.T1 if level == 1 else Role.T2, 0, uplink)


def usid_down(number: Numbering, level: int, group: int) -> Usid:
    """The first of the uSIDs, in plane 0, of the switches of a group of a tier below the highest."""
    index = group * number.tiers[level + 1].lanes if level + 1 < len(number.tiers) else 0
    return Usid(Role.T0, 0, index) if level == 0 else Usid(Role.T1, 0, number.uplinks[0] + index)


def usid_counts(number: Numbering) -> dict[Role, int]:
    """The uSIDs that the tables of a plane know, by what they name."""
    t0, t1 = usid_down(number, 0, number.groups[0]).index or 1, number.uplinks[0] + sum(number.downlinks[2:])
    upper = {Role.T2: number.uplinks[1]} if number.tiers[2:] else {}
    return {Role.T0: t0, Role.T1: t1, **upper, Role.DOWNLINK: number.hosts_per_t0}


@dataclass(frozen=True, slots=True)
class CarrierTemplate:
    """A carrier with plane and way still to be deposited.

    The NIC keeps one template per destination row. At QP set-up its last hop is specialised with the downlink
    of the peer; per packet only plane and way change, so an EV becomes an address by arithmetic, without a
    table.
    """

    value: int  # the address with plane 0 and way 0
    plane_unit: int  # what one plane adds: 1 at the plane bits of every uSID
    # by tier on the way up: what one uplink adds, what one lane adds on the way down, the number of lanes
    ways: tuple[tuple[int, int, int], ...]
    last_slot: int  # slot of the downlink uSID

    def specialise(self, downlink: int) -> "CarrierTemplate":
        """The template of a QP: that of its row with the last hop set to *downlink*."""
        return replace(self, value=self.value + downlink * slot_unit(self.last_slot))

    def deposit(self, plane: int, uplinks: Iterable[int]) -> IPv6Address:
        """The carrier of one packet.

        Args:
            plane: 0 to 15.
            uplinks: number of the uplink at each switch on the way up.
        """
        choices = sum(
            uplink * up_unit + uplink % lanes * lane_unit
            for uplink, (up_unit, lane_unit, lanes) in zip(uplinks, self.ways, strict=True)
        )
        return IPv6Address(self.value + plane * self.plane_unit + choices)


def row_template(
    number: Numbering, source_row: int, destination_row: int, distance: int | None = None
) -> CarrierTemplate:
    """The template from hosts at one T0 to those at another, over the tier *distance* or the lowest."""
    if distance is None:
        distance = number.row_distance(source_row, destination_row)
    usids = (
        usid_down(number, 0, source_row),
        *(usid_up(level, 0) for level in range(1, distance + 1)),
        *(
            usid_down(number, level, number.group(level, destination_row))
            for level in reversed(range(distance))
        ),
        Usid(Role.DOWNLINK, 0, 0),
    )
    ways = tuple(
        (slot_unit(level), slot_unit(2 * distance + 1 - level), number.tiers[level].lanes)
        for level in range(1, distance + 1)
    )
    plane_unit = sum(slot_unit(slot) << PLANE_SHIFT for slot in range(len(usids)))
    return CarrierTemplate(int(pack_carrier(usids)), plane_unit, ways, len(usids) - 1)
