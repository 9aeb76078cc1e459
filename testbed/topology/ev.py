"""The entropy value of a packet: which plane, which uplink, and which of several EVs on that path.

    31 .. 28 | 27 ......... 16 | 15 ........... 0
    plane    | uplink          | copy

On the wire its low half is the UDP source port and its high half the low 16 bits of the flow label; the
responder reflects all 32 bits. Copies let several EVs share one path, as they must where the paths are fewer
than the EVs: in a small fabric, and always between two hosts of one T0, where the uplink is 0.
"""

from typing import Final, NamedTuple

PLANE_SHIFT: Final = 28
UPLINK_SHIFT: Final = 16
UPLINK_MASK: Final = 0xFFF
COPY_MASK: Final = 0xFFFF


class Ev(NamedTuple):
    """A decoded entropy value.

    Attributes:
        plane: 0 to 15.
        uplink: uplink number at the source T0, 0 to 4095; 0 if source and destination share their T0s.
        copy: 0 to 65535.
    """

    plane: int
    uplink: int
    copy: int = 0

    @property
    def value(self) -> int:
        """The 32 bits on the wire; fields are taken to be in range."""
        return self.plane << PLANE_SHIFT | self.uplink << UPLINK_SHIFT | self.copy


def decode_ev(entropy: int) -> Ev:
    """Inverse of `Ev.value`, for any 32 bits."""
    return Ev(entropy >> PLANE_SHIFT, entropy >> UPLINK_SHIFT & UPLINK_MASK, entropy & COPY_MASK)
