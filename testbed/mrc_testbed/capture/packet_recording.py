"""A capture from begin to end: frames of a tap, written as pcapng until enough of them have come.

    section header | interface block per port | packet block ... in time order

Little-endian, nanosecond times, Ethernet frames. Source: IETF draft-ietf-opsawg-pcapng, sections 3 and 4.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Final

from mrc_agents.abi import PortCounter
from mrc_agents.clock import monotonic_ns
from mrc_testbed.capture.tap import Selection, Tap, TappedFrame
from mrc_testbed.fabric.fault_log import FaultLine, FaultLog

_SECTION_HEADER: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_PACKET: Final = 6
_BYTE_ORDER_MAGIC: Final = 0x1A2B3C4D
_VERSION: Final = (1, 0)
_LENGTH_UNKNOWN: Final = -1
_LINK_TYPE_ETHERNET: Final = 1
_NANOSECONDS: Final = b"\x09"

_OPTION_END: Final = 0
_OPTION_COMMENT: Final = 1
_INTERFACE_NAME: Final = 2
_INTERFACE_DESCRIPTION: Final = 3
_INTERFACE_RESOLUTION: Final = 9
_SECTION_APPLICATION: Final = 4
_PACKET_FLAGS: Final = 2
_INBOUND: Final = 1
_OUTBOUND: Final = 2

Option = tuple[int, bytes]

_APPLICATION: Final = "mrc-testbed capture"
_WAIT_NS: Final = 50_000_000
_VERDICTS: Final = {
    PortCounter.DROP_LINK_DOWN: "lost here: a fault holds the link down",
    PortCounter.DROP_LOSS: "lost here: a fault's random loss",
    PortCounter.DROP_QUEUE_FULL: "lost here: the port's queue was full",
    PortCounter.DROP_POOL_EMPTY: "lost here: the lab's frame pool was empty",
}


def section_header(application: str) -> bytes:
    """The block that a file begins with; *application* is what wrote it."""
    fixed = struct.pack("<IHHq", _BYTE_ORDER_MAGIC, *_VERSION, _LENGTH_UNKNOWN)
    return _block(_SECTION_HEADER, fixed, [(_SECTION_APPLICATION, application.encode())])


def interface_block(name: str, description: str, snap_bytes: int) -> bytes:
    """The next interface of the section; packets name interfaces by their position, from 0.

    Args:
        name: shown as the interface of a packet.
        snap_bytes: bytes kept of a frame at most; 0: all.
    """
    options = [
        (_INTERFACE_NAME, name.encode()),
        (_INTERFACE_DESCRIPTION, description.encode()),
        (_INTERFACE_RESOLUTION, _NANOSECONDS),
    ]
    return _block(_INTERFACE, struct.pack("<HHI", _LINK_TYPE_ETHERNET, 0, snap_bytes), options)


def packet_block(
    interface: int,
    time_ns: int,
    octets: bytes,
    frame_bytes: int,
    comments: Sequence[str] = (),
    *,
    is_outbound: bool | None = None,
) -> bytes:
    """One packet.

    Args:
        interface: position of its interface in the section.
        time_ns: since the Unix epoch.
        is_outbound: whether the interface sent it; None: not known.
    """
    fixed = struct.pack("<IIIII", interface, time_ns >> 32, time_ns & 0xFFFF_FFFF, len(octets), frame_bytes)
    options = [(_OPTION_COMMENT, comment.encode()) for comment in comments]
    if is_outbound is not None:
        options.append((_PACKET_FLAGS, struct.pack("<I", _OUTBOUND if is_outbound else _INBOUND)))
    return _block(_PACKET, fixed + _padded(octets), options)


def _block(kind: int, body: bytes, options: Iterable[Option]) -> bytes:
    encoded = b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options)
    if encoded:
        encoded += struct.pack("<HH", _OPTION_END, 0)
    length_bytes = 12 + len(body) + len(encoded)
    return struct.pack("<II", kind, length_bytes) + body + encoded + struct.pack("<I", length_bytes)


def _padded(octets: bytes) -> bytes:
    return octets + bytes(-len(octets) % 4)


@dataclass
class CaptureCount:
    frames: int = 0  # packets in the file
    lost_on_the_way: int = 0  # of them, those that faults or full queues took
    missed: int = 0  # frames that are not in the file because they came too fast


class PacketRecording:
    """Writes what a tap hands out. Where a fault begins or ends, the next packet has a comment that says so.

    Args:
        snap_bytes: kept of each frame at most.
        faults: the lab's log of faults.
    """

    def __init__(
        self, tap: Tap, selection: Selection, file: IO[bytes], snap_bytes: int, faults: FaultLog
    ) -> None:
        self.count = CaptureCount()  # what has been written so far
        self._is_stopped = False
        self._tap = tap
        self._selection = selection
        self._file = file
        self._faults = faults
        faults.new_lines()  # of the time before
        self._comments = deque(
            FaultLine(window.start_ns, f"fault {window.fault_id} ({window.kind}) acts already")
            for window in faults.windows
            if window.end_ns is None
        )
        file.write(section_header(_APPLICATION))
        for port in selection.ports:
            description = f"port {port.id} of {port.node.name}, plane {port.plane}"
            file.write(interface_block(port.name, description, snap_bytes))
        file.flush()

    def run(self, *, frames_max: int | None = None, duration_ns: int | None = None) -> None:
        """Records until *frames_max* frames are written, *duration_ns* is over, or `stop` is called."""
        ends_ns = None if duration_ns is None else monotonic_ns() + duration_ns
        while not self._is_stopped and (frames_max is None or self.count.frames < frames_max):
            left_ns = _WAIT_NS if ends_ns is None else min(_WAIT_NS, ends_ns - monotonic_ns())
            if left_ns <= 0:
                break
            self._write(self._tap.read(left_ns), frames_max)

    def stop(self) -> None:
        """Makes `run` return soon; may be called by a signal handler."""
        self._is_stopped = True

    def finish(self, *, frames_max: int | None = None) -> None:
        """Switches the tap off and writes what it still has."""
        self._tap.stop()
        self._write(self._tap.rest(), frames_max)
        self.count.missed = self._tap.lost_frames

    def _write(self, frames: Iterator[TappedFrame], frames_max: int | None) -> None:
        self._comments.extend(self._faults.new_lines())
        left = None if frames_max is None else frames_max - self.count.frames
        for frame in islice(frames, left):
            self.count.frames += 1
            self.count.lost_on_the_way += frame.was_lost
            self._file.write(self._block(frame))
        self._file.flush()

    def _block(self, frame: TappedFrame) -> bytes:
        position = self._selection.shown_at[frame.port_id]
        comments = []
        while self._comments and self._comments[0].time_ns <= frame.time_ns - self._tap.epoch_ns:
            comments.append(self._comments.popleft().text)
        if frame.was_lost:
            comments.append(_VERDICTS.get(frame.verdict, f"lost here: {frame.verdict.name}"))
        return packet_block(
            position,
            frame.time_ns,
            frame.octets,
            frame.frame_bytes,
            comments,
            is_outbound=self._selection.is_outbound(frame.port_id),
        )


DISSECTOR: Final = Path(__file__).with_name("mrc.lua")


def tshark_arguments(forwarding: str = "srv6") -> list[str]:
    """Arguments that make tshark (or wireshark) understand MRC.

    UDP checksums are 0 on purpose (docs/reference/protocol.md, "Packet stack"), which is no error here.

    Args:
        forwarding: mode of the fabric, which decides what the parts of an EV are.
    """
    preferences = ("udp.ignore_ipv6_zero_checksum:TRUE", f"mrc.forwarding:{forwarding}")
    arguments = ["-X", f"lua_script:{DISSECTOR}"]
    for preference in preferences:
        arguments += ["-o", preference]
    return arguments
