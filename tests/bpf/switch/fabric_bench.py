"""All switches of a small fabric: the real program with real tables, one frame at a time, port by port.

Both ends of every link are in one namespace, so the program sees the ifindexes of a lab. A redirected frame
bears the MAC address of the port it leaves by, which says where it comes in next.
"""

from contextlib import ExitStack
from dataclasses import dataclass

from program_bench import ProgramBench, Verdict
from reference.frame import Frame, Route, build_frame
from reference.network_header import parse_mac
from reference.opcode import Opcode
from reference.packet import Sack
from reference.reliability_header import CcState, Seth
from reference.transport_header import Bth
from switch_bench import FORWARD, PORT_MAPS

from mrc_agents.abi import FaultLimit, PortCounter, PortEntry
from mrc_agents.bpf.maps import MappedArray
from mrc_testbed.fabric.data_plane import fabric_rodata, fill_fabric, forward_program, queue_map_entries
from mrc_testbed.fabric.netlink import mac_bytes
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.forwarding import FIB_STRIDE
from mrc_testbed.topology.path import explain_ev

_MAC_BYTES = 6


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


class FabricBench(ProgramBench):
    """The switches of *clos*, to be entered as a context by one thread."""

    def __init__(self, clos: Clos) -> None:
        self.clos = clos

    def open(self, undo: ExitStack) -> None:
        count = self.clos.numbering.port_count
        entries = dict.fromkeys(PORT_MAPS, count)
        entries["fib"] = self.clos.numbering.switch_count * FIB_STRIDE
        if self.clos.spec.is_shaped:
            entries |= queue_map_entries(count) | {"fault_lines": count * FaultLimit.LINES}
        program = forward_program(self.clos)
        self.load(undo, FORWARD, program, rodata=fabric_rodata(self.clos), max_entries=entries)
        self.port_table = MappedArray(self.map_fd("port_table"), PortEntry)
        fill_fabric(self.loaded, self.clos)
        links = ([(port.id, mac_bytes(port.mac)) for port in link.ports] for link in self.clos.links())
        self.create_links(links, has_both_ends=True)

    def counts(self) -> tuple[tuple[int, ...], ...]:
        """All counters, by port id."""
        return tuple(tuple(self.port_counters.sum(port_id)) for port_id in range(len(self.port_table)))

    def receive(self, frame: bytes, port: Port, arrival_ns: int | None = None) -> tuple[Verdict, bytes]:
        """Lets *frame* come in through a port of a switch, at *arrival_ns* in the model if given."""
        return self.run(frame, port.id, arrival_ns)

    def send(self, frame: bytes, host: int, plane: int) -> Journey:
        egress = self.clos.host_link(host, plane).lower
        links = [egress.link_id]
        while True:
            port = self.clos.peer(egress)
            if not port.node.is_switch:
                return Journey(tuple(links), port, frame, None)
            before = self.port_counters.sum(port.id)
            verdict, left = self.receive(frame, port)
            if verdict is not Verdict.REDIRECT:
                counts = zip(before, self.port_counters.sum(port.id), strict=True)
                (reason,) = (PortCounter(i) for i, (old, new) in enumerate(counts) if new != old)
                return Journey(tuple(links), port, frame, reason)
            frame = left
            source = frame[_MAC_BYTES : 2 * _MAC_BYTES]
            (egress,) = (p for p in self.clos.ports_of(port.node) if mac_bytes(p.mac) == source)
            assert frame[:_MAC_BYTES] == mac_bytes(self.clos.mac(egress.peer_id))
            links.append(egress.link_id)
