"""Micro segments and carriers: the source route that MRC writes into an IPv6 destination address.

A carrier in F3216 format holds a 32-bit block and up to six 16-bit uSIDs, the first of them active:

    fcbb:0000 : T0 source : T1 : T0 destination : downlink : 0 : 0

A uSID of this fabric:

    15 14 | 13 12 11 10 | 9 ............ 0
    role  | plane       | index               role 1 T0, 2 T1, 3 downlink; never 0, so 0 ends a carrier

The plane bits stand at the same place in every role: a NIC deposits the plane in all uSIDs by one
multiplication. A T0 owns one uSID per lane, T0 i the indices i*U .. i*U+U-1: which of them is named chooses
the lane on the way down. A T1 owns the numbers of the uplinks that reach it.

Source: RFC 9800 (NEXT-CSID, uN); docs/reference/protocol.md, "uSIDs". The numeric layout is ours.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from ipaddress import IPv6Address
from typing import Final

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

    @property
    def label(self) -> str:
        """The label for people: T0, T1 or DL."""
        return "DL" if self is Role.DOWNLINK else self.name


@dataclass(frozen=True, slots=True)
class Usid:
    """A decoded uSID."""

    role: Role  # what it names
    plane: int  # 0 to 15
    index: int  # 0 to 1023; T0: row * U + lane, T1: uplink number, downlink: downlink number

    @property
    def value(self) -> int:
        """The 16 bits on the wire."""
        return self.role << ROLE_SHIFT | self.plane << PLANE_SHIFT | self.index

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
    usids = []
    for slot in range(CARRIER_SLOTS):
        usid = decode_usid(address // slot_unit(slot) & 0xFFFF)
        if usid is None:
            break
        usids.append(usid)
    return tuple(usids)


def shift_carrier(carrier: IPv6Address) -> IPv6Address:
    """The carrier with its active uSID consumed: the argument moves up by 16 bits, zeros follow.

    fcbb:0:4000:8001:4002:c003:: becomes fcbb:0:8001:4002:c003::

    Source: RFC 9800, section 4.1 (NEXT-CSID behaviour of End).
    """
    address = int(carrier)
    return IPv6Address(address & ~_ARGUMENT_MASK | address << 16 & _ARGUMENT_MASK)


@dataclass(frozen=True, slots=True)
class CarrierTemplate:
    """A carrier with plane and uplink still to be deposited.

    The NIC keeps one template per destination row. At QP set-up its last hop is specialised with the downlink
    of the peer; per packet only plane and uplink change, so an EV becomes an address by arithmetic, without a
    table.
    """

    value: int  # the address with plane 0 and uplink 0
    plane_unit: int  # what one plane adds: 1 at the plane bits of every uSID
    uplink_unit: int  # what one uplink adds: 1 at the index of the T1 uSID; 0 if the path has no T1
    lane_unit: int  # what one lane adds: 1 at the index of the destination T0; 0 likewise
    uplinks_per_pair: int  # the lane is the uplink modulo this
    last_slot: int  # slot of the downlink uSID

    def specialise(self, downlink: int) -> "CarrierTemplate":
        """The template of a QP: that of its row with the last hop set to *downlink*."""
        return replace(self, value=self.value + downlink * slot_unit(self.last_slot))

    def deposit(self, plane: int, uplink: int) -> IPv6Address:
        """The carrier of one packet.

        Args:
            plane: 0 to 15.
            uplink: uplink number at the source T0; 0 if the path has no T1.
        """
        lane = uplink % self.uplinks_per_pair
        return IPv6Address(
            self.value + plane * self.plane_unit + uplink * self.uplink_unit + lane * self.lane_unit
        )


def row_template(source_row: int, destination_row: int, uplinks_per_pair: int) -> CarrierTemplate:
    """The template for packets from a host at T0 *source_row* to any host at T0 *destination_row*."""
    usids: tuple[Usid, ...]
    source = Usid(Role.T0, 0, source_row * uplinks_per_pair)
    downlink = Usid(Role.DOWNLINK, 0, 0)
    if source_row == destination_row:
        usids = (source, downlink)
        uplink_unit = lane_unit = 0
    else:
        usids = (source, Usid(Role.T1, 0, 0), Usid(Role.T0, 0, destination_row * uplinks_per_pair), downlink)
        uplink_unit, lane_unit = slot_unit(1), slot_unit(2)
    plane_unit = sum(slot_unit(slot) << PLANE_SHIFT for slot in range(len(usids)))
    return CarrierTemplate(
        int(pack_carrier(usids)), plane_unit, uplink_unit, lane_unit, uplinks_per_pair, len(usids) - 1
    )
