"""Which members of a long row a drawing shows: the first ones, a gap, the last."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mrc_testbed.topology.spec import TopologySpec

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


def choose_shown(spec: TopologySpec) -> Shown:
    """All of a fabric that a reader can follow, a sample of each row of a larger one."""
    rows = (spec.planes, spec.t0, spec.t1, spec.hosts_per_t0)
    links = spec.planes * spec.t0 * (spec.hosts_per_t0 + spec.t1 * spec.uplinks_per_pair)
    widest = max(spec.planes * spec.t0, spec.planes * spec.t1, spec.t0 * spec.hosts_per_t0)
    is_small = links <= LINKS_DRAWN_MAX and widest <= _ROW_DRAWN_MAX
    rooms = rows if is_small else (_FEW_PLANES, _SHORT_ROW, _SHORT_ROW, _FEW_HOSTS)
    planes, t0, t1, hosts = shown = list(map(elide, rows, rooms))
    return Shown(planes, t0, t1, hosts, is_whole=not any(GAP in row for row in shown))
