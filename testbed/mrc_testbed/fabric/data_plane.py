"""The switch data plane of a lab: one program and one set of maps, loaded, filled and pinned from outside the
nodes.

A port is known to BPF by its ifindex alone, so the same program serves every port of every switch, and the
maps are shared with all NICs.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from ctypes import Array, c_uint32
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from mrc_agents.abi import (
    DrainerMode,
    FabricConfig,
    FabricProgram,
    FaultAccounts,
    FaultLimit,
    FlowControl,
    Limit,
    LosslessSettings,
    PortCounters,
    PortEntry,
    PortFault,
    QueueDrainer,
    QueueLimit,
    QueueSettings,
    TierEntry,
    UplinkChoice,
)
from mrc_agents.abi import Forwarding as ForwardingNumber
from mrc_agents.algorithms import CC, EV, names_of
from mrc_agents.bpf.libbpf import BpfObject, attach_xdp, open_map_in, pin
from mrc_agents.bpf.maps import Descriptor, MappedArray, PerCpuArray, map_update
from mrc_agents.bpf.refusal import ObjectRefusedError
from mrc_agents.closing import Closing, Holder
from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.errors import PreflightError
from mrc_testbed.fabric.netlink import mac_bytes
from mrc_testbed.fabric.paths import LabPaths, MapPins
from mrc_testbed.fabric.state_file import write_private
from mrc_testbed.topology import timing
from mrc_testbed.topology.addressing import INNER_PREFIX, ifindex
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.forwarding import FIB_STRIDE, fib_entries
from mrc_testbed.topology.port_queue import LinkBuffer, PortQueue, drainer_of, link_buffers, port_queues
from mrc_testbed.topology.port_selection import link_delays_ns, port_rates_bps
from mrc_testbed.topology.usid import BLOCK

QUEUE_PORT_MAPS: Final = (
    "queue_ports",
    "queue_state",
    "queue_settings",
    "queue_delays",
    "lossless_settings",
    "lossless_links",
)
"""Maps with an element per port."""

QUEUE_DRAINER_MAPS: Final = ("queue_drainer", "queue_wakes", "queue_lateness")
"""Maps with an element per drainer."""

_FRAMES_PER_PORT = 128  # a 256 KiB buffer of full-sized data frames
_FRAMES_MIN = 4096  # small labs run large windows as well

EMIT_PROGRAM: Final = "emit"
_ENTER_PROGRAM: Final = "enter"

_PORT_MAPS: Final = (
    "port_table",
    "port_fault",
    "fault_accounts",
    "fault_locks",
    "port_counters",
    "port_devmap",
)
"""Maps with one entry per port of the lab."""


def pool_frames(port_count: int) -> int:
    """Frames that a lab of *port_count* ports can hold at once, 3 KiB each."""
    return min(QueueLimit.FRAMES_MAX, max(_FRAMES_MIN, _FRAMES_PER_PORT * port_count))


def queue_map_entries(port_count: int, drainer_count: int = 1) -> dict[str, int]:
    """Elements per map of a shaped lab of so many ports and drainers; maps not named stay as declared."""
    entries = dict.fromkeys(QUEUE_PORT_MAPS, port_count)
    entries |= dict.fromkeys(QUEUE_DRAINER_MAPS, drainer_count)
    return entries | {"queue_frames": pool_frames(port_count)}


class FabricMaps(Holder):
    """The pinned maps of a live lab; they stay when it closes."""

    def __init__(self, paths: MapPins) -> None:
        with ExitStack() as opened:
            descriptor = partial(open_map_in, opened, paths.fabric_pins)
            # by port id; what a port is, its rate, whether faults act. Written by the control plane
            self.port_table = MappedArray(descriptor("port_table"), PortEntry)
            # by port id; what faults do there. Written by the control plane
            self.port_fault = MappedArray(descriptor("port_fault"), PortFault)
            # by port id; what they did. Written by BPF
            self.fault_accounts = MappedArray(descriptor("fault_accounts"), FaultAccounts)
            self.port_counters = PerCpuArray(descriptor("port_counters"), PortCounters)  # by port id
            # by the port that sends into a link, its flow control; one element if unshaped
            self.lossless_settings = MappedArray(descriptor("lossless_settings"), LosslessSettings)
            self._opened = opened.pop_all()


class LoadedMaps(Protocol):
    """Maps by name, before or after they are pinned."""

    def map_fd(self, name: str) -> Descriptor: ...


def fabric_map_entries(clos: Clos) -> dict[str, int]:
    """Elements of the fabric's maps; maps not named stay as declared."""
    counts = dict.fromkeys(_PORT_MAPS, clos.numbering.port_count)
    counts["fib"] = clos.numbering.switch_count * FIB_STRIDE
    if clos.spec.is_shaped:
        counts["fault_lines"] = clos.numbering.port_count * FaultLimit.LINES
        counts |= queue_map_entries(clos.numbering.port_count, clos.spec.queue.drainers)
    return counts


def forward_program(clos: Clos) -> str:
    """Name of the XDP program of a lab's switch ports, in forward.bpf.o."""
    return "forward" if clos.spec.is_shaped else "forward_unshaped"


def load_forward(paths: LabPaths, clos: Clos, *, max_entries: Mapping[str, int] | None = None) -> BpfObject:
    """Loads those programs of forward.bpf.o that the lab's switches run."""
    return load_object(
        paths,
        "forward.bpf.o",
        rodata=fabric_rodata(clos),
        max_entries=max_entries,
        programs=(forward_program(clos), _ENTER_PROGRAM),
    )


class SwitchDataPlane(Closing):
    """The loaded switch program; its descriptors are needed while a lab is built."""

    def __init__(self, paths: LabPaths, clos: Clos) -> None:
        self._object = load_forward(paths, clos, max_entries=fabric_map_entries(clos))
        self._program = forward_program(clos)
        self._devmap_fd = self._object.map_fd("port_devmap")
        self._emit = self._load_emit(paths, clos)

    def close(self) -> None:
        """Close the descriptors; what is pinned stays."""
        self._emit.close()
        self._object.close()

    def _load_emit(self, paths: LabPaths, clos: Clos) -> BpfObject:
        """Faults and queues for frames that leave NICs, in the place where their programs look for them.

        The map that holds it is pinned, which keeps it alive.
        """
        maps = {name: self._object.map_fd(name) for name in self._object.map_names()}
        try:
            emit = load_object(paths, "emit.bpf.o", rodata=fabric_rodata(clos), reuse=maps)
        except BaseException:
            self._object.close()
            raise
        programs = {
            FabricProgram.EMIT: emit.program_fd(EMIT_PROGRAM),
            FabricProgram.FORWARD: self._object.program_fd(_ENTER_PROGRAM),
        }
        for place, program_fd in programs.items():
            map_update(maps["fabric_programs"], c_uint32(place), c_uint32(program_fd))
        return emit

    @property
    def program_fd(self) -> int:
        """The XDP program of every switch port."""
        return self._object.program_fd(self._program)

    def shared_maps(self) -> dict[str, int]:
        """Descriptors of the maps that NIC programs use too, by name."""
        return {name: self._object.map_fd(name) for name in self._object.map_names() if name != "fib"}

    def fill(self, clos: Clos) -> None:
        """Writes the port table and every switch's forwarding table."""
        fill_fabric(self._object, clos)

    def pin(self, paths: LabPaths) -> None:
        """Pins program and maps, so that they outlive this process and NIC agents can open them."""
        pin_object(self._object, paths.fabric_pins, self._program, shared=())

    def open_ports(self, ports: Iterable[Port], program_fd: int) -> None:
        """Attaches *program_fd* to ports and lets frames be redirected to them; call it inside their node.

        The device map resolves an ifindex in the namespace of the thread that writes the entry.
        """
        for port in ports:
            index = ifindex(port.id)
            attach_xdp(index, program_fd)
            map_update(self._devmap_fd, c_uint32(port.id), c_uint32(index))


def tier_sizes(clos: Clos) -> Array[TierEntry]:
    """The tiers of a fabric as the data plane has them."""
    number = clos.numbering
    sizes = zip(number.tiers, number.uplinks, strict=True)
    return (TierEntry * Limit.TIER_MAX)(
        *(TierEntry(tier.joins, tier.lanes, uplinks) for tier, uplinks in sizes)
    )


def fabric_rodata(clos: Clos, lateness_ns: int = timing.LATENESS_NS) -> bytes:
    """The read-only data of every BPF object of a lab: mrc_fabric_config."""
    spec = clos.spec
    return bytes(
        FabricConfig(
            inner_prefix=INNER_PREFIX,
            srv6_block=BLOCK,
            forwarding=ForwardingNumber[spec.forwarding.upper()],
            host_count=clos.numbering.host_count,
            tiers=tier_sizes(clos),
            hash_seed=spec.hash_seed,
            is_shaped=spec.is_shaped,
            uplink_choice=UplinkChoice[spec.uplink_choice.upper()],
            pace_ns=timing.pace_ns(clos, lateness_ns),
            cc_algorithm=names_of(CC).index(spec.nic.cc),
            ev_selector=names_of(EV).index(spec.nic.ev_selector),
        )
    )


def fill_fabric(loaded: LoadedMaps, clos: Clos) -> None:
    """Writes the port table and every switch's forwarding table into the maps of the switch program."""
    table = MappedArray(loaded.map_fd("port_table"), PortEntry)
    delays_ns, rates_bps = link_delays_ns(clos), port_rates_bps(clos)
    queues = port_queues(clos)
    for port in clos.ports():
        _fill_port(table[port.id], clos, port, rates_bps[port.id])
        table[port.id].is_direct = queues[port.id].is_direct
        table[port.id].delay_ns = delays_ns[port.link_id]
    if clos.spec.is_shaped:
        settings = MappedArray(loaded.map_fd("queue_settings"), QueueSettings)
        for port in clos.ports():
            _fill_queue(settings[port.id], queues[port.id], port.id)
            settings[port.id].drainer = drainer_of(clos, port)
        for drainer in MappedArray(loaded.map_fd("queue_drainer"), QueueDrainer):
            drainer.mode = DrainerMode[clos.spec.queue.drainer.upper()]
    links = MappedArray(loaded.map_fd("lossless_settings"), LosslessSettings)
    for port_id, buffer in enumerate(link_buffers(clos)):
        _fill_lossless(links[port_id], FlowControl[clos.spec.flow_control.upper()], buffer)
    fib_fd = loaded.map_fd("fib")
    for switch in clos.switches():
        for entry in fib_entries(clos, switch):
            map_update(fib_fd, c_uint32(switch.id * FIB_STRIDE + entry.key), c_uint32(entry.value))


def load_object(
    paths: LabPaths,
    file_name: str,
    *,
    rodata: bytes | None = None,
    max_entries: Mapping[str, int] | None = None,
    reuse: Mapping[str, int] | None = None,
    programs: Collection[str] | None = None,
) -> BpfObject:
    """Loads one of our BPF objects; a refusal of the verifier is kept in a file."""
    try:
        return BpfObject(
            OBJECTS_DIR / file_name, rodata=rodata, max_entries=max_entries, reuse=reuse, programs=programs
        )
    except ObjectRefusedError as error:
        if not error.log:
            raise
        write_private(paths.verifier_log, f"{error.reason}\n{error.log}\n")
        raise PreflightError(
            f"{error.reason}; the verifier's log is {paths.verifier_log}", hint=error.hint
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


def _fill_port(entry: PortEntry, clos: Clos, port: Port, rate_bps: int) -> None:
    entry.node_id = port.node.id
    entry.peer_port = port.peer_id
    entry.plane = port.plane
    entry.kind = port.kind
    entry.mac[:] = list(mac_bytes(port.mac))
    entry.peer_mac[:] = list(mac_bytes(clos.mac(port.peer_id)))
    entry.rate_bps = rate_bps
    entry.is_configured = 1


def _fill_queue(entry: QueueSettings, queue: PortQueue, seed: int) -> None:
    entry.data_buffer_bytes = queue.data_buffer_bytes
    entry.control_buffer_bytes = queue.control_buffer_bytes
    entry.trim_bytes = queue.trim_bytes
    entry.ecn_min_bytes = queue.ecn_min_bytes
    entry.ecn_max_bytes = queue.ecn_max_bytes
    entry.ecn_probability_q32 = round(queue.ecn_probability * (1 << 32))
    entry.seed = seed


def _fill_lossless(entry: LosslessSettings, kind: FlowControl, buffer: LinkBuffer) -> None:
    entry.xoff_bytes = buffer.xoff_bytes
    entry.xon_bytes = buffer.xon_bytes
    entry.buffer_bytes = buffer.room_bytes
    entry.flow_control = kind
