"""Which of several equal links an adaptive switch takes for a packet: that with the least to send.

What counts at a port is what it has to send at the arrival of the packet, in bytes: what waits, in both
classes, and what is left of the frame being sent. With credits it is the data that waits and the credit that
has not come back: the port with the most credit is loaded least. A port that PFC or a pause storm holds is
taken only if all are held. Links that are down are not taken; a switch sees its own links and nothing behind.

Source: docs/reference/protocol.md, "Forwarding modes"; mrc_agents/switch/bpf/forward_adaptive.h is its twin.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_HELD_BYTES: Final = 1 << 30
_AWAY_NS_MAX: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class UplinkLoad:
    """The load of a port, as it was when it was looked at last."""

    waiting_bytes: int  # frames that wait, both classes; with credits data alone
    free_in_ns: int  # end of the last transmission begun, from the packet's arrival on; may be negative
    rate_bps: int  # of the port
    used_credit_bytes: int | None = None  # credit that has not come back; None where the link has no credits
    keeps_sending: bool = True  # whether what waits leaves without a gap, which flow control does not promise
    is_held: bool = False  # the far end lets no data come
    is_up: bool = True  # whether the link is

    @property
    def bytes_to_send(self) -> int:
        """The value that the choice compares."""
        held = _HELD_BYTES if self.is_held else 0
        if self.used_credit_bytes is not None:
            return held + self.waiting_bytes + self.used_credit_bytes
        sent = min(abs(self.free_in_ns), _AWAY_NS_MAX) * (self.rate_bps // 1000) // 8_000_000
        if self.free_in_ns >= 0:
            return held + self.waiting_bytes + sent
        return held + max(0, self.waiting_bytes - (sent if self.keeps_sending else 0))


def choose_adaptively(loads: Sequence[UplinkLoad], usual: int) -> int:
    """The link that a packet takes whose hash falls on *usual*; *usual* itself when all are down.

    Of links with equally much to send it is the first from *usual* on.
    """
    order = [(usual + place) % len(loads) for place in range(len(loads))]
    alive = [number for number in order if loads[number].is_up]
    return min(alive, key=lambda number: loads[number].bytes_to_send, default=usual)
