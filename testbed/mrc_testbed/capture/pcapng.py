"""The pcapng file format, as far as a capture of a lab needs it: sections, interfaces, packets with comments.

    section header | interface block per port | packet block ... in time order

Little-endian, nanosecond times, Ethernet frames. Wireshark, tshark and tcpdump read it.

Source: IETF draft-ietf-opsawg-pcapng, sections 3 and 4.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

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


def section_header(application: str) -> bytes:
    """The block that a file begins with; *application* is what wrote it."""
    fixed = struct.pack("<IHHq", _BYTE_ORDER_MAGIC, *_VERSION, _LENGTH_UNKNOWN)
    return _block(_SECTION_HEADER, fixed, [(_SECTION_APPLICATION, application.encode())])


def interface_block(name: str, description: str, snap_bytes: int) -> bytes:
    """The next interface of the section; packets name interfaces by their position, from 0.

    Args:
        name: shown as the interface of a packet.
        description: what it is.
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
        octets: what was kept of the frame.
        frame_bytes: how long it was.
        comments: shown with the packet.
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
