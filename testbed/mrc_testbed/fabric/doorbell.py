"""The doorbell of a host's NIC: an interface from which each frame is an occasion to send, for programs.

A live run of the NIC's program takes ten microseconds before its first frame, a frame written to a TAP one.
Programs of any user open queues of it, and the kernel grants more with one than to ring: to change address,
owner and framing, to take all queues, and to remove the interface. That costs others time and no byte: the
verbs library makes a system call where it has no queue, the agent sends within a second what has not been
sent, and the NIC's program drops what is no doorbell.

Also what the receive rings of all other interfaces dropped: a loss of this machine, not of the fabric.
"""

import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

from mrc_agents.abi import Limit
from mrc_agents.bpf.libbpf import attach_xdp
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.netlink import RouteSocket, set_link_up
from mrc_testbed.fabric.nic_data_plane import nic_program
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.runtime import node_namespace

DOORBELL: Final = "doorbell"
"""Name of the interface."""

_TUN: Final = Path("/dev/net/tun")
_TUNSETIFF: Final = 0x400454CA
_TUNSETPERSIST: Final = 0x400454CB
_TUNSETIFINDEX: Final = 0x400454DA
_IFF_TAP: Final = 0x0002
_IFF_MULTI_QUEUE: Final = 0x0100
_IFF_NO_PI: Final = 0x1000
_IFREQ: Final = struct.Struct("=16sH22x")
_NO_TAPS: Final = frozenset({errno.ENOENT, errno.ENXIO, errno.ENODEV, errno.EPERM, errno.EACCES})


def provide_doorbell(paths: LabPaths, host: str) -> None:
    """Give a host its doorbell, unless this machine has no TAP interfaces; one that is there stays."""
    with entered(node_namespace(paths.lab, host)):
        try:
            queue = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _NO_TAPS:
                return
            raise FabricError(f"{_TUN} cannot be opened: {error.strerror}") from error
        try:
            _create(queue, host)
            with nic_program(paths, host) as program:
                attach_xdp(Limit.DOORBELL_IFINDEX, program)
            with RouteSocket() as route:
                route.perform([set_link_up(f"{DOORBELL} of {host}", Limit.DOORBELL_IFINDEX, is_up=True)])
        finally:
            os.close(queue)


def _create(queue: int, host: str) -> None:
    """Make the interface in the namespace that the calling thread is in, or open a queue of it."""
    request = _IFREQ.pack(DOORBELL.encode(), _IFF_TAP | _IFF_NO_PI | _IFF_MULTI_QUEUE)
    try:
        fcntl.ioctl(queue, _TUNSETIFINDEX, struct.pack("=I", Limit.DOORBELL_IFINDEX))
        fcntl.ioctl(queue, _TUNSETIFF, request)
        fcntl.ioctl(queue, _TUNSETPERSIST, 1)
    except OSError as error:
        raise FabricError(f"{DOORBELL} of {host} cannot be made: {error.strerror}") from error


_DEVICES: Final = Path("/proc/thread-self/net/dev")
_HEADER_LINES: Final = 2
_RX_DROPPED: Final = 3


def ring_drops(lab: Lab) -> int:
    """Frames lost in receive rings since the lab was made, over all its ports.

    A veth counts them as dropped at the end that could not take them (XDP_DROP is counted elsewhere). Every
    node is entered, so ask at the ends of a run, not in it.
    """
    return sum(_drops(lab.namespace(node.name)) for node in (*lab.clos.switches(), *lab.clos.hosts()))


def _drops(namespace: Path) -> int:
    with entered(namespace):
        try:
            text = _DEVICES.read_text(encoding="ascii")
        except OSError as error:
            raise FabricError(f"interfaces of {namespace} cannot be read: {error.strerror}") from error
    return parse_dropped(text)


def parse_dropped(text: str) -> int:
    """Frames dropped on receipt by all interfaces of a /proc/net/dev but a doorbell, which nobody needed."""
    lines = (line.partition(":") for line in text.splitlines()[_HEADER_LINES:])
    return sum(int(counts.split()[_RX_DROPPED]) for name, _, counts in lines if name.strip() != DOORBELL)
