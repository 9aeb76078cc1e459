"""The path manager of a namespace's MPTCP: which addresses it announces, and how many subflows it makes.

A connection begins with one subflow; then each side announces its remaining addresses, and the side
that connected adds a subflow to each, from the address that its own routes give.

Source: linux/mptcp_pm.h, linux/genetlink.h.
"""

import socket
import struct
from collections.abc import Sequence
from enum import IntEnum
from ipaddress import IPv6Address
from typing import Final

from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.fabric.netlink import NetlinkSocket, Request, attribute, attributes_of

SUBFLOWS_MAX: Final = 8
"""Capacity of the kernel's path manager: MPTCP_PM_ADDR_MAX."""

_NETLINK_GENERIC: Final = 16
_FAMILY_NAME: Final = "mptcp_pm"
_CONTROL: Final = 16
_GET_FAMILY: Final = 3
_FAMILY_ID, _FAMILY_NAME_KIND = 1, 2
_GENERIC: Final = struct.Struct("=BBxx")
_NESTED: Final = 0x8000
_VERSION: Final = 1
_SIGNAL: Final = 1


class _Command(IntEnum):
    ADD_ADDRESS = 1
    FLUSH_ADDRESSES = 4
    SET_LIMITS = 5


class _Attribute(IntEnum):
    ADDRESS = 1
    ACCEPTED_ADDRESSES = 2
    SUBFLOWS = 3


class _Address(IntEnum):
    FAMILY = 1
    IPV6 = 4
    FLAGS = 6
    IFINDEX = 7


def announce_addresses(addresses: Sequence[tuple[IPv6Address, int]]) -> None:
    """Has MPTCP of the calling thread's namespace use these addresses, each with the ifindex it is at.

    Raises:
        PreflightError: the kernel has no MPTCP.
        FabricError: it refuses.
    """
    with NetlinkSocket(_NETLINK_GENERIC) as generic:
        family = _family(generic)

        def request(what: str, command: _Command, body: bytes = b"") -> Request:
            return Request(f"mptcp: {what}", family, 0, _GENERIC.pack(command, _VERSION) + body)

        count = struct.pack("=I", SUBFLOWS_MAX)
        limits = attribute(_Attribute.ACCEPTED_ADDRESSES, count) + attribute(_Attribute.SUBFLOWS, count)
        generic.perform(
            [
                request("limits", _Command.SET_LIMITS, limits),
                request("forget addresses", _Command.FLUSH_ADDRESSES),
                *(request(f"address {at}", _Command.ADD_ADDRESS, _address(at, on)) for at, on in addresses),
            ]
        )


def _address(address: IPv6Address, ifindex: int) -> bytes:
    nested = (
        attribute(_Address.FAMILY, struct.pack("=H", socket.AF_INET6))
        + attribute(_Address.IPV6, address.packed)
        + attribute(_Address.FLAGS, struct.pack("=I", _SIGNAL))
        + attribute(_Address.IFINDEX, struct.pack("=i", ifindex))
    )
    return attribute(_Attribute.ADDRESS | _NESTED, nested)


def _family(generic: NetlinkSocket) -> int:
    name = attribute(_FAMILY_NAME_KIND, _FAMILY_NAME.encode() + b"\0")
    try:
        reply = generic.ask(Request("find mptcp", _CONTROL, 0, _GENERIC.pack(_GET_FAMILY, 1) + name))
    except FabricError as error:
        raise PreflightError(
            "this kernel has no MPTCP", hint="it needs CONFIG_MPTCP and CONFIG_MPTCP_IPV6"
        ) from error
    return int(struct.unpack("=H", attributes_of(reply[_GENERIC.size :])[_FAMILY_ID])[0])
