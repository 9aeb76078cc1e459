"""The owner of a TCP connection: the user at this machine who opened it, or the address that it comes from.

All users of a machine have the same address, 127.0.0.1, and as many more of 127.0.0.0/8 as they like. The
kernel knows the user of each socket.

Source: linux/sock_diag.h, linux/inet_diag.h.
"""

import socket
import struct
from ipaddress import ip_address, ip_network
from typing import Final

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.netlink import NetlinkSocket, Request

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NO_COOKIE: Final = 0xFFFF_FFFF
_REQUEST: Final = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_SOCKET_ID: Final = struct.Struct("!HH16s16s")  # source and destination port, source and destination address
_SOCKET_ID_REST: Final = struct.Struct("=III")  # interface, cookie
_ANSWER: Final = struct.Struct("=4x48x12xII")  # uid, inode
_IPV6_SITE_BITS: Final = 64


def connection_source(connection: socket.socket) -> str | None:
    """`uid N` where a process of this machine opened *connection*, else its address, of IPv6 the /64 prefix.

    Args:
        connection: as accepted, of AF_INET or AF_INET6.

    Returns:
        None when nobody holds the other end any more.
    """
    try:
        (address, port), (own_address, own_port) = (
            end[:2] for end in (connection.getpeername(), connection.getsockname())
        )
        remote = ip_address(address.partition("%")[0])
        found = _socket_owner(connection.family, (address, port), (own_address, own_port))
    except OSError:
        return None  # the client has gone: there is no peer
    except FabricError:
        found = None  # no socket of this machine, or a kernel without inet_diag
    if found is not None:
        uid, inode = found
        return f"uid {uid}" if inode else None
    if remote.version == 6:
        return str(ip_network((int(remote), _IPV6_SITE_BITS), strict=False))
    return str(remote)


def _socket_owner(family: int, near: tuple[str, int], far: tuple[str, int]) -> tuple[int, int]:
    """User id and inode of the socket from *near* to *far*; inode 0: its process has closed it."""
    packed = [socket.inet_pton(family, end[0].partition("%")[0]).ljust(16, b"\0") for end in (near, far)]
    body = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0)
        + _SOCKET_ID.pack(near[1], far[1], *packed)
        + _SOCKET_ID_REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    )
    with NetlinkSocket(_NETLINK_SOCK_DIAG) as diagnosis:
        answer = diagnosis.ask(Request("look for a socket's owner", _SOCK_DIAG_BY_FAMILY, 0, body))
    uid, inode = _ANSWER.unpack_from(answer)
    return uid, inode
