"""Traces that `launch --trace` writes, as tests read them."""

from collections.abc import Sequence
from pathlib import Path

from mrc_testbed.traces.chakra import decode
from mrc_testbed.traces.graph import RankTrace, TraceNode


def traces_in(folder: Path) -> list[RankTrace]:
    """The traces of all ranks."""
    paths = [folder / f"rank.{rank}.et" for rank in range(len([*folder.glob("*.et")]))]
    return [decode(path.read_bytes(), str(path)) for path in paths]


def ends_ns(nodes: Sequence[TraceNode]) -> dict[int, int]:
    """When each node ends if all begin as soon as they may, and take as long as they took."""
    found: dict[int, int] = {}
    for node in sorted(nodes, key=lambda each: each.id):
        found[node.id] = max((found[each] for each in node.after), default=0) + node.duration_ns
    return found
