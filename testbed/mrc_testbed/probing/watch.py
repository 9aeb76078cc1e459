"""The diagnosis of the last second, again and again. Pure: the caller has the clock and the counts."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from mrc_testbed.probing.localisation import Diagnosis, localise
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_outcome import PathOutcome, since

WINDOW_NS: Final = 1_000_000_000
"""A diagnosis is about the probes judged within this time: long enough to see a link that loses some."""


class LinkWatch:
    """Takes counts as they are read, and says what those of the last WINDOW_NS mean."""

    def __init__(self, clos: Clos) -> None:
        self._clos = clos
        self._counts: deque[tuple[int, Sequence[PathOutcome]]] = deque()

    def add(self, time_ns: int, counts: Sequence[PathOutcome]) -> Diagnosis:
        """The diagnosis of the probes judged until *time_ns*; empty for the first counts."""
        self._counts.append((time_ns, counts))
        while len(self._counts) > 1 and self._counts[1][0] <= time_ns - WINDOW_NS:
            self._counts.popleft()
        return localise(self._clos, since(counts, self._counts[0][1]))
