"""The data plane of one NIC: program and maps, loaded and pinned from outside the host."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import c_uint32
from typing import Final

from mrc_agents.abi import IcrcMode, Limit, LinkProbePath, LinkProbing, NicConfig, NicControl
from mrc_agents.bpf.chunks import (
    chunk_pin,
    chunk_segments,
    create_chunk,
    insert_chunks,
    open_chunks,
    remove_maps,
)
from mrc_agents.bpf.libbpf import BpfObject, open_map_in, open_pinned_in, pin
from mrc_agents.bpf.maps import Descriptor, MappedArray, map_freeze, map_update
from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import PreflightError
from mrc_testbed.fabric.data_plane import LoadedMaps, fabric_rodata, load_object, pin_object, tier_sizes
from mrc_testbed.fabric.paths import LabPaths, MapPins
from mrc_testbed.topology.addressing import INNER_PREFIX
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.host_forwarding import MRC_UDP_PORT
from mrc_testbed.topology.probe_path import ProbePath, probe_paths
from mrc_testbed.topology.usid import BLOCK

NIC_PROGRAM: Final = "nic"
RC_PROGRAM: Final = "rc"
LINK_PROBE_MAPS: Final = ("link_probe_paths", "link_probing")
_RC_PLACE: Final = 0  # NIC_TRANSPORT_RC of nic.bpf.c
AGENT_SILENCE_LIMIT_NS: Final = 10_000_000_000
"""An agent that gives no sign of life for so long is dead, however busy the machine: its QPs end."""


def load_nic(paths: LabPaths, clos: Clos, host: str, shared_maps: Mapping[str, int]) -> None:
    """Loads the NIC of *host*, configures its identity, and pins it where its agent looks for it.

    Args:
        shared_maps: descriptors of the fabric's maps, by name.
    """
    probed = probe_paths(clos, clos.node(host).index)
    sizes = nic_map_entries(clos, len(probed))
    with load_object(
        paths, "nic.bpf.o", rodata=fabric_rodata(clos), max_entries=sizes, reuse=shared_maps
    ) as loaded:
        fill_nic(loaded, clos, clos.node(host))
        # else a process in the host's container could send from any port of the lab
        map_freeze(loaded.map_fd("nic_config"))
        fill_link_probes({name: loaded.map_fd(name) for name in LINK_PROBE_MAPS}, probed)
        pin_object(loaded, paths.node_pins(host), NIC_PROGRAM, shared=shared_maps)
        with ExitStack() as created:
            chunks = create_memory(created, loaded.map_fd("memory"), clos.spec.nic.memory)
            for index, chunk in enumerate(chunks):
                pin(chunk, paths.node_pins(host) / chunk_pin(index))
        _load_reliable_connection(paths, clos, host, loaded)


def nic_map_entries(clos: Clos, probe_path_count: int) -> dict[str, int]:
    """Elements of the NIC's maps; maps not named stay as declared."""
    nic = clos.spec.nic
    return {
        "link_probe_paths": max(1, probe_path_count),
        "qps": nic.qps_max,
        "work_ring": nic.qps_max,
        "rtt_histogram": clos.spec.planes,
    }


def create_memory(created: ExitStack, memory: int, length_bytes: int) -> list[int]:
    """The chunks of a NIC's memory, where its programs find them.

    Args:
        created: closes their descriptors.
        memory: descriptor of the map that names them.
        length_bytes: of all of it.
    """
    chunks = []
    try:
        for segments in chunk_segments(length_bytes):
            chunks.append(create_chunk(segments))
            created.callback(os.close, chunks[-1])
        insert_chunks(memory, dict(enumerate(chunks)))
    except OSError as error:
        raise PreflightError(
            f"memory of a NIC: {error.strerror}", hint="make the lab or nic.memory smaller"
        ) from error
    return chunks


def fill_nic(maps: LoadedMaps, clos: Clos, host: Node) -> None:
    """Configures identity and initial state of a NIC."""
    map_update(maps.map_fd("nic_config"), c_uint32(0), nic_config(clos, host))
    control = MappedArray(maps.map_fd("nic_control"), NicControl)[0]
    control.heartbeat_limit_ns = AGENT_SILENCE_LIMIT_NS
    control.icrc_mode = IcrcMode.ON if clos.spec.nic.icrc == "on" else IcrcMode.OFF


def _load_reliable_connection(paths: LabPaths, clos: Clos, host: str, nic: BpfObject) -> None:
    """Loads the program of reliable connections, which works on the maps of *nic*, and has *nic* call it.

    The map that says so is pinned, which keeps the program alive.
    """
    shared = {name: nic.map_fd(name) for name in nic.map_names()}
    sizes = {"rc_qps": clos.spec.nic.qps_max}
    with load_object(
        paths, "rc.bpf.o", rodata=fabric_rodata(clos), max_entries=sizes, reuse=shared
    ) as loaded:
        pin_object(loaded, paths.node_pins(host), RC_PROGRAM, shared=shared)
        program_fd = loaded.program_fd(RC_PROGRAM)
        map_update(nic.map_fd("nic_transports"), c_uint32(_RC_PLACE), c_uint32(program_fd))


def fill_link_probes(maps: Mapping[str, Descriptor], probed: Sequence[ProbePath]) -> None:
    """Configures the NIC's probe paths, which it uses when its agent asks it to.

    Args:
        maps: descriptors of LINK_PROBE_MAPS, by name.
    """
    table = MappedArray(maps["link_probe_paths"], LinkProbePath)
    for entry, path in zip(table, probed, strict=False):  # a map has one entry at least
        entry.carrier_hi, entry.carrier_lo = divmod(int(path.carrier), 1 << 64)
        entry.plane = path.plane
    probing = MappedArray(maps["link_probing"], LinkProbing)[0]
    probing.path_count = len(probed)
    probing.lag_rounds = 1


def restore_nic(paths: LabPaths, clos: Clos, host: str) -> None:
    """Restores what a process in the host may have written over and its agent does not set: for a new agent.

    Faults stay: whether NICs check the iCRC now is what the other NICs do.
    """
    others = (node.name for node in clos.hosts() if node.name != host)
    modes = Counter(_icrc_mode(paths, other) for other in others)
    with ExitStack() as opened:
        maps = {
            name: open_pinned_in(opened, paths.node_pins(host), name)
            for name in ("nic_control", *LINK_PROBE_MAPS)
        }
        control = MappedArray(maps["nic_control"], NicControl)[0]
        control.port_up_mask = 0  # the agent finds out
        control.heartbeat_limit_ns = AGENT_SILENCE_LIMIT_NS
        control.heartbeat_ns = monotonic_ns()
        control.region_count = Limit.REGION_MAX  # wherever it has put keys, its agent removes them
        control.icrc_mode = modes.most_common(1)[0][0]
        fill_link_probes(maps, probe_paths(clos, clos.node(host).index))
        chunks = open_chunks(opened, paths.node_pins(host))
        memory = open_pinned_in(opened, paths.node_pins(host), "memory")
        insert_chunks(memory, dict(enumerate(chunks)))
        # what an agent before it has added was for programs that are gone with it
        remove_maps(memory, range(len(chunks), Limit.MEMORY_CHUNKS))
        remove_maps(open_pinned_in(opened, paths.node_pins(host), "channels"), range(Limit.CHANNELS))


@contextmanager
def _nic_control(paths: MapPins, host: str) -> Iterator[NicControl]:
    with ExitStack() as opened:
        yield MappedArray(open_map_in(opened, paths.node_pins(host), "nic_control"), NicControl)[0]


def _icrc_mode(paths: LabPaths, host: str) -> int:
    with _nic_control(paths, host) as control:
        return int(control.icrc_mode)


@contextmanager
def nic_program(paths: LabPaths, host: str) -> Iterator[int]:
    """Descriptor of the loaded NIC program of *host*."""
    with ExitStack() as opened:
        yield open_pinned_in(opened, paths.node_pins(host), NIC_PROGRAM)


def set_icrc(paths: MapPins, clos: Clos, *, is_on: bool) -> None:
    """Has all NICs of a live lab compute and check the iCRC from now on, or again as its spec says.

    Packets that left before are not refused: first every NIC sends it, then every NIC checks it, and
    the other way round. What is on a link in between is lost like any other packet.
    """
    wanted = IcrcMode.ON if is_on or clos.spec.nic.icrc == "on" else IcrcMode.OFF
    for mode in (IcrcMode.FILL, wanted):
        for host in clos.hosts():
            with _nic_control(paths, host.name) as control:
                control.icrc_mode = mode


def expect_heartbeat(paths: MapPins, host: str, *, is_expected: bool) -> None:
    """Lets the NIC of *host* count on the signs of life of its agent, from now on, or do without."""
    with _nic_control(paths, host) as control:
        control.heartbeat_ns = monotonic_ns()
        control.heartbeat_limit_ns = AGENT_SILENCE_LIMIT_NS if is_expected else 0


def nic_config(clos: Clos, host: Node) -> NicConfig:
    ports = [port.id for port in clos.ports_of(host)]
    absent = [Limit.PORT_NONE] * (Limit.PLANE_MAX - len(ports))
    return NicConfig(
        host_index=host.index,
        plane_count=clos.spec.planes,
        tiers=tier_sizes(clos),
        downlink=clos.numbering.downlink(host.index),
        udp_port=MRC_UDP_PORT,
        srv6_block=BLOCK,
        inner_prefix=INNER_PREFIX,
        port_id=(c_uint32 * Limit.PLANE_MAX)(*ports, *absent),
        pmtu_max=max(Limit.PMTU_MAX, clos.spec.nic.path_mtu),
    )
