"""Observations of flow control in a live lab: pauses, stalls, buffers, deadlocks. Changes nothing.

Every attribute of a link belongs to the port that sends into it: the port is paused, or waits for credit; the
switch at the other end sent the pauses, and its buffer fills.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import sizeof
from dataclasses import dataclass
from functools import partial

from mrc_agents.abi import (
    FlowControl,
    LosslessLink,
    LosslessSettings,
    QueueDescriptor,
    QueuePort,
    TrafficClass,
)
from mrc_agents.bpf.libbpf import Pins, open_map_in
from mrc_agents.bpf.maps import ArrayMap, Descriptor, MappedArray, MappedMemory
from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.deadlock import Deadlock, HeldPort, find_deadlock
from mrc_testbed.topology.clos import Clos


@dataclass(frozen=True, slots=True)
class LinkFlow:
    """Flow control of one link, one way, since the lab was made."""

    # pauses, resumes: PFC frames that the far end sent
    pauses: int
    resumes: int
    paused_ns: int  # how long the sender was paused, by PFC
    stalls: int  # times that data waited because the far end did not let it go
    stalled_ns: int  # how long it did
    is_stalled: bool  # whether it does now
    buffered_bytes: int  # data that came by the link and waits at the far end; with credits, what they cover


class LosslessReader:
    """The maps of flow control of one lab.

    Args:
        far_ports: by the id of every port that sends to a switch, the ports of that switch.
        map_fd: descriptor of a map by its name; this object does not close it.
    """

    def __init__(self, far_ports: Mapping[int, Sequence[int]], map_fd: Callable[[str], Descriptor]) -> None:
        self._far_ports = far_ports
        self._settings = list(MappedArray(map_fd("lossless_settings"), LosslessSettings))
        self._links = list(MappedArray(map_fd("lossless_links"), LosslessLink))
        self._descriptors = MappedMemory(map_fd("queue_descriptors"))  # virtual time has more of them
        self._queues = ArrayMap(map_fd("queue_ports"), QueuePort, locked=True)
        self._latest = [LinkFlow(0, 0, 0, 0, 0, is_stalled=False, buffered_bytes=0)] * len(self._links)

    def links(self) -> list[LinkFlow]:
        """By the id of the sending port. Times that go on never step back, even where the model is late."""
        now_ns = monotonic_ns()
        self._latest = [
            LinkFlow(
                pauses=link.pause_frames,
                resumes=link.resume_frames,
                paused_ns=max(before.paused_ns, link.paused_ns + _since(link.paused_since_ns, now_ns)),
                stalls=link.blocks,
                stalled_ns=max(before.stalled_ns, link.blocked_ns + _since(link.blocked_since_ns, now_ns)),
                is_stalled=bool(link.blocked_since_ns),
                buffered_bytes=max(0, link.buffered_bytes, link.used_bytes),
            )
            for before, link in zip(self._latest, self._links, strict=True)
        ]
        return self._latest

    def deadlock(self) -> Deadlock | None:
        """The ports that will never send data again; None while all can go on."""
        candidates = [
            port_id for port_id, link in enumerate(self._links) if self._may_be_stuck(port_id, link)
        ]
        if not candidates:
            return None
        since = {port_id: self._links[port_id].blocked_since_ns for port_id in candidates}
        waiting = {port_id: self._waiting_bytes(port_id) for port_id in candidates}
        held = {
            port_id: HeldPort(
                since[port_id],
                {
                    other: waiting[other].get(port_id, 0)
                    for other in self._far_ports[port_id]
                    if other in waiting
                },
                self._enough_bytes(port_id),
            )
            for port_id in candidates
        }
        found = find_deadlock(held)
        if found is None:
            return None
        was_held = all(self._links[port_id].blocked_since_ns == since[port_id] for port_id in found.port_ids)
        return found if was_held else None  # one that is real is still there at the next look

    def _may_be_stuck(self, port_id: int, link: LosslessLink) -> bool:
        if not link.blocked_since_ns or link.is_forced or port_id not in self._far_ports:
            return False
        return self._settings[port_id].flow_control == FlowControl.CREDITS or bool(link.is_pause_sent)

    def _enough_bytes(self, port_id: int) -> int:
        settings = self._settings[port_id]
        if settings.flow_control == FlowControl.PFC:
            return int(settings.xon_bytes)
        first = next(self._waiting(port_id), None)
        return int(settings.buffer_bytes) - (first[1] if first else 0)

    def _waiting_bytes(self, port_id: int) -> dict[int, int]:
        """Data that waits at a port, by the port that sent it there."""
        sums: dict[int, int] = {}
        for upstream, length_bytes in self._waiting(port_id):
            sums[upstream] = sums.get(upstream, 0) + length_bytes
        return sums

    def _waiting(self, port_id: int) -> Iterator[tuple[int, int]]:
        """(sending port, bytes) of each data frame that waits at a port; -1 for frames that begin there."""
        next_id = self._queues.read(port_id).head[TrafficClass.DATA]
        for _ in range(self._descriptors.length_bytes // sizeof(QueueDescriptor)):
            if not next_id:
                return
            entry = QueueDescriptor.from_buffer(
                self._descriptors.view, (next_id - 1) * sizeof(QueueDescriptor)
            )
            yield entry.upstream - 1, entry.length_bytes
            next_id = entry.next


@contextmanager
def opened_lossless(clos: Clos, fabric_pins: Pins) -> Iterator[LosslessReader]:
    """The reader of a live lab with flow control."""
    with ExitStack() as stack:
        far_ports = {
            port.id: [other.id for other in clos.ports_of(clos.peer(port).node)]
            for port in clos.ports()
            if clos.peer(port).node.is_switch
        }
        yield LosslessReader(far_ports, partial(open_map_in, stack, fabric_pins))


def _since(start_ns: int, now_ns: int) -> int:
    """Time since something began that may lie a moment ahead; 0 for 0."""
    return max(0, now_ns - start_ns) if start_ns else 0
