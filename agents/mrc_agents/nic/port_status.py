"""Peers that have not acknowledged the state of our ports: each is notified again until it does.

Only timing is decided here (docs/reference/protocol.md, "Port status").
"""

from collections.abc import Iterable

_SPACING_FACTOR = 10


class PortAnnouncements:
    """Deadlines of the next update to each peer, by host index.

    Args:
        base_ns: a round-trip time; an update is repeated after ten of them, then twice as long each time,
            up to the ceiling.
        ceiling_ns: of the time between two updates to a peer.
    """

    def __init__(self, base_ns: int, ceiling_ns: int) -> None:
        self._ceiling_ns = ceiling_ns
        self._first_ns = base_ns * _SPACING_FACTOR
        self._waiting: dict[int, tuple[int, int]] = {}

    def announce(self, peers: Iterable[int], now_ns: int) -> None:
        """Ports have changed, or a peer is new: these are to be notified from *now_ns* on."""
        self._waiting |= dict.fromkeys(peers, (now_ns, self._first_ns))

    def answered(self, peer: int) -> None:
        """The peer knows how our ports are now."""
        self._waiting.pop(peer, None)

    def next_deadline_ns(self) -> int | None:
        """When a peer is to be notified next; None when all have acknowledged."""
        return min((deadline for deadline, _ in self._waiting.values()), default=None)

    def due(self, now_ns: int) -> list[int]:
        """Peers to notify now."""
        peers = [peer for peer, (deadline, _) in self._waiting.items() if deadline <= now_ns]
        for peer in peers:
            spacing_ns = self._waiting[peer][1]
            self._waiting[peer] = (now_ns + spacing_ns, min(spacing_ns * 2, self._ceiling_ns))
        return peers
