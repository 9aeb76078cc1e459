"""The kernels of a lab's hosts as users of its fabric: what TCP and MPTCP need there.

Each host gets, per plane, an interface with the NIC's inner address of that plane:

    socket - kernel's TCP - kernel0 ==veth== kernel0-nic - program `stack` - port 0 of the NIC
                            token bucket at the port's rate, so that what must wait does so where TCP knows

What arrives for these addresses comes up by the NIC's ports. The interfaces are made when a lab's kernels
first send, and go with its nodes.
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mrc_testbed.agents.bpf.libbpf import attach_xdp, open_pinned
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.mptcp import SUBFLOWS_MAX, announce_addresses
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.netlink import (
    Request,
    RouteSocket,
    VethEnd,
    add_address,
    create_veth,
    limit_rate,
    mac_bytes,
    set_link_up,
    set_noarp,
)
from mrc_testbed.fabric.nic_data_plane import STACK_PROGRAM
from mrc_testbed.topology.addressing import inner_address
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.timing import TUNNEL_BYTES, full_frame_bytes

_OWN_NAMESPACE: Final = Path("/proc/thread-self/ns/net")
_ETHERNET_BYTES: Final = 14
_PREFIX_LENGTH: Final = 64
_FIRST_IFINDEX: Final = 500
"""Below those of ports, above those that a new namespace may have by itself."""

_IFREQ: Final = struct.Struct("16sP16x")
"""struct ifreq with a pointer as its value."""

_BURST_FRAMES: Final = 4
_BURSTS_PER_SECOND: Final = 1000
"""The kernel's timers come about so often: what is due between two of them leaves at once."""


def connect_kernels(lab: Lab, hosts: Iterable[str]) -> None:
    """Lets the kernels of *hosts* send TCP through the fabric.

    Args:
        lab: the lab.
        hosts: their names.

    Raises:
        UsageError: the lab's switches choose paths by EVs, which TCP packets do not have.
        PreflightError: the kernel lacks something.
    """
    if lab.spec.forwarding == "stev":
        raise UsageError(
            "forwarding: stev reads the path from EVs, which the kernel's TCP packets do not have",
            hint="use forwarding: srv6 or ecmp for tcp and mptcp",
        )
    with exclusive(lab.paths.lock_file, "connect the hosts' kernels"):
        for host in hosts:
            with entered(lab.namespace(host)):
                _forget_connections()
                if not _has_interfaces():
                    _make_interfaces(lab, host)


def _has_interfaces() -> bool:
    return any(name == _interface(0) for _, name in socket.if_nameindex())


def _interface(plane: int) -> str:
    return f"kernel{plane}"


def _make_interfaces(lab: Lab, host: str) -> None:
    with ExitStack() as stack:
        route = stack.enter_context(RouteSocket())
        program = open_pinned(lab.paths.node_pins(host) / STACK_PROGRAM)
        stack.callback(os.close, program)
        namespace = os.open(_OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, namespace)
        planes = range(lab.spec.planes)
        mtu_bytes = full_frame_bytes(lab.clos) - _ETHERNET_BYTES - _tunnel_bytes(lab)
        route.perform([_pair(host, plane, namespace, mtu_bytes) for plane in planes])
        for plane in planes:
            attach_xdp(_index(plane, is_nic=True), program)
            _compute_checksums(_interface(plane))
        route.perform([request for plane in planes for request in _addressed(lab, host, plane)])
        index = lab.clos.node(host).index
        announce_addresses(
            [(inner_address(index, plane), _index(plane, is_nic=False)) for plane in planes[:SUBFLOWS_MAX]]
        )


def _pair(host: str, plane: int, namespace: int, mtu_bytes: int) -> Request:
    name = _interface(plane)
    near, far = (
        VethEnd(
            namespace,
            name + suffix,
            _index(plane, is_nic=is_nic),
            mac_bytes(f"02:4d:54:00:0{end}:{plane:02x}"),
        )
        for suffix, is_nic, end in (("", False, 0), ("-nic", True, 1))
    )
    return create_veth(f"{host} {name}", near, far, mtu_bytes)


def _index(plane: int, *, is_nic: bool) -> int:
    return _FIRST_IFINDEX + 2 * plane + is_nic


def _tunnel_bytes(lab: Lab) -> int:
    return TUNNEL_BYTES if lab.spec.forwarding == "srv6" else 0


def _addressed(lab: Lab, host: str, plane: int) -> list[Request]:
    name, near = f"{host} {_interface(plane)}", _index(plane, is_nic=False)
    address = inner_address(lab.clos.node(host).index, plane)
    requests = [
        set_noarp(name, near),
        set_link_up(f"{name}-nic", _index(plane, is_nic=True), is_up=True),
        set_link_up(name, near, is_up=True),
        add_address(name, near, address, _PREFIX_LENGTH),
    ]
    rate_bps = port_rates_bps(lab.clos)[2 * lab.clos.numbering.host_link_id(lab.clos.node(host).index, plane)]
    if rate_bps:
        burst_bytes = max(_BURST_FRAMES * full_frame_bytes(lab.clos), rate_bps // 8 // _BURSTS_PER_SECOND)
        overhead_bytes = _tunnel_bytes(lab)
        requests.append(
            limit_rate(name, near, rate_bps, overhead_bytes=overhead_bytes, burst_bytes=burst_bytes)
        )
    return requests


def _compute_checksums(interface: str) -> None:
    """Has the kernel compute TCP's checksums itself: no device at the other end does."""
    siocethtool, ethtool_set_tx_checksums = 0x8946, 0x17
    value = (ctypes.c_uint32 * 2)(ethtool_set_tx_checksums, 0)
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as any_socket:
        try:
            fcntl.ioctl(any_socket, siocethtool, _IFREQ.pack(interface.encode(), ctypes.addressof(value)))
        except OSError as error:
            raise FabricError(
                f"{interface}: checksums cannot be set to software: {error.strerror}"
            ) from error


def _forget_connections() -> None:
    """A run shall learn nothing from those before it."""
    setting = Path("/proc/sys/net/ipv4/tcp_no_metrics_save")
    try:
        setting.write_text("1")
    except OSError as error:
        raise FabricError(f"{setting} cannot be set: {error.strerror}") from error
