"""The data plane of one NIC: program and maps, loaded and pinned from outside the host."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ctypes import c_uint32
from typing import Final

from agents.bpf.libbpf import BpfObject, open_pinned
from agents.bpf.maps import MappedArray, map_update
from agents.wire_abi import IcrcMode, Limit, LinkProbePath, LinkProbing, NicConfig
from testbed.fabric.data_plane import fabric_rodata, load_object, pin_object
from testbed.fabric.state import LabPaths
from testbed.topology.addressing import INNER_PREFIX
from testbed.topology.clos import Clos
from testbed.topology.element import Node
from testbed.topology.probe_path import ProbePath, probe_paths
from testbed.topology.usid import BLOCK

NIC_PROGRAM: Final = "nic"
RC_PROGRAM: Final = "rc"
STACK_PROGRAM: Final = "stack"
UDP_PORT: Final = 4791
_RC_PLACE: Final = 0  # NIC_TRANSPORT_RC of nic.bpf.c
AGENT_SILENCE_LIMIT_NS: Final = 10_000_000_000
"""An agent that gives no sign of life for so long is dead, however busy the machine: its QPs end."""


def load_nic(paths: LabPaths, clos: Clos, host: str, shared_maps: Mapping[str, int]) -> None:
    """Loads the NIC of *host*, tells it who it is, and pins it where its agent looks for it.

    Args:
        paths: of the lab.
        clos: of the lab.
        host: node name.
        shared_maps: descriptors of the fabric's maps, by name.

    Raises:
        PreflightError: the object is missing or the verifier refuses it.
    """
    nic = clos.spec.nic
    probed = probe_paths(clos, clos.node(host).index)
    sizes = {
        "link_probe_paths": max(1, len(probed)),
        "memory": nic.memory // Limit.MEMORY_SEGMENT,
        "qps": nic.qps_max,
        "work_ring": nic.qps_max,
        "streams": nic.qps_max,
        "rtt_histogram": clos.spec.planes,
    }
    with load_object(
        paths, "nic.bpf.o", rodata=fabric_rodata(clos), max_entries=sizes, reuse=shared_maps
    ) as loaded:
        config = MappedArray(loaded.map_fd("nic_config"), NicConfig)[0]
        _fill_config(config, clos, clos.node(host))
        fill_link_probes(loaded, probed)
        pin_object(loaded, paths.node_pins(host), NIC_PROGRAM, shared=shared_maps)
        _load_reliable_connection(paths, clos, host, loaded)
        _load_stack(paths, clos, host, loaded)


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


def _load_stack(paths: LabPaths, clos: Clos, host: str, nic: BpfObject) -> None:
    """Loads and pins the program that brings what the host's kernel sends to the NIC's ports."""
    shared = {name: nic.map_fd(name) for name in nic.map_names()}
    with load_object(paths, "stack.bpf.o", rodata=fabric_rodata(clos), reuse=shared) as loaded:
        pin_object(loaded, paths.node_pins(host), STACK_PROGRAM, shared=shared)


def fill_link_probes(loaded: BpfObject, probed: Sequence[ProbePath]) -> None:
    """Tells the NIC its probe paths, which it uses when its agent asks it to."""
    table = MappedArray(loaded.map_fd("link_probe_paths"), LinkProbePath)
    for entry, path in zip(table, probed, strict=False):  # a map has one entry at least
        entry.carrier_hi, entry.carrier_lo = divmod(int(path.carrier), 1 << 64)
        entry.plane = path.plane
    probing = MappedArray(loaded.map_fd("link_probing"), LinkProbing)[0]
    probing.path_count = len(probed)
    probing.lag_rounds = 1


@contextmanager
def nic_program(paths: LabPaths, host: str) -> Iterator[int]:
    """Descriptor of the loaded NIC program of *host*."""
    descriptor = open_pinned(paths.node_pins(host) / NIC_PROGRAM)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def set_icrc(paths: LabPaths, clos: Clos, *, is_on: bool) -> None:
    """Has all NICs of a live lab compute and check the iCRC from now on, or again as its spec says.

    Packets that left before are not refused: first every NIC sends it, then every NIC checks it, and
    the other way round. What is on a link in between is lost like any other packet.
    """
    wanted = IcrcMode.ON if is_on or clos.spec.nic.icrc == "on" else IcrcMode.OFF
    for mode in (IcrcMode.FILL, wanted):
        for host in clos.hosts():
            descriptor = open_pinned(paths.node_pins(host.name) / "nic_config")
            try:
                MappedArray(descriptor, NicConfig)[0].icrc_mode = mode
            finally:
                os.close(descriptor)


def expect_heartbeat(paths: LabPaths, host: str, *, is_expected: bool) -> None:
    """Lets the NIC of *host* count on the signs of life of its agent, from now on, or do without."""
    descriptor = open_pinned(paths.node_pins(host) / "nic_config")
    try:
        config = MappedArray(descriptor, NicConfig)[0]
        config.heartbeat_ns = time.monotonic_ns()
        config.heartbeat_limit_ns = AGENT_SILENCE_LIMIT_NS if is_expected else 0
    finally:
        os.close(descriptor)


def _fill_config(config: NicConfig, clos: Clos, host: Node) -> None:
    config.host_index = host.index
    config.plane_count = clos.spec.planes
    config.hosts_per_t0 = clos.spec.hosts_per_t0
    config.uplinks_per_pair = clos.spec.uplinks_per_pair
    config.uplink_count = clos.numbering.uplink_count
    config.downlink = clos.numbering.downlink(host.index)
    config.udp_port = UDP_PORT
    config.srv6_block = BLOCK
    config.inner_prefix = INNER_PREFIX
    config.heartbeat_limit_ns = AGENT_SILENCE_LIMIT_NS
    config.icrc_mode = IcrcMode.ON if clos.spec.nic.icrc == "on" else IcrcMode.OFF
    for plane, port in enumerate(clos.ports_of(host)):
        config.port_id[plane] = port.id
