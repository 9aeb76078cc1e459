"""Ports of a live lab as the kernel has them, what is wrong with them, and how they are put right."""

import struct
import sys
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from mrc_agents.bpf.libbpf import attach_xdp, detach_xdp, open_pinned_in, program_facts
from mrc_agents.closing import Holder
from mrc_testbed.fabric.data_plane import forward_program
from mrc_testbed.fabric.link import raise_ports
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.netlink import RouteSocket, attributes_of, configure_link, get_link, mac_bytes
from mrc_testbed.fabric.nic_data_plane import nic_program
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.runtime import node_namespace
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node, Port

_IFF_UP: Final = 0x1
_NO_INTERFACE: Final = "has no interface"


class PortObservation(NamedTuple):
    is_up: bool  # administratively
    has_carrier: bool  # it is up, and so is the far end of its link
    mtu_bytes: int  # its MTU
    mac: bytes  # its address, 6 bytes
    program_id: int | None  # of the XDP program attached to it; None: none, or several


def observe_ports(lab: str, node: str, ports: Collection[Port]) -> tuple[PortObservation | None, ...]:
    """The interfaces of *ports*, which are all of *node*; None for one that does not exist."""
    with entered(node_namespace(lab, node)), RouteSocket() as route:
        return tuple(_observe(route, port) for port in ports)


def _observe(route: RouteSocket, port: Port) -> PortObservation | None:
    address, mtu, carrier, xdp, xdp_program_id = 1, 4, 33, 43, 4
    reply = route.ask(get_link(port.name, ifindex(port.id)))
    if not reply:
        return None
    (flags,) = struct.unpack_from("=I", reply, 8)
    found = attributes_of(reply[16:])
    program = attributes_of(found.get(xdp, b"")).get(xdp_program_id)
    is_up = bool(flags & _IFF_UP)
    return PortObservation(
        is_up,
        # Not IFF_RUNNING, which follows the carrier only after a while.
        is_up and found[carrier] != b"\0",
        int.from_bytes(found[mtu], sys.byteorder),
        found[address],
        None if program is None else int.from_bytes(program, sys.byteorder),
    )


class LabPorts(Holder):
    """The ports of a lab that is up, against what its topology and its pinned programs make of them."""

    def __init__(self, paths: LabPaths, clos: Clos) -> None:
        self._paths = paths
        self._clos = clos
        with ExitStack() as opened:
            self._switch_program = open_pinned_in(opened, paths.fabric_pins, forward_program(clos))
            self._opened = opened.pop_all()

    def problems(self, nodes: Iterable[Node], lowered: Container[int]) -> Iterator[str]:
        """One sentence for each port of *nodes* that lets no packet pass, but for what faults want so."""
        for node in nodes:
            for port, faulty in self._faulty_ports(node, lowered):
                yield f"port {port.name} {faulty}"

    def fix(self, nodes: Iterable[Node], lowered: Container[int]) -> list[str]:
        """Puts ports right; names those that were not. One whose interface is gone stays so."""
        fixed = []
        for node in nodes:
            faulty = [port for port, why in self._faulty_ports(node, lowered) if why != _NO_INTERFACE]
            if not faulty:
                continue
            with self._program(node) as program, entered(node_namespace(self._paths.lab, node.name)):
                for port in faulty:
                    self._configure(port, program)
                raise_ports(port for port in faulty if port.id not in lowered)
            fixed += [port.name for port in faulty]
        return fixed

    def _configure(self, port: Port, program: int) -> None:
        index = ifindex(port.id)
        with RouteSocket() as route:
            route.perform([configure_link(port.name, index, mac_bytes(port.mac), INTERFACE_MTU_BYTES)])
        # One in generic mode keeps a native one out.
        detach_xdp(index)
        attach_xdp(index, program)

    def _faulty_ports(self, node: Node, lowered: Container[int]) -> Iterator[tuple[Port, str]]:
        ports = tuple(self._clos.ports_of(node))
        with self._program(node) as program:
            wanted_id = int(program_facts(program)["prog_id"])
        for port, observed in zip(ports, observe_ports(self._paths.lab, node.name, ports), strict=True):
            problem = next(_problems(port, observed, wanted_id, lowered), None)
            if problem is not None:
                yield port, problem

    @contextmanager
    def _program(self, node: Node) -> Iterator[int]:
        """Descriptor of the XDP program that a node's ports run."""
        if node.is_switch:
            yield self._switch_program
        else:
            with nic_program(self._paths, node.name) as descriptor:
                yield descriptor


def _problems(
    port: Port, observed: PortObservation | None, program: int, lowered: Container[int]
) -> Iterator[str]:
    """Problems of a port, to be put behind its name; the worst first."""
    if observed is None:
        yield _NO_INTERFACE
        return
    if observed.mtu_bytes < INTERFACE_MTU_BYTES:
        yield (
            f"has an MTU of {observed.mtu_bytes} bytes, {INTERFACE_MTU_BYTES} are needed: it drops full "
            "packets without a word"
        )
    if observed.mac != mac_bytes(port.mac):
        yield f"has the address {observed.mac.hex(':')}, the far end of its link sends to {port.mac}"
    if observed.program_id is None:
        yield "has no XDP program, or several: packets end there"
    elif observed.program_id != program:
        yield f"has an XDP program that is not ours (id {observed.program_id}): packets end there"
    if port.id in lowered:
        return
    if not observed.is_up:
        yield "is down, and no fault wants it so"
    elif not observed.has_carrier and port.peer_id not in lowered:
        yield "has no carrier: the far end of its link is down"
