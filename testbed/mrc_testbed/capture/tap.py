"""The tap: switches the data plane's copying of frames on, and reads the copies in order of time.

    mrc_port.capture_bytes of each port  ->  programs copy frames  ->  ring in capture_rings[0]  ->  read()

The ring exists only while a tap does. A tap that is closed clears the ports and takes the ring away. One
that is killed leaves both: frames are then copied until the ring is full and counted as lost from there on,
which costs a little and harms nothing; the next tap of the lab, or `down`, clears it. A lock that the kernel
releases keeps taps of one lab apart. Which ports a capture is about, and on whose side each frame is shown:

    selected            captured egress ports             shown as
    h0:2                h0:2                               sent by h0:2
                        p2-t0-0:0, its far end             received by h0:2
    both ends           both                               sent, each by its own end

So every frame appears once, however many ports are selected.
"""

import ctypes
import heapq
import os
import select
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from ctypes import c_uint32
from dataclasses import dataclass
from functools import partial
from typing import Final

from mrc_agents.abi import CaptureRecord, CaptureState, Limit, PortCounter
from mrc_agents.bpf.libbpf import open_pinned_in
from mrc_agents.bpf.maps import MappedArray, RingBuffer, create_ring, map_delete, map_update
from mrc_agents.clock import epoch_ns, monotonic_ns
from mrc_agents.closing import Holder
from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port


@dataclass(frozen=True, slots=True)
class Selection:
    ports: tuple[Port, ...]  # those selected, in the order of their ids: the interfaces of the file
    # by id of an egress port whose frames are captured, the position in `ports` they belong to
    shown_at: dict[int, int]

    def is_outbound(self, egress_id: int) -> bool:
        """Return True if frames that leave by *egress_id* are sent, not received, by the port shown."""
        return self.ports[self.shown_at[egress_id]].id == egress_id


def select_ports(clos: Clos, places: Sequence[str], plane: int | None = None) -> Selection:
    """The ports that *places* name: `h0` all ports of a node, `p0-t0-0:4` one port; none: all of the lab.

    Args:
        places: names of nodes and ports.
    """
    if plane is not None and not 0 <= plane < clos.spec.planes:
        raise UsageError(f"there is no plane {plane}: the lab has planes 0 to {clos.spec.planes - 1}")
    found = {port.id: port for port in _named_ports(clos, places) if plane in {None, port.plane}}
    if not found:
        raise UsageError(f"{', '.join(places)} has no port in plane {plane}")
    ports = tuple(found[port_id] for port_id in sorted(found))
    shown_at = {port.peer_id: position for position, port in enumerate(ports)}
    shown_at |= {port.id: position for position, port in enumerate(ports)}
    return Selection(ports, shown_at)


def _named_ports(clos: Clos, places: Sequence[str]) -> Iterable[Port]:
    if not places:
        yield from clos.ports()
    for place in places:
        if ":" in place:
            yield clos.port(place)
        else:
            yield from clos.ports_of(clos.node(place))


SNAP_BYTES_MAX: Final = int(Limit.FRAME_BYTES_MAX)

_RING_BYTES: Final = 32 << 20
_HEADER_BYTES: Final = ctypes.sizeof(CaptureRecord) - SNAP_BYTES_MAX
_READ_FRAMES: Final = 4096
_HOLD_NS: Final = 50_000_000
"""Time by which a record may follow younger ones: CPUs share the ring, shaped ports run on model time."""


@dataclass(frozen=True, slots=True, order=True)
class TappedFrame:
    """A frame as it left a port, or was lost there."""

    time_ns: int  # since the Unix epoch; on a shaped port when it reaches the far end of the link
    port_id: int  # the egress port
    verdict: PortCounter  # PortCounter.TX_PACKETS, or the drop it was counted as
    frame_bytes: int  # its length
    octets: bytes  # what was kept of it

    @property
    def was_lost(self) -> bool:
        """Return True if it never reached the far end."""
        return self.verdict is not PortCounter.TX_PACKETS


class Tap(Holder):
    """Copies of the frames at some ports of a live lab; a context manager.

    Args:
        snap_bytes: kept of each frame at most.
    """

    def __init__(self, lab: Lab, selection: Selection, snap_bytes: int = SNAP_BYTES_MAX) -> None:
        self._ports = lab.port_table
        self._lab_file = lab.paths.state_file
        self._waiting: list[tuple[int, int, TappedFrame]] = []
        self._count = 0
        # added to a time of CLOCK_MONOTONIC, it makes one since the Unix epoch
        self.epoch_ns = epoch_ns() - monotonic_ns()
        with ExitStack() as opened:
            opened.enter_context(exclusive(lab.paths.folder / "capture.lock", "capture"))
            descriptor = partial(open_pinned_in, opened, lab.paths.fabric_pins)
            self._state = MappedArray(descriptor("capture_state"), CaptureState)[0]
            rings = descriptor("capture_rings")
            self._clear()
            ring = create_ring("capture_ring", _RING_BYTES)
            opened.callback(os.close, ring)
            self._ring = RingBuffer(ring)
            opened.callback(self._ring.close)
            self._state.lost_frames = 0
            map_update(rings, c_uint32(0), c_uint32(ring))
            opened.callback(map_delete, rings, c_uint32(0))
            opened.callback(self._clear)
            for port_id in selection.shown_at:
                self._ports[port_id].capture_bytes = snap_bytes
            self._opened = opened.pop_all()

    @property
    def lost_frames(self) -> int:
        """Frames that found the ring full, so far."""
        return int(self._state.lost_frames)

    def stop(self) -> None:
        """No more frames are copied; those that were can still be read."""
        self._clear()

    def read(self, timeout_ns: int) -> Iterator[TappedFrame]:
        """Yield the frames that are due, in order of time, after at most *timeout_ns* of waiting for some."""
        if not self._lab_file.exists():
            raise FabricError("the lab was taken down")
        if not self._waiting or self._waiting[0][0] > self._due_ns():
            select.select([self._ring], [], [], timeout_ns / 1e9)
        self._take(_READ_FRAMES)
        yield from self._ready(self._due_ns())

    def rest(self) -> Iterator[TappedFrame]:
        """All frames that are left, in order of time; call `stop` before."""
        self._take()
        yield from self._ready(None)

    def _due_ns(self) -> int:
        return monotonic_ns() + self.epoch_ns - _HOLD_NS

    def _take(self, limit: int | None = None) -> None:
        for octets in self._ring.drain(limit):
            record = CaptureRecord.from_buffer_copy(octets.ljust(ctypes.sizeof(CaptureRecord), b"\0"))
            frame = TappedFrame(
                record.time_ns + self.epoch_ns,
                record.port_id,
                PortCounter(record.verdict),
                record.frame_bytes,
                octets[_HEADER_BYTES : _HEADER_BYTES + record.kept_bytes],
            )
            self._count += 1
            heapq.heappush(self._waiting, (frame.time_ns, self._count, frame))

    def _ready(self, until_ns: int | None) -> Iterator[TappedFrame]:
        while self._waiting and (until_ns is None or self._waiting[0][0] <= until_ns):
            yield heapq.heappop(self._waiting)[2]

    def _clear(self) -> None:
        for port in self._ports:
            port.capture_bytes = 0
