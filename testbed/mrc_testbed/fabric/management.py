"""The management network of a lab: IPv4 between hosts, beside the fabric, for what comes before RDMA.

A bridge in the namespace of the first host, and a veth pair to each host that runs a program; they go with
the namespaces. Faults do not touch it.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from errno import EEXIST
from ipaddress import IPv4Address
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.netlink import (
    RouteSocket,
    VethEnd,
    add_address,
    create_bridge,
    create_veth,
    set_link_up,
    set_master,
)
from mrc_testbed.fabric.runtime import node_namespace
from mrc_testbed.topology.clos import Clos

INTERFACE: Final = "management"
"""In every host that is connected."""

_FIRST_ADDRESS: Final = IPv4Address("10.77.0.0")
_PREFIX_LENGTH: Final = 16
_MTU_BYTES: Final = 1500
_MAPPED: Final = "::ffff:"
_HOSTS_FILE: Final = Path("/etc/hosts")


def management_address(host_index: int) -> IPv4Address:
    return _FIRST_ADDRESS + host_index + 1


def _mac(host_index: int, *, is_port: bool) -> bytes:
    """MAC address of a host's end, or of the bridge's port to it; 4d 47 is "MG"."""
    return bytes([2, 0x4D, 0x47, is_port]) + host_index.to_bytes(2, "big")


def connect(lab: str, clos: Clos, host: str) -> None:
    """Add an interface on the lab's management network to a host; one that has it keeps it."""
    first = next(iter(clos.hosts())).name
    index = clos.node(host).index
    with entered(node_namespace(lab, first)), RouteSocket() as route:
        route.perform([create_bridge(INTERFACE, _mac(0, is_port=False))])
        bridge = socket.if_nametoindex(INTERFACE)
        _start(route, first, bridge, management_address(clos.node(first).index))
    if host == first:
        return
    with ExitStack() as stack:
        near, far = (
            stack.enter_context(node_namespace(lab, name).open("rb")).fileno() for name in (host, first)
        )
        port = f"to-{host}"
        pair = create_veth(
            f"{INTERFACE} of {host}",
            VethEnd(near, INTERFACE, 0, _mac(index, is_port=False)),
            VethEnd(far, port, 0, _mac(index, is_port=True)),
            _MTU_BYTES,
        )
        with RouteSocket() as route:
            route.perform([replace(pair, accepted_errno=frozenset({EEXIST}))])
    with entered(node_namespace(lab, first)), RouteSocket() as route:
        ifindex = socket.if_nametoindex(port)
        route.perform([set_master(port, ifindex, bridge), set_link_up(port, ifindex, is_up=True)])
    with entered(node_namespace(lab, host)), RouteSocket() as route:
        _start(route, host, socket.if_nametoindex(INTERFACE), management_address(index))


def _start(route: RouteSocket, host: str, ifindex: int, address: IPv4Address) -> None:
    route.perform(
        [
            add_address(f"{INTERFACE} of {host}", ifindex, address, _PREFIX_LENGTH),
            set_link_up(f"{INTERFACE} of {host}", ifindex, is_up=True),
        ]
    )


@contextmanager
def hosts_file(clos: Clos, host: str) -> Iterator[Path]:
    """A file that can stand for /etc/hosts on *host* meanwhile."""
    own = _HOSTS_FILE.read_text() if _HOSTS_FILE.exists() else ""
    with NamedTemporaryFile("w", prefix="mrc-hosts-") as file:
        file.write(hosts_text(own, socket.gethostname(), clos, host))
        file.flush()
        Path(file.name).chmod(0o644)  # a program may run as anybody
        yield Path(file.name)


def hosts_text(own: str, machine: str, clos: Clos, host: str) -> str:
    """The machine's own hosts(5) file with the hosts of the lab, for programs on *host*.

    The machine's name means *host* there: programs ask for it to learn an address that others can reach them
    at, and the machine's file may say 127.0.0.1. Reverse look-ups of IPv4-mapped addresses find names too.

    Args:
        own: text of the machine's file, or what this made of it for another host.
        machine: name of the machine, or that host.
    """
    hosts = {str(management_address(each.index)): each.name for each in clos.hosts()}
    kept, names = [], {machine}.difference(hosts.values())
    for line in own.splitlines():
        words = line.partition("#")[0].split()
        if words and words[0].removeprefix(_MAPPED) in hosts:  # a program on a host enters another one
            names.update(words[2:])
            continue
        ours = {word for word in words[1:] if word.partition(".")[0] == machine.partition(".")[0]}
        if not ours:
            kept.append(line)
            continue
        names |= ours
        others = [word for word in words if word not in ours]
        if others[1:]:
            kept.append(" ".join(others))
    for each in clos.hosts():
        address = management_address(each.index)
        aliases = sorted(names) if each.name == host else []
        kept.append(" ".join([str(address), each.name, *aliases]))
        kept.append(f"{_MAPPED}{address} {each.name}.{INTERFACE}")  # another name, or each had two addresses
    return "\n".join(kept) + "\n"
