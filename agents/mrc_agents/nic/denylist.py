"""Paths that no QP of a NIC is to use: whole planes, or single uplinks, to one host or to all.

Source: docs/reference/protocol.md, "EV states"; the denylist of the paper, section 4.
"""

from dataclasses import dataclass

from mrc_agents.abi import EvLayout


@dataclass(frozen=True, slots=True)
class DeniedPath:
    plane: int  # of the path
    uplink: int | None = None  # of the T0 of this host; None for all of the plane
    peer_host: int | None = None  # index of the host it leads to; None for all

    def covers(self, ev: int, peer_host: int) -> bool:
        """Return True if an EV of a QP to *peer_host* takes the path."""
        return (
            self.plane == ev >> EvLayout.PLANE_SHIFT
            and self.uplink in {None, ev >> EvLayout.UPLINK_SHIFT & EvLayout.UPLINK_MASK}
            and self.peer_host in {None, peer_host}
        )
