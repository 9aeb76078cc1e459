"""BPF programs with ports in a network namespace of their own, run frame by frame.

A frame that comes in is run with the ifindex of its port; what a program redirects goes nowhere.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from ctypes import c_uint32
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Self

from mrc_agents.abi import FrameTime, PortCounters
from mrc_agents.bpf.libbpf import BpfObject, attach_xdp, run_once
from mrc_agents.bpf.maps import PerCpuArray, map_update
from mrc_testbed.fabric.link import silence_interfaces
from mrc_testbed.fabric.namespace import unnamed_namespace
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, create_veth, set_link_up
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex

OBJECTS: Final = Path(__file__).parents[2] / "agents/mrc_agents" / "_objects"
FRAME_TIME_MAGIC: Final = int.from_bytes(b"mrct", "big")

End = tuple[int, bytes]
"""Port id and MAC address of an end of a link."""


class Verdict(IntEnum):
    """enum xdp_action."""

    ABORTED = 0
    DROP = 1
    PASS = 2
    TX = 3
    REDIRECT = 4


class ProgramBench:
    """The program that `open` loads, to be entered as a context by one thread."""

    _program_fd: int

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._namespace_fd = undo.enter_context(unnamed_namespace())
            silence_interfaces()  # a frame of the kernel's own would be counted
            self.open(undo)
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def open(self, undo: ExitStack) -> None:
        """Loads the program, fills its maps and creates its links."""
        raise NotImplementedError

    def load(self, undo: ExitStack, name: str, program: str, **options: Any) -> None:
        """Loads *program* of the object *name*, with the options of BpfObject."""
        self.loaded = undo.enter_context(BpfObject(OBJECTS / name, programs=[program], **options))
        self._program_fd = self.loaded.program_fd(program)
        self.port_counters = PerCpuArray(self.map_fd("port_counters"), PortCounters)

    def map_fd(self, name: str) -> int:
        return self.loaded.map_fd(name)

    def create_links(self, links: Iterable[Sequence[End]], *, has_both_ends: bool = False) -> None:
        """Creates links whose first end, or both, are ports of the program."""
        with RouteSocket() as route:
            for link in links:
                near, far = (VethEnd(self._namespace_fd, f"port{i}", ifindex(i), mac) for i, mac in link)
                route.perform([create_veth(near.interface, near, far, INTERFACE_MTU_BYTES)])
                for port_id, _ in link[: 1 + has_both_ends]:
                    route.perform([set_link_up(f"port{port_id}", ifindex(port_id), is_up=True)])
                    attach_xdp(ifindex(port_id), self._program_fd)
                    map_update(self.map_fd("port_devmap"), c_uint32(port_id), c_uint32(ifindex(port_id)))

    def run(
        self, frame: bytes, port_id: int | None = None, arrival_ns: int | None = None, credit_bytes: int = 0
    ) -> tuple[Verdict, bytes]:
        """The verdict on *frame*, and the frame then.

        Args:
            frame: comes in.
            port_id: it comes through; None: loopback, as what an agent sends does.
            arrival_ns: in the model, of a frame from a shaped link.
            credit_bytes: it bears.
        """
        metadata = b""
        if arrival_ns is not None:
            metadata = bytes(FrameTime(arrival_ns, FRAME_TIME_MAGIC, credit_bytes))
        ingress = 0 if port_id is None else ifindex(port_id)
        verdict, left = run_once(self._program_fd, frame, ingress_ifindex=ingress, metadata=metadata)
        return Verdict(verdict), left
