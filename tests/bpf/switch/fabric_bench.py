"""All switches of a small fabric: the real program with real tables, one frame at a time, port by port.

Both ends of every link are in one namespace, so the program sees the ifindexes of a lab. A redirected frame
bears the MAC address of the port it leaves by, which says where it comes in next.
"""

from contextlib import ExitStack
from ctypes import c_uint32
from dataclasses import dataclass
from typing import Self

from reference.frame import Frame, Route, build_frame
from reference.network_header import parse_mac
from reference.opcode import Opcode
from reference.packet import Sack
from reference.reliability_header import CcState, Seth
from reference.transport_header import Bth
from switch_bench import FORWARD, FRAME_TIME, FRAME_TIME_MAGIC, Verdict

from mrc_testbed.agents.abi import FaultLimit, PortCounter, PortCounters
from mrc_testbed.agents.abi import Port as PortEntry
from mrc_testbed.agents.bpf.libbpf import BpfObject, attach_xdp, run_once
from mrc_testbed.agents.bpf.maps import MappedArray, PerCpuArray, map_update
from mrc_testbed.agents.switch.queue_maps import queue_map_entries
from mrc_testbed.fabric.data_plane import fabric_rodata, fill_fabric, forward_program
from mrc_testbed.fabric.link import silence_interfaces
from mrc_testbed.fabric.namespace import unnamed_namespace
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, create_veth, mac_bytes, set_link_up
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.forwarding import FIB_STRIDE
from mrc_testbed.topology.path import explain_ev

_MAC_BYTES = 6
_PORT_MAPS = ("port_table", "port_fault", "fault_accounts", "fault_locks", "port_counters", "port_devmap")


@dataclass(frozen=True, slots=True)
class Journey:
    """The journey of a frame."""

    links: tuple[int, ...]  # ids of the links it crossed, in order
    end: Port  # port of the NIC that got it, or where a switch dropped it
    frame: bytes  # as it was on the last link
    reason: PortCounter | None  # counter of the switch that dropped it; None when it was delivered


def frame_of(clos: Clos, source: int, destination: int, ev: int) -> Frame:
    """A small packet as the NIC of *source* sends it."""
    plane = ev >> 28
    link = clos.host_link(source, plane)
    is_tunnelled = clos.spec.forwarding == "srv6"
    route = Route(
        source_mac=parse_mac(link.lower.mac),
        destination_mac=parse_mac(link.upper.mac),
        source=clos.inner_address(source, plane),
        destination=clos.inner_address(destination, plane),
        carrier=explain_ev(clos, ev, source, destination).carrier if is_tunnelled else None,
        ev=ev,
    )
    return build_frame(route, Sack(Bth(Opcode.SACK, 300, 1), Seth(1, ev), CcState(0)))


class FabricBench:
    """The switches of *clos*, to be entered as a context by one thread."""

    def __init__(self, clos: Clos) -> None:
        self.clos = clos
        self._program = forward_program(clos)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            namespace_fd = undo.enter_context(unnamed_namespace())
            silence_interfaces()  # a frame of the kernel's own would be counted
            entries = dict.fromkeys(_PORT_MAPS, self.clos.numbering.port_count)
            entries["fib"] = self.clos.numbering.switch_count * FIB_STRIDE
            if self.clos.spec.is_shaped:
                entries["fault_lines"] = self.clos.numbering.port_count * FaultLimit.LINES
                entries |= queue_map_entries(self.clos.numbering.port_count)
            rodata = fabric_rodata(self.clos)
            self._switch = undo.enter_context(
                BpfObject(FORWARD, rodata=rodata, max_entries=entries, programs=[self._program])
            )
            self.port_table = MappedArray(self._switch.map_fd("port_table"), PortEntry)
            self._counters = PerCpuArray(self._switch.map_fd("port_counters"), PortCounters)
            fill_fabric(self._switch, self.clos)
            self._create_links(namespace_fd)
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _create_links(self, namespace_fd: int) -> None:
        program_fd = self._switch.program_fd(self._program)
        with RouteSocket() as route:
            for link in self.clos.links():
                near, far = (
                    VethEnd(namespace_fd, f"port{port.id}", ifindex(port.id), mac_bytes(port.mac))
                    for port in link.ports
                )
                route.perform([create_veth(near.interface, near, far, INTERFACE_MTU_BYTES)])
                for port in link.ports:
                    index = ifindex(port.id)
                    route.perform([set_link_up(f"port{port.id}", index, is_up=True)])
                    attach_xdp(index, program_fd)
                    map_update(self._switch.map_fd("port_devmap"), c_uint32(port.id), c_uint32(index))

    def map_fd(self, name: str) -> int:
        return self._switch.map_fd(name)

    def counts(self) -> tuple[tuple[int, ...], ...]:
        """All counters, by port id."""
        return tuple(tuple(self._counters.sum(port_id)) for port_id in range(len(self.port_table)))

    def receive(self, frame: bytes, port: Port, arrival_ns: int | None = None) -> tuple[Verdict, bytes]:
        """Lets *frame* come in through a port of a switch, at *arrival_ns* in the model if given."""
        metadata = b"" if arrival_ns is None else FRAME_TIME.pack(arrival_ns, FRAME_TIME_MAGIC, 0)
        verdict, left = run_once(
            self._switch.program_fd(self._program), frame, ingress_ifindex=ifindex(port.id), metadata=metadata
        )
        return Verdict(verdict), left

    def send(self, frame: bytes, host: int, plane: int) -> Journey:
        egress = self.clos.host_link(host, plane).lower
        links = [egress.link_id]
        while True:
            port = self.clos.peer(egress)
            if not port.node.is_switch:
                return Journey(tuple(links), port, frame, None)
            before = self._counters.sum(port.id)
            verdict, left = self.receive(frame, port)
            if verdict is not Verdict.REDIRECT:
                counts = zip(before, self._counters.sum(port.id), strict=True)
                (reason,) = (PortCounter(i) for i, (old, new) in enumerate(counts) if new != old)
                return Journey(tuple(links), port, frame, reason)
            frame = left
            source = frame[_MAC_BYTES : 2 * _MAC_BYTES]
            (egress,) = (p for p in self.clos.ports_of(port.node) if mac_bytes(p.mac) == source)
            assert frame[:_MAC_BYTES] == mac_bytes(self.clos.mac(egress.peer_id))
            links.append(egress.link_id)
