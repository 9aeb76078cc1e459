"""Pages of the NIC's memory: which are free, and which an application has."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator

from mrc_agents.abi import Limit
from mrc_agents.errors import UsageError


def whole_pages(length: int) -> int:
    """Bytes of the pages that *length* bytes from the start of a page take."""
    return -(-length // Limit.PAGE_BYTES) * Limit.PAGE_BYTES


class FreePages:
    """The stretches of memory that nobody has; those that touch are one.

    Args:
        length: bytes of all memory, at first all free.
    """

    def __init__(self, length: int) -> None:
        self._starts = [0]
        self._ends = {0: length}

    def largest(self) -> int:
        return max((end - start for start, end in self._ends.items()), default=0)

    def is_free(self, offset: int, length: int) -> bool:
        """Return True if all of these bytes are."""
        place = bisect_right(self._starts, offset) - 1
        return place >= 0 and offset + length <= self._ends[self._starts[place]]

    def take(self, length: int, wanted: int | None = None, limit: int | None = None) -> int | None:
        """Start of *length* bytes that are free no more: at *wanted* if they are free there, else the first.

        None: no stretch is so long, or none so far below *limit*.
        """
        if wanted is not None and self.is_free(wanted, length):
            self._cut(bisect_right(self._starts, wanted) - 1, wanted, length)
            return wanted
        for place, start in enumerate(self._starts):
            if limit is not None and start + length > limit:
                return None
            if start + length <= self._ends[start]:
                self._cut(place, start, length)
                return start
        return None

    def _cut(self, place: int, offset: int, length: int) -> None:
        start = self._starts[place]
        end = self._ends.pop(start)
        rest = [(start, offset), (offset + length, end)]
        left = {first: last for first, last in rest if first < last}
        self._starts[place : place + 1] = left
        self._ends.update(left)

    def add(self, offset: int, length: int) -> None:
        """Bytes that were not free are."""
        end = offset + length
        place = bisect_left(self._starts, offset)
        if end in self._ends:
            del self._starts[place]
            end = self._ends.pop(end)
        if place and self._ends[self._starts[place - 1]] == offset:
            self._ends[self._starts[place - 1]] = end
            return
        self._starts.insert(place, offset)
        self._ends[offset] = end


class Allocations:
    """The pages of one application, and the regions over them."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._lengths: dict[int, int] = {}
        self._users: Counter[int] = Counter()
        self._under: dict[int, list[int]] = {}

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Start and length of each allocation."""
        return iter(self._lengths.items())

    def add(self, start: int, length: int) -> None:
        self._starts.insert(bisect_left(self._starts, start), start)
        self._lengths[start] = length

    def remove(self, start: int) -> int:
        """Length of an allocation, which is one no more."""
        if start not in self._lengths:
            raise UsageError(f"offset: no allocation of this application begins at {start:#x}")
        if self._users[start]:
            raise UsageError(f"offset: a region lies over the allocation at {start:#x}")
        del self._users[start]
        del self._starts[bisect_left(self._starts, start)]
        return self._lengths.pop(start)

    def under(self, offset: int, length: int) -> list[int]:
        """Starts of the allocations that hold *length* bytes from *offset* on."""
        found = []
        place = bisect_right(self._starts, offset) - 1
        reached = offset if place >= 0 else -1
        for start in self._starts[max(0, place) :]:
            if not start <= reached < start + self._lengths[start]:
                break
            found.append(start)
            reached = start + self._lengths[start]
            if offset + length <= reached:
                return found
        raise UsageError(f"offset, length: {offset:#x}, {length}; not in this application's allocations")

    def hold(self, r_key: int, starts: list[int]) -> None:
        """A region lies over these: they stay until it is gone."""
        self._under[r_key] = starts
        self._users.update(starts)

    def let_go(self, r_key: int) -> None:
        """A region is gone, if it was one."""
        self._users.subtract(self._under.pop(r_key, ()))
