"""The data plane of one NIC: program and maps, loaded and pinned from outside the host."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from agents.bpf.libbpf import open_pinned
from agents.bpf.maps import MappedArray
from agents.wire_abi import Limit, NicConfig
from testbed.fabric.data_plane import load_object, pin_object
from testbed.fabric.state import LabPaths
from testbed.topology.addressing import INNER_PREFIX
from testbed.topology.clos import Clos
from testbed.topology.element import Node
from testbed.topology.usid import BLOCK

NIC_PROGRAM: Final = "nic"
UDP_PORT: Final = 4791


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
    sizes = {
        "memory": nic.memory // Limit.MEMORY_SEGMENT,
        "qps": nic.qps_max,
        "work_ring": nic.qps_max,
        "rtt_histogram": clos.spec.planes,
    }
    with load_object(paths, "nic.bpf.o", max_entries=sizes, reuse=shared_maps) as loaded:
        config = MappedArray(loaded.map_fd("nic_config"), NicConfig)[0]
        _fill_config(config, clos, clos.node(host))
        pin_object(loaded, paths.node_pins(host), NIC_PROGRAM, shared=shared_maps)


@contextmanager
def nic_program(paths: LabPaths, host: str) -> Iterator[int]:
    """Descriptor of the loaded NIC program of *host*."""
    descriptor = open_pinned(paths.node_pins(host) / NIC_PROGRAM)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _fill_config(config: NicConfig, clos: Clos, host: Node) -> None:
    config.host_index = host.index
    config.plane_count = clos.spec.planes
    config.hosts_per_t0 = clos.spec.hosts_per_t0
    config.uplinks_per_pair = clos.spec.uplinks_per_pair
    config.downlink = clos.numbering.downlink(host.index)
    config.udp_port = UDP_PORT
    config.srv6_block = BLOCK
    config.inner_prefix = INNER_PREFIX
    for plane, port in enumerate(clos.ports_of(host)):
        config.port_id[plane] = port.id
