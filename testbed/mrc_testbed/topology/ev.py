"""The entropy value of a packet: which plane, which uplink, and which of several EVs on that path.

    31 .. 28 | 27 ......... 16 | 15 ........... 0
    plane    | uplink          | copy

On the wire its low half is the UDP source port and its high half the low 16 bits of the flow label; the
responder reflects all 32 bits. With structured EVs the upper half of `copy` is the lane that a T1 takes among
parallel links; where switches hash (ECMP), only the plane means anything, and the rest is random. Copies let
several EVs share one path, as they must where the paths are fewer than the EVs: in a small fabric, and always
between two hosts of one T0, where the uplink is 0.
"""

from typing import Final, NamedTuple

PLANE_SHIFT: Final = 28
UPLINK_SHIFT: Final = 16
UPLINK_MASK: Final = 0xFFF
COPY_MASK: Final = 0xFFFF
LANE_SHIFT: Final = 8
LANE_MASK: Final = 0xFF
STEV_COPY_MASK: Final = 0xFF
HASHED_MASK: Final = (1 << PLANE_SHIFT) - 1

_HALF_BITS: Final = 16
_HALF_MASK: Final = (1 << _HALF_BITS) - 1


class Ev(NamedTuple):
    """A decoded entropy value."""

    plane: int  # 0 to 15
    uplink: int  # uplink number at the source T0, 0 to 4095; 0 if source and destination share their T0s
    copy: int = 0  # 0 to 65535

    @property
    def value(self) -> int:
        """The 32 bits on the wire; fields are taken to be in range."""
        return self.plane << PLANE_SHIFT | self.uplink << UPLINK_SHIFT | self.copy


def decode_ev(entropy: int) -> Ev:
    """Inverse of `Ev.value`, for any 32 bits."""
    return Ev(entropy >> PLANE_SHIFT, entropy >> UPLINK_SHIFT & UPLINK_MASK, entropy & COPY_MASK)


def ev_lane(entropy: int) -> int:
    """The lane that a structured EV names, 0 to 255."""
    return entropy >> LANE_SHIFT & LANE_MASK


def stev_value(plane: int, uplink: int, lane: int, copy: int) -> int:
    """The structured EV of a path: *uplink* at the T0, *lane* at the T1; *copy* is 0 to 255."""
    return Ev(plane, uplink, lane << LANE_SHIFT | copy).value


def ev_source_port(entropy: int) -> int:
    """UDP source port of a packet that carries an EV."""
    return entropy & _HALF_MASK


def ev_flow_label(entropy: int) -> int:
    return entropy >> _HALF_BITS


def ev_parts(entropy: int, forwarding: str) -> dict[str, int]:
    """The parts of the 32 bits of an EV, by name, in a fabric of that forwarding mode.

    Source: docs/reference/protocol.md, "EV format".
    """
    ev = decode_ev(entropy)
    if forwarding == "ecmp":
        return {"plane": ev.plane, "hashed": entropy & HASHED_MASK}
    if forwarding == "stev":
        lane, copy = ev_lane(entropy), ev.copy & STEV_COPY_MASK
        return {"plane": ev.plane, "uplink": ev.uplink, "lane": lane, "copy": copy}
    return ev._asdict()
