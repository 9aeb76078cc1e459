"""The forwarding table of a live switch, taken away and given back."""

import os
from ctypes import c_uint32

from agents.bpf.libbpf import open_pinned
from agents.bpf.maps import map_update
from testbed.fabric.state import LabPaths
from testbed.topology.clos import Clos
from testbed.topology.element import Node
from testbed.topology.forwarding import FIB_NONE, FIB_STRIDE


def write_routes(paths: LabPaths, clos: Clos, switch: Node, *, is_present: bool) -> None:
    """Gives a switch the table that the topology wants, or leaves it none; frames meet it at once.

    Raises:
        FabricError: the lab's maps cannot be opened or written.
        UsageError: the node is a host.
    """
    descriptor = open_pinned(paths.fabric_pins / "fib")
    try:
        for entry in clos.fib_entries(switch):
            value = entry.value if is_present else FIB_NONE
            map_update(descriptor, c_uint32(switch.id * FIB_STRIDE + entry.key), c_uint32(value))
    finally:
        os.close(descriptor)
