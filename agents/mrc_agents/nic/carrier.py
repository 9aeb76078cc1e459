"""Carrier of the NIC's ports, from rtnetlink."""

import socket
import struct
from collections.abc import Iterator

from mrc_agents.abi import Limit

_RTMGRP_LINK = 1
_RTM_NEWLINK = 16
_RTM_DELLINK = 17
_RTM_GETLINK = 18
_NLM_F_REQUEST_DUMP = 0x301
_IFF_RUNNING = 0x40
_IFF_LOWER_UP = 0x10000
_HEADER = struct.Struct("=IHHII")
_IFINFO = struct.Struct("=BxHiII")  # struct ifinfomsg


class CarrierWatch:
    """A netlink socket subscribed to link changes of the network namespace it was made in.

    It asks for the state of all links at once, so the first changes report the present state.
    """

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self.socket.bind((0, _RTMGRP_LINK))
        length = _HEADER.size + _IFINFO.size
        request = _HEADER.pack(length, _RTM_GETLINK, _NLM_F_REQUEST_DUMP, 1, 0)
        self.socket.send(request + _IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0))

    def changes(self) -> Iterator[tuple[int, bool]]:
        """(lab-wide port id, has carrier) of each message that waits, oldest first."""
        while True:
            try:
                message = self.socket.recv(65536)
            except BlockingIOError:
                return
            yield from parse_link_messages(message)

    def close(self) -> None:
        self.socket.close()


def parse_link_messages(message: bytes) -> Iterator[tuple[int, bool]]:
    """(port id, has carrier) of each message about one of our ports in a datagram."""
    offset = 0
    while offset + _HEADER.size <= len(message):
        length, kind, _, _, _ = _HEADER.unpack_from(message, offset)
        if length < _HEADER.size:
            return
        if kind in {_RTM_NEWLINK, _RTM_DELLINK} and offset + _HEADER.size + _IFINFO.size <= len(message):
            _, _, index, flags, _ = _IFINFO.unpack_from(message, offset + _HEADER.size)
            if index >= Limit.IFINDEX_BASE:
                is_up = kind == _RTM_NEWLINK and flags & _IFF_RUNNING and flags & _IFF_LOWER_UP
                yield index - Limit.IFINDEX_BASE, bool(is_up)
        offset += (length + 3) & ~3
