"""Tries the data plane out in a namespace of its own that nobody else can see: veth, native XDP, and the
verifier's word on every program.
"""

from typing import Final

from mrc_agents.bpf.libbpf import attach_xdp
from mrc_testbed.fabric.data_plane import fabric_rodata, forward_program, load_forward, load_object
from mrc_testbed.fabric.namespace import unnamed_namespace
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, create_veth, mac_bytes
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.root import state_root
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex, mac
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

PROGRAM_OBJECTS: Final = (
    "forward.bpf.o",
    "emit.bpf.o",
    "nic.bpf.o",
    "rc.bpf.o",
    "load.bpf.o",
)
"""Programs that labs and faults of this machine load, the switch first."""

_SPECS: Final = (TopologySpec(), TopologySpec(port_rate=100_000_000))


def check_data_plane() -> None:
    """Loads every program, as labs without and with a port rate do, and attaches the switch to a veth pair;
    then forgets them.
    """
    root = state_root()
    root.mkdir(parents=True, exist_ok=True)
    paths = LabPaths(root, "doctor")
    for spec in _SPECS:
        clos = resolve_topology(spec)
        rodata = fabric_rodata(clos)
        for name in PROGRAM_OBJECTS[1:]:
            load_object(paths, name, rodata=rodata).close()
        with load_forward(paths, clos) as loaded:
            _attach(loaded.program_fd(forward_program(clos)))


def _attach(program_fd: int) -> None:
    with unnamed_namespace() as namespace_fd:
        near, far = (
            VethEnd(namespace_fd, f"trial{port_id}", ifindex(port_id), mac_bytes(mac(port_id)))
            for port_id in range(2)
        )
        with RouteSocket() as route:
            route.perform([create_veth("of the trial", near, far, INTERFACE_MTU_BYTES)])
        for end in (near, far):
            attach_xdp(end.ifindex, program_fd)
