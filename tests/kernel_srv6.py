"""A switch of the lab done by the kernel's own SRv6 instead of our BPF program, and back again.

Our switch is a uN node and nothing more, so the kernel's End behaviour with the NEXT-CSID flavour must do for
it, with the same carriers and without anybody else noticing: an independent check of what we put on the wire.

The kernel needs a route per uSID, a next hop with a link-local address, and that next hop's MAC: all of it
follows from the topology, so nothing is asked on the wire.
"""

import subprocess
from collections.abc import Iterable, Iterator
from ipaddress import IPv6Network
from typing import Final

from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.link import write_ipv6_setting
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.topology.addressing import link_local
from mrc_testbed.topology.element import Node, Port
from mrc_testbed.topology.forwarding import FIB_LOCAL, fib_entries
from mrc_testbed.topology.usid import INDEX_COUNT, Role, Usid, pack_carrier

_BLOCK_BITS: Final = 32
_USID_BITS: Final = 16
_FORWARDING: Final = ("all/forwarding", "all/seg6_enabled")


def replace_switch_by_kernel_srv6(lab: Lab, name: str) -> None:
    """Lets the kernel forward for the switch *name*; its BPF program passes all frames up from now on.

    Raises:
        UsageError: it is no switch, or the lab is shaped: the kernel would send at any rate.
    """
    switch = _unshaped_switch(lab, name)
    with exclusive(lab.paths.lock_file, "replace a switch by kernel SRv6"):
        with entered(lab.namespace(name)):
            for setting in (*_FORWARDING, *_interface_settings(lab, switch)):
                write_ipv6_setting(setting, "1")
            _ip("replace", (*_neighbours(lab, switch), *_routes(lab, switch)))
        _set_configured(lab, switch, is_configured=False)


def restore_switch(lab: Lab, name: str) -> None:
    """Lets the BPF program forward for the switch *name*, which was replaced, again."""
    switch = _unshaped_switch(lab, name)
    with exclusive(lab.paths.lock_file, "restore a switch"):
        _set_configured(lab, switch, is_configured=True)
        with entered(lab.namespace(name)):
            _ip("delete", (*_routes(lab, switch), *_neighbours(lab, switch)))
            for setting in (*_FORWARDING, *_interface_settings(lab, switch)):
                write_ipv6_setting(setting, "0")


def _unshaped_switch(lab: Lab, name: str) -> Node:
    node = lab.clos.node(name)
    if not node.is_switch:
        raise UsageError(f"{name} is a host: only a switch can be replaced")
    if lab.spec.forwarding != "srv6":
        raise UsageError(f"lab {lab.name!r} forwards by {lab.spec.forwarding}: there is no SRv6 to do")
    if lab.spec.is_shaped:
        raise UsageError(f"lab {lab.name!r} is shaped: the kernel's SRv6 keeps no port rate")
    return node


def _set_configured(lab: Lab, switch: Node, *, is_configured: bool) -> None:
    for port in lab.clos.ports_of(switch):
        lab.port_table[port.id].is_configured = is_configured


def _interface_settings(lab: Lab, switch: Node) -> Iterator[str]:
    """The kernel wants seg6_enabled on the receiving interface as well as on `all`."""
    return (f"{port.interface}/seg6_enabled" for port in lab.clos.ports_of(switch))


def _ip(verb: str, objects: Iterable[tuple[str, str]]) -> None:
    """Have ip(8) replace or delete routes and neighbours, given as kind and the rest of the command."""
    lines = "".join(f"{kind} {verb} {rest}\n" for kind, rest in objects)
    subprocess.run(["ip", "-6", "-batch", "-"], input=lines, text=True, check=True)


def _neighbours(lab: Lab, switch: Node) -> Iterator[tuple[str, str]]:
    for port in lab.clos.ports_of(switch):
        mac = lab.clos.mac(port.peer_id)
        yield "neighbour", f"{link_local(port.peer_id)} lladdr {mac} dev {port.interface} nud permanent"


def _routes(lab: Lab, switch: Node) -> Iterator[tuple[str, str]]:
    for locator, port, is_own in _locators(lab, switch):
        flavor = f"flavors next-csid lblen {_BLOCK_BITS} nflen {_USID_BITS}"
        way = f"encap seg6local action End {flavor}" if is_own else f"via {link_local(port.peer_id)}"
        yield "route", f"{locator} {way} dev {port.interface}"


def _locators(lab: Lab, switch: Node) -> Iterator[tuple[IPv6Network, Port, bool]]:
    """(locator, port, whether it is the switch's own) of each entry of its forwarding table.

    An own locator needs some interface, though none is used: the first port's.
    """
    for entry in fib_entries(lab.clos, switch):
        role, index = divmod(entry.key, INDEX_COUNT)
        usid = Usid(Role(role), switch.plane or 0, index)
        locator = IPv6Network((pack_carrier((usid,)), _BLOCK_BITS + _USID_BITS))
        is_own = entry.value == FIB_LOCAL
        yield locator, lab.clos.port(lab.clos.port_id(switch, 0) if is_own else entry.value - 1), is_own
