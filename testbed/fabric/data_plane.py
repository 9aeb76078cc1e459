"""The switch data plane of a lab: one program and one set of maps, loaded, filled and pinned from outside the
nodes.

A port is known to BPF by its ifindex alone, so the same program serves every port of every switch, and the
maps are shared with all NICs.
"""

import os
import struct
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from ctypes import c_uint32
from pathlib import Path
from typing import Final, Self

import agents
from agents.bpf.libbpf import BpfObject, attach_xdp, open_pinned, pin
from agents.bpf.maps import MappedArray, PerCpuArray, map_update
from agents.switch.queue_maps import queue_map_entries
from agents.wire_abi import Port as PortEntry
from agents.wire_abi import PortCounters, PortState
from testbed.errors import PreflightError
from testbed.fabric.netlink import mac_bytes
from testbed.fabric.state import LabPaths
from testbed.topology.addressing import ifindex
from testbed.topology.clos import Clos
from testbed.topology.element import Port, PortKind
from testbed.topology.forwarding import FIB_STRIDE
from testbed.topology.timing import control_buffer_bytes, data_buffer_bytes, nic_buffer_bytes
from testbed.topology.usid import BLOCK

OBJECTS_DIR: Final = Path(agents.__file__).parent / "_objects"
FORWARD_PROGRAM: Final = "forward"

_PORT_MAPS: Final = ("port_table", "port_state", "port_counters", "port_devmap")
"""Maps with one entry per port of the lab."""


class FabricMaps:
    """The pinned maps of a live lab.

    Attributes:
        port_table: by port id; what a port is, its faults, its rate. Written by the control plane.
        port_state: by port id; what faults did there. Written by BPF.
        port_counters: by port id.
    """

    def __init__(self, paths: LabPaths) -> None:
        with ExitStack() as opened:

            def descriptor(name: str) -> int:
                number = open_pinned(paths.fabric_pins / name)
                opened.callback(os.close, number)
                return number

            self.port_table = MappedArray(descriptor("port_table"), PortEntry)
            self.port_state = MappedArray(descriptor("port_state"), PortState)
            self.port_counters = PerCpuArray(descriptor("port_counters"), PortCounters)
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Gives the descriptors up; the maps stay."""
        self._opened.close()


class SwitchDataPlane:
    """The loaded switch program; its descriptors are needed while a lab is built.

    Raises:
        PreflightError: the object is missing or the verifier refuses it.
    """

    def __init__(self, paths: LabPaths, clos: Clos) -> None:
        counts = dict.fromkeys(_PORT_MAPS, clos.numbering.port_count)
        counts["fib"] = clos.numbering.switch_count * FIB_STRIDE
        if clos.spec.is_shaped:
            counts |= queue_map_entries(clos.numbering.port_count)
        self._object = load_object(
            paths, "forward.bpf.o", rodata=struct.pack("=I", BLOCK), max_entries=counts
        )
        self._devmap_fd = self._object.map_fd("port_devmap")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the descriptors up; what is pinned stays."""
        self._object.close()

    @property
    def program_fd(self) -> int:
        """The XDP program of every switch port."""
        return self._object.program_fd(FORWARD_PROGRAM)

    def shared_maps(self) -> dict[str, int]:
        """Descriptors of the maps that NIC programs use too, by name."""
        return {name: self._object.map_fd(name) for name in self._object.map_names() if name != "fib"}

    def fill(self, clos: Clos) -> None:
        """Writes the port table and every switch's forwarding table."""
        table = MappedArray(self._object.map_fd("port_table"), PortEntry)
        for port in clos.ports():
            _fill_port(table[port.id], clos, port)
        fib_fd = self._object.map_fd("fib")
        for switch in clos.switches():
            for entry in clos.fib_entries(switch):
                map_update(fib_fd, c_uint32(switch.id * FIB_STRIDE + entry.key), c_uint32(entry.value))

    def pin(self, paths: LabPaths) -> None:
        """Pins program and maps, so that they outlive this process and NIC agents can open them."""
        pin_object(self._object, paths.fabric_pins, FORWARD_PROGRAM, shared=())

    def open_ports(self, ports: Iterable[Port], program_fd: int) -> None:
        """Attaches *program_fd* to ports and lets frames be redirected to them; call it inside their node.

        The device map resolves an ifindex in the namespace of the thread that writes the entry.
        """
        for port in ports:
            index = ifindex(port.id)
            attach_xdp(index, program_fd)
            map_update(self._devmap_fd, c_uint32(port.id), c_uint32(index))


def load_object(
    paths: LabPaths,
    file_name: str,
    *,
    rodata: bytes | None = None,
    max_entries: Mapping[str, int] | None = None,
    reuse: Mapping[str, int] | None = None,
) -> BpfObject:
    """Loads one of our BPF objects; a refusal of the verifier is kept in a file.

    Raises:
        PreflightError: the object is missing, or the kernel refuses it.
    """
    try:
        return BpfObject(OBJECTS_DIR / file_name, rodata=rodata, max_entries=max_entries, reuse=reuse)
    except PreflightError as error:
        reason, _, log = error.message.partition("\n")
        if not log:
            raise
        paths.verifier_log.write_text(error.message + "\n")
        raise PreflightError(
            f"{reason}; what the verifier said is in {paths.verifier_log}", hint=error.hint
        ) from error


def pin_object(loaded: BpfObject, folder: Path, program: str, *, shared: Collection[str]) -> None:
    """Pins one program of *loaded* and its maps, but for those named in *shared*, under their names in
    *folder*.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in loaded.map_names():
        if name not in shared:
            pin(loaded.map_fd(name), folder / name)
    pin(loaded.program_fd(program), folder / program)


def _fill_port(entry: PortEntry, clos: Clos, port: Port) -> None:
    entry.node_id = port.node.id
    entry.peer_port = port.peer_id
    entry.plane = port.plane
    entry.kind = port.kind
    entry.mac[:] = list(mac_bytes(port.mac))
    entry.peer_mac[:] = list(mac_bytes(clos.mac(port.peer_id)))
    entry.rate_bps = clos.spec.port_rate or 0
    entry.delay_ns = clos.spec.link_delay
    is_nic = port.kind is PortKind.NIC
    entry.data_buffer_bytes = nic_buffer_bytes(clos) if is_nic else data_buffer_bytes(clos)
    entry.control_buffer_bytes = control_buffer_bytes(clos)
    entry.is_configured = 1
