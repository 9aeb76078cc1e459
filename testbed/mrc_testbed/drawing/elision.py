"""Which members of a long row a drawing shows: the first ones, a gap, the last."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GAP: Final = None
"""Stands in a row for the members left out."""

LINKS_DRAWN_MAX: Final = 600
_ROW_DRAWN_MAX: Final = 48
_SHORT_ROW: Final = 4
_FEW_HOSTS: Final = 3
_FEW_PLANES: Final = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """Part of a fabric that a drawing shows; each is a row of indices, GAP for those left out."""

    planes: Sequence[int | None]  # planes
    t0: Sequence[int | None]  # T0s of every plane, and the rows of hosts below them
    t1: Sequence[int | None]  # T1s of every plane
    hosts: Sequence[int | None]  # hosts of every row, by downlink
    is_whole: bool  # nothing is left out


def elide(count: int, room: int) -> Sequence[int | None]:
    """The indices 0 .. count - 1 if there is room for them, else the first ones, GAP and the last.

    Args:
        count: members of the row.
        room: places, at least 3.
    """
    if count <= room:
        return range(count)
    return [*range(room - 2), GAP, count - 1]


def choose_shown(planes: int, t0: int, t1: int, hosts_per_t0: int, lanes: int) -> Shown:
    """All of a fabric that a reader can follow, a sample of each row of a larger one."""
    links = planes * t0 * (hosts_per_t0 + t1 * lanes)
    widest = max(planes * t0, planes * t1, t0 * hosts_per_t0)
    if links <= LINKS_DRAWN_MAX and widest <= _ROW_DRAWN_MAX:
        return Shown(range(planes), range(t0), range(t1), range(hosts_per_t0), is_whole=True)
    shown_planes = elide(planes, _FEW_PLANES)
    shown_t0, shown_t1 = elide(t0, _SHORT_ROW), elide(t1, _SHORT_ROW)
    shown_hosts = elide(hosts_per_t0, _FEW_HOSTS)
    is_whole = all(GAP not in row for row in (shown_planes, shown_t0, shown_t1, shown_hosts))
    return Shown(shown_planes, shown_t0, shown_t1, shown_hosts, is_whole)
