"""Links of a lab: veth pairs between namespaces, and what each node's interfaces need."""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.namespace import entered, opened_namespace
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, add_address, create_veth, mac_bytes, set_link_up
from mrc_testbed.fabric.runtime import node_namespace
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex, link_local
from mrc_testbed.topology.element import Link, Port

_LOOPBACK_IFINDEX: Final = 1
_LINK_LOCAL_PREFIX_LENGTH: Final = 64

_SYSCTL: Final = Path("/proc/sys/net/ipv6/conf")
_QUIET_INTERFACES: Final = {
    "all/disable_ipv6": "0",  # Docker may set it
    "default/disable_ipv6": "0",
    "default/addr_gen_mode": "1",  # link-local addresses are ours to give
    "default/accept_dad": "0",
    "default/accept_ra": "0",
    "default/router_solicitations": "0",  # an idle lab sends nothing
}
"""Set in a node before it has interfaces; they inherit them."""


def prepare_namespace(lab: str, node: str) -> None:
    """Makes the interfaces to come of a node silent, and raises its loopback."""
    with entered(node_namespace(lab, node)):
        silence_interfaces()
        with RouteSocket() as route:
            route.perform([set_link_up(f"{node} lo", _LOOPBACK_IFINDEX, is_up=True)])


def silence_interfaces() -> None:
    """Keeps the kernel silent on interfaces to come of the namespace that the calling thread is in."""
    for name, value in _QUIET_INTERFACES.items():
        write_ipv6_setting(name, value)


def write_ipv6_setting(name: str, value: str) -> None:
    """Sets net.ipv6.conf.*name* in the namespace that the calling thread is in."""
    try:
        (_SYSCTL / name).write_text(value)
    except OSError as error:
        raise FabricError(f"net.ipv6.conf.{name} cannot be set to {value}: {error.strerror}") from error


def create_links(lab: str, links: Iterable[Link]) -> None:
    """Creates the veth pairs of *links*, each end in its node with its ifindex, name, MAC and MTU; all are
    down.
    """
    with ExitStack() as stack, RouteSocket() as route:
        descriptors: dict[str, int] = {}

        def end(port: Port) -> VethEnd:
            node = port.node.name
            if node not in descriptors:
                descriptors[node] = stack.enter_context(opened_namespace(node_namespace(lab, node)))
            return VethEnd(descriptors[node], port.interface, ifindex(port.id), mac_bytes(port.mac))

        route.perform(
            [create_veth(link.name, end(link.lower), end(link.upper), INTERFACE_MTU_BYTES) for link in links]
        )


def raise_ports(ports: Iterable[Port]) -> None:
    """Add the link-local address to ports and set them up; call it inside their node."""
    with RouteSocket() as route:
        route.perform(
            [
                request
                for port in ports
                for request in (
                    add_address(port.name, ifindex(port.id), link_local(port.id), _LINK_LOCAL_PREFIX_LENGTH),
                    set_link_up(port.name, ifindex(port.id), is_up=True),
                )
            ]
        )


def set_port_up(lab: str, port: Port, *, is_up: bool) -> None:
    """Raises or lowers one port's interface; the far end's carrier follows before this returns."""
    with entered(node_namespace(lab, port.node.name)):
        if is_up:
            raise_ports([port])  # its address went when it went down
            return
        with RouteSocket() as route:
            route.perform([set_link_up(port.name, ifindex(port.id), is_up=False)])
