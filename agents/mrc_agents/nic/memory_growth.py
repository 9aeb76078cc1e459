"""Memory that a NIC gets while applications need more than it had, and gives back when they are gone."""

from collections.abc import Iterable
from itertools import count

from mrc_agents.abi import Limit
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.page_memory import FreePages


class MemoryGrowth:
    """The chunks that were added to a NIC's memory.

    Args:
        device: the NIC.
        pages: those of its memory that are free; added memory joins them.
    """

    def __init__(self, device: NicDevice, pages: FreePages) -> None:
        self._device = device
        self._pages = pages
        self._first = -(-device.memory.length_bytes // Limit.MEMORY_CHUNK)
        self._added: set[int] = set()
        self._leaving: set[int] = set()

    def end(self) -> int:
        """Offset behind the last byte of memory."""
        last = max(self._added, default=-1)
        return max(self._device.memory.length_bytes, (last + 1) * Limit.MEMORY_CHUNK)

    def make_room(self, length: int) -> str | None:
        """Adds memory for so many bytes in a row; None, or why there is none.

        Whoever asks waits for it, and so does all else that the agent does: some eight milliseconds a chunk.
        """
        needed = -(-length // Limit.MEMORY_CHUNK)
        taken = self._added | self._leaving
        start = next(
            first
            for first in count(self._first)
            if first + needed > Limit.MEMORY_CHUNKS or taken.isdisjoint(range(first, first + needed))
        )
        if start + needed > Limit.MEMORY_CHUNKS:
            return "a NIC's memory does not grow beyond 4 GiB"
        chunks = range(start, start + needed)
        try:
            self._device.add_memory(chunks)
        except PermissionError:
            return "a container's NIC does not grow: set nic.memory"
        except OSError as error:
            return f"the kernel gives the NIC no more: {error.strerror}"
        self._added.update(chunks)
        for index in chunks:
            self._pages.add(index * Limit.MEMORY_CHUNK, Limit.MEMORY_CHUNK)
        return None

    def take_free(self) -> list[int]:
        """Chunks that were added and are wholly free, of which nothing is given out from now on."""
        found = []
        for index in sorted(self._added):
            if self._pages.is_free(index * Limit.MEMORY_CHUNK, Limit.MEMORY_CHUNK):
                self._pages.take(Limit.MEMORY_CHUNK, index * Limit.MEMORY_CHUNK)
                found.append(index)
        self._added.difference_update(found)
        self._leaving.update(found)
        return found

    def forget(self, chunks: Iterable[int]) -> None:
        """Chunks have been removed: their places in the memory can be taken again."""
        self._leaving.difference_update(chunks)
