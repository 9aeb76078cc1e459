"""The order of a rank's graph: which nodes may start, as others start and end. Pure."""

import heapq
from collections.abc import Sequence

from mrc_testbed.errors import UsageError
from mrc_testbed.traces.graph import RankTrace


class RankGraph:
    """The graph of a rank by the places of its nodes.

    A node that another waits for, but that the file has not, was left out where the trace was converted.

    Args:
        source: names its file in messages.

    Raises:
        UsageError: two nodes have one id.
    """

    def __init__(self, trace: RankTrace, source: str) -> None:
        self.trace = trace
        self.place_of = place_of = {node.id: place for place, node in enumerate(trace.nodes)}
        if len(place_of) < len(trace.nodes):
            twice = next(node for at, node in enumerate(trace.nodes) if place_of[node.id] != at)
            raise UsageError(f"{source}: node {twice.id}: there are two nodes of this id")
        self.waits_for = [0] * len(trace.nodes)  # so many starts and ends
        self.at_end: list[list[int]] = [[] for _ in trace.nodes]  # who waits for the end of each
        self.at_start: list[list[int]] = [[] for _ in trace.nodes]
        for place, node in enumerate(trace.nodes):
            for followers, ids in ((self.at_end, node.after), (self.at_start, node.after_start)):
                for each in {place_of[node_id] for node_id in ids if node_id in place_of}:
                    followers[each].append(place)
                    self.waits_for[place] += 1


class Walk:
    """One way through a graph."""

    def __init__(self, graph: RankGraph) -> None:
        self._graph = graph
        self._left = graph.waits_for.copy()
        self._ready = [place for place, left in enumerate(self._left) if not left]
        self._not_ended = len(self._left)

    @property
    def is_over(self) -> bool:
        return not self._not_ended

    def take_ready(self) -> int | None:
        """Take the node that may start and stands first in the file; None: none may. It has started then."""
        if not self._ready:
            return None
        place = heapq.heappop(self._ready)
        self._release(self._graph.at_start[place])
        return place

    def end(self, place: int) -> None:
        """Note the end of a node."""
        self._not_ended -= 1
        self._release(self._graph.at_end[place])

    def _release(self, followers: Sequence[int]) -> None:
        for each in followers:
            self._left[each] -= 1
            if not self._left[each]:
                heapq.heappush(self._ready, each)
