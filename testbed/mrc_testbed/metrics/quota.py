"""A limit on things at once, in all and for each source. Pure but for its lock."""

import threading
from collections.abc import Hashable


class SourceQuota:
    """Places for holders, of which no source has more than its share.

    Args:
        total: places in all.
        per_source: places for the holders of one source.
    """

    def __init__(self, total: int, per_source: int) -> None:
        self._total = total
        self._per_source = per_source
        self._lock = threading.Lock()
        self._sources: dict[Hashable, str] = {}

    def __len__(self) -> int:
        """Places that are taken."""
        return len(self._sources)

    def take(self, holder: Hashable, source: str) -> bool:
        """Return True if *holder* now has a place; False if all, or those for *source*, are taken."""
        with self._lock:
            held = sum(other == source for other in self._sources.values())
            if len(self._sources) >= self._total or held >= self._per_source:
                return False
            self._sources[holder] = source
            return True

    def source(self, holder: Hashable) -> str:
        """The source of a holder that has a place."""
        return self._sources[holder]

    def give_back(self, holder: Hashable) -> None:
        """Frees the place of *holder*, if it has one."""
        with self._lock:
            self._sources.pop(holder, None)
