"""The forwarding table of a live switch, taken away and given back."""

from contextlib import ExitStack
from ctypes import c_uint32

from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import map_update
from mrc_testbed.fabric.paths import MapPins
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.forwarding import FIB_NONE, FIB_STRIDE, fib_entries


def write_routes(paths: MapPins, clos: Clos, switch: Node, *, is_present: bool) -> None:
    """Write the table that the topology wants of a switch, or an empty one; it acts on the next frame."""
    with ExitStack() as opened:
        fib = open_map_in(opened, paths.fabric_pins, "fib")
        for entry in fib_entries(clos, switch):
            value = entry.value if is_present else FIB_NONE
            map_update(fib, c_uint32(switch.id * FIB_STRIDE + entry.key), c_uint32(value))
