"""The identity of a NIC, and of its ports, is not for a process inside its node to change (SECURITY.md)."""

import mmap
import os
from collections.abc import Iterator
from contextlib import closing
from ctypes import c_uint32

import pytest

from mrc_agents.abi import EvLayout, Limit, NicConfig, PortCounter
from mrc_agents.bpf.libbpf import open_pinned
from mrc_agents.bpf.maps import map_update
from mrc_agents.nic.device import NicDevice
from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.live import Lab


@pytest.fixture
def identity(live: Lab) -> Iterator[int]:
    """Descriptor of the identity of h1's NIC, opened as its node opens it."""
    descriptor = open_pinned(live.paths.node_pins("h1") / "nic_config")
    yield descriptor
    os.close(descriptor)


def test_identity_is_not_written_by_system_call(live: Lab, identity: int) -> None:
    other = NicConfig(host_index=0, plane_count=4)
    with pytest.raises(FabricError, match="Operation not permitted"):
        map_update(identity, c_uint32(0), other)
    with closing(NicDevice(live.paths.node_pins("h1"))) as device:
        assert device.config.host_index == live.clos.node("h1").index


def test_identity_is_not_mapped_for_writing(identity: int) -> None:
    with pytest.raises(OSError, match=r"Invalid argument|not permitted|not supported|denied"):
        mmap.mmap(identity, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


def test_nic_has_no_port_on_a_plane_that_the_lab_lacks(live: Lab) -> None:
    """Planes come from EVs, which user space writes: one too high must not lead to another host's port."""
    device = NicDevice(live.paths.node_pins("h1"))
    with closing(device):
        assert set(device.config.port_id[live.spec.planes :]) == {Limit.PORT_NONE}
        before = [live.port_counters.sum(port.id) for port in live.clos.ports()]
        probes_before = device.counters()["tx_probe"]
        device.send_path_probes(0, [plane << EvLayout.PLANE_SHIFT for plane in range(live.spec.planes, 16)])
        sent = [
            live.port_counters.sum(port.id)[PortCounter.TX_PACKETS] - counts[PortCounter.TX_PACKETS]
            for port, counts in zip(live.clos.ports(), before, strict=True)
        ]
        assert sent == [0] * len(sent)
        assert device.counters()["tx_probe"] == probes_before
