"""Paths that no QP of a NIC is to use: whole planes, or single uplinks, to one host or to all.

Source: docs/reference/protocol.md, "EV states"; the denylist of the paper, section 4.
"""

from dataclasses import dataclass

from mrc_agents.abi import EvLayout


@dataclass(frozen=True, slots=True)
class DeniedPath:
    """A denied path."""

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


class Denylist:
    """The denied paths of a NIC, in the order they were added."""

    def __init__(self) -> None:
        self.paths: list[DeniedPath] = []

    def add(self, path: DeniedPath) -> None:
        """Denies a path; one already denied stays so."""
        if path not in self.paths:
            self.paths.append(path)

    def remove(self, path: DeniedPath) -> bool:
        """Allows a path again; whether it was on the list."""
        was_denied = path in self.paths
        if was_denied:
            self.paths.remove(path)
        return was_denied

    def covers(self, ev: int, peer_host: int) -> bool:
        """Return True if an EV of a QP to *peer_host* takes any of the paths."""
        return any(path.covers(ev, peer_host) for path in self.paths)
