"""Links and addresses over rtnetlink, many requests in one message exchange.

Requests are encoded here rather than by a library because `up` makes thousands of them: 640 veth pairs take
0.2 s this way. Each request names itself, so that a refusal says which one it was and what the kernel said.

Source: linux/netlink.h, linux/rtnetlink.h, linux/if_link.h.
"""

import errno
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address

from mrc_agents.closing import Closing
from mrc_testbed.errors import FabricError

_SOL_NETLINK = 270
_NETLINK_CAP_ACK = 10
_NETLINK_EXT_ACK = 11
_NLM_F_REQUEST, _NLM_F_ACK = 0x1, 0x4
_NLM_F_EXCL, _NLM_F_CREATE, _NLM_F_REPLACE = 0x200, 0x400, 0x100
_NLM_F_ACK_TLVS = 0x200
_NLMSG_ERROR = 2
_NLMSGERR_ATTR_MSG = 1
_BATCH_BYTES = 16384  # below every default socket buffer
_REPLY_TIMEOUT_SECONDS = 30  # the kernel answers within the send call; only a bug could make us wait

_HEADER = struct.Struct("=IHHII")
_ATTRIBUTE = struct.Struct("=HH")
_IFINFO = struct.Struct("=BxHiII")
_NESTED = 0x8000


class _Message(IntEnum):
    NEWLINK = 16
    GETLINK = 18
    NEWADDR = 20
    NEWQDISC = 36


class _Link(IntEnum):
    ADDRESS = 1
    IFNAME = 3
    MTU = 4
    MASTER = 10
    LINKINFO = 18
    NET_NS_FD = 28
    NUM_TX_QUEUES = 31
    NUM_RX_QUEUES = 32


@dataclass(frozen=True, slots=True)
class Request:
    """One rtnetlink request; *accepted_errno* lists refusals that are success, such as "already gone"."""

    what: str
    message: int
    flags: int
    body: bytes
    accepted_errno: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class VethEnd:
    """One end of a veth pair as it shall appear in its namespace."""

    namespace_fd: int
    interface: str
    ifindex: int
    mac: bytes  # 6 bytes


class NetlinkSocket(Closing):
    """A netlink socket of the network namespace that the calling thread is in when it opens it."""

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
        self._socket.settimeout(_REPLY_TIMEOUT_SECONDS)
        self._socket.bind((0, 0))

    def close(self) -> None:
        self._socket.close()

    def perform(self, requests: Sequence[Request]) -> None:
        """Carry out *requests* in order; those after a refused one in the same batch, too."""
        batch: list[tuple[Request, bytes]] = []
        size = 0
        for request in requests:
            length = _HEADER.size + len(request.body)
            if batch and size + length > _BATCH_BYTES:
                self._exchange(batch)
                batch, size = [], 0
            flags = _NLM_F_REQUEST | _NLM_F_ACK | request.flags
            header = _HEADER.pack(length, request.message, flags, len(batch), 0)
            batch.append((request, header + request.body))
            size += length
        if batch:
            self._exchange(batch)

    def ask(self, request: Request) -> bytes:
        """The kernel's response to a request with one response; empty where its refusal is accepted."""
        flags = _NLM_F_REQUEST | request.flags
        self._socket.send(
            _HEADER.pack(_HEADER.size + len(request.body), request.message, flags, 0, 0) + request.body
        )
        reply = self._socket.recv(65536)
        length, message, flags, _, _ = _HEADER.unpack_from(reply)
        body = reply[_HEADER.size : length]
        if message != _NLMSG_ERROR:
            return body
        if refusal := _refusal(request, flags, body):
            raise refusal
        return b""

    def _exchange(self, batch: Sequence[tuple[Request, bytes]]) -> None:
        self._socket.send(b"".join(encoded for _, encoded in batch))
        first_refusal: FabricError | None = None
        answered_count = 0
        while answered_count < len(batch):
            reply = self._socket.recv(65536)
            while reply:
                length, message, flags, sequence, _ = _HEADER.unpack_from(reply)
                if message == _NLMSG_ERROR:
                    answered_count += 1
                    refusal = _refusal(batch[sequence][0], flags, reply[_HEADER.size : length])
                    first_refusal = first_refusal or refusal
                reply = reply[_aligned(length) :]
        if first_refusal:
            raise first_refusal


class RouteSocket(NetlinkSocket):
    """A netlink socket for links, addresses and queueing disciplines."""

    def __init__(self) -> None:
        super().__init__(0)


def _refusal(request: Request, flags: int, body: bytes) -> FabricError | None:
    number = -struct.unpack_from("=i", body)[0]
    if number == 0 or number in request.accepted_errno:
        return None
    reason = os.strerror(number)
    if flags & _NLM_F_ACK_TLVS:
        text = attributes_of(body[4 + _HEADER.size :]).get(_NLMSGERR_ATTR_MSG)
        reason = reason if text is None else f"{reason}: {text.rstrip(bytes(1)).decode()}"
    return FabricError(f"{request.what}: {reason} (errno {number})")


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def attributes_of(encoded: bytes) -> dict[int, bytes]:
    """Values of a run of attributes, by kind."""
    values = {}
    while len(encoded) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(encoded)
        values[kind] = encoded[_ATTRIBUTE.size : length]
        encoded = encoded[_aligned(max(length, _ATTRIBUTE.size)) :]
    return values


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute, padded."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(_aligned(length) - length)


def _u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def _text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def _veth_end(end: VethEnd, mtu_bytes: int) -> bytes:
    return (
        _text(_Link.IFNAME, end.interface)
        + attribute(_Link.ADDRESS, end.mac)
        + _u32(_Link.MTU, mtu_bytes)
        # One queue: the default of one per possible CPU costs memory and serves nobody here.
        + _u32(_Link.NUM_TX_QUEUES, 1)
        + _u32(_Link.NUM_RX_QUEUES, 1)
        + _u32(_Link.NET_NS_FD, end.namespace_fd)
    )


def mac_bytes(text: str) -> bytes:
    """The six bytes of a MAC address in colon notation."""
    return bytes.fromhex(text.replace(":", ""))


def create_veth(what: str, near: VethEnd, far: VethEnd, mtu_bytes: int) -> Request:
    """A veth pair born inside its two namespaces, both ends down."""
    peer = _IFINFO.pack(socket.AF_UNSPEC, 0, far.ifindex, 0, 0) + _veth_end(far, mtu_bytes)
    veth_info_peer, info_kind, info_data = 1, 1, 2
    info = _text(info_kind, "veth") + attribute(info_data, attribute(veth_info_peer, peer))
    body = (
        _IFINFO.pack(socket.AF_UNSPEC, 0, near.ifindex, 0, 0)
        + _veth_end(near, mtu_bytes)
        + attribute(_Link.LINKINFO, info)
    )
    return Request(f"create link {what}", _Message.NEWLINK, _NLM_F_CREATE | _NLM_F_EXCL, body)


def create_bridge(interface: str, mac: bytes) -> Request:
    """A bridge in the socket's namespace, down; one that exists is success."""
    info_kind = 1
    body = (
        _IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        + _text(_Link.IFNAME, interface)
        + attribute(_Link.ADDRESS, mac)
        + attribute(_Link.LINKINFO, _text(info_kind, "bridge"))
    )
    there = frozenset({errno.EEXIST})
    return Request(f"create bridge {interface}", _Message.NEWLINK, _NLM_F_CREATE | _NLM_F_EXCL, body, there)


def set_master(what: str, ifindex: int, bridge_ifindex: int) -> Request:
    """Makes an interface a port of a bridge."""
    body = _IFINFO.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0) + _u32(_Link.MASTER, bridge_ifindex)
    return Request(f"make {what} a port of the bridge", _Message.NEWLINK, 0, body)


def set_link_up(what: str, ifindex: int, *, is_up: bool) -> Request:
    """Raises or lowers an interface; the far end of a veth pair sees its carrier come or go."""
    iff_up = 1
    body = _IFINFO.pack(socket.AF_UNSPEC, 0, ifindex, iff_up if is_up else 0, iff_up)
    return Request(f"set {what} {'up' if is_up else 'down'}", _Message.NEWLINK, 0, body)


def configure_link(what: str, ifindex: int, mac: bytes, mtu_bytes: int) -> Request:
    """Set the MAC address (6 bytes) and the MTU of an interface."""
    body = _IFINFO.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0)
    body += attribute(_Link.ADDRESS, mac) + _u32(_Link.MTU, mtu_bytes)
    return Request(f"configure {what}", _Message.NEWLINK, 0, body)


def get_link(what: str, ifindex: int) -> Request:
    """Asks for an interface: struct ifinfomsg and attributes IFLA_*; that there is none is success."""
    body = _IFINFO.pack(socket.AF_UNSPEC, 0, ifindex, 0, 0)
    return Request(f"look at {what}", _Message.GETLINK, 0, body, frozenset({errno.ENODEV}))


def add_address(what: str, ifindex: int, address: IPv4Address | IPv6Address, prefix_length: int) -> Request:
    """Adds an address, usable at once: duplicate address detection would hold it back for a second."""
    ifa_address, ifa_local, ifa_f_nodad = 1, 2, 0x02
    family, flags = (socket.AF_INET6, ifa_f_nodad) if address.version == 6 else (socket.AF_INET, 0)
    head = struct.pack("=BBBBI", family, prefix_length, flags, 0, ifindex)
    body = head + attribute(ifa_local, address.packed) + attribute(ifa_address, address.packed)
    flags = _NLM_F_CREATE | _NLM_F_REPLACE
    return Request(f"add address {address} to {what}", _Message.NEWADDR, flags, body)
