"""Tries the data plane out in a namespace of its own that nobody else can see: veth, native XDP, the
verifier.
"""

import tempfile
from pathlib import Path

from agents.bpf.libbpf import attach_xdp
from testbed.fabric.data_plane import FORWARD_PROGRAM, load_object
from testbed.fabric.namespace import unnamed_namespace
from testbed.fabric.netlink import RouteSocket, VethEnd, create_veth, mac_bytes
from testbed.fabric.state import LabPaths
from testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex, mac


def check_data_plane() -> None:
    """Loads the switch program and attaches it to a veth pair, then forgets both.

    Raises:
        PreflightError: the verifier refuses the program.
        FabricError: no veth pair can be made, or it takes no native XDP.
    """
    with unnamed_namespace() as namespace_fd, tempfile.TemporaryDirectory() as folder:
        near, far = (
            VethEnd(namespace_fd, f"trial{port_id}", ifindex(port_id), mac_bytes(mac(port_id)))
            for port_id in range(2)
        )
        with RouteSocket() as route:
            route.perform([create_veth("of the trial", near, far, INTERFACE_MTU_BYTES)])
        paths = LabPaths(Path(folder), "trial")
        with load_object(paths, "forward.bpf.o") as loaded:
            for end in (near, far):
                attach_xdp(end.ifindex, loaded.program_fd(FORWARD_PROGRAM))
