"""Registered memory: regions of the NIC's mapped memory, each with an R_Key that the kernel checks."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count

from mrc_agents.abi import Limit, PageList
from mrc_agents.clock import monotonic_ns
from mrc_agents.entropy import randbits
from mrc_agents.errors import UsageError
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.page_memory import FreePages, whole_pages

Release = Callable[[], None]

_ADDRESS_MAX = 1 << 57
_LIST_ENTRY_BYTES = 4
_KEY_DRAW_BITS = 32 - Limit.KEY_INDEX_BITS - 1


class Grace:
    """The things that rest: who was running when one was given back may still be placing a packet there.

    Args:
        await_runs: returns once the runs of the NIC's programs that had begun have ended.
    """

    def __init__(self, await_runs: Callable[[], None]) -> None:
        # calls its first argument in another thread and, once that has returned, its second one here; None:
        # each request waits for what rests, in case it is given just that
        self.in_background: Callable[[Callable[[], None], Callable[[], None]], None] | None = None
        self._await_runs = await_runs
        self._resting: list[Release] = []
        self._awaited: list[Release] = []

    def rest(self, release: Release) -> None:
        """Has *release* called when the thing may be used again."""
        self._resting.append(release)
        self._begin()

    def _begin(self) -> None:
        if self.in_background is None or self._awaited or not self._resting:
            return
        awaited = self._awaited = self._resting
        self._resting = []

        def end() -> None:
            _release(awaited)
            self._begin()

        self.in_background(self._await_runs, end)

    def look(self) -> None:
        """Before something is given out: what rests may be that, unless it is taken care of elsewhere."""
        if self.in_background is None:
            self.settle()

    def settle(self) -> bool:
        """Waits for all that rests; whether there was something."""
        if not (self._awaited or self._resting):
            return False
        self._await_runs()
        _release(self._awaited)
        _release(self._resting)
        return True


def _release(things: list[Release]) -> None:
    for release in things:
        release()
    things.clear()


class MemoryGrowth:
    """The chunks that were added to a NIC's memory.

    Args:
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


class NoRoomError(UsageError):
    """The NIC has no memory, or no place in a table, for what is asked for."""


@dataclass(frozen=True, slots=True)
class MemoryRegistration:
    """A registered stretch: where it lies in the NIC's memory, how long it is, and its key."""

    offset: int
    length: int
    r_key: int


@dataclass(frozen=True, slots=True)
class RegionPlace:
    offset: int = 0  # of the first one in the NIC's memory, where they lie in a row
    page_list: int | None = None  # offset of the list of their pages; None: they lie in a row

    def needs(self, address: int, length: int) -> tuple[int, int]:
        """Offset and bytes of what must be there: the region, or the list of its pages."""
        if self.page_list is None:
            return self.offset, length
        if self.page_list % _LIST_ENTRY_BYTES:
            raise UsageError(f"page_list: {self.page_list:#x}; it must be a multiple of {_LIST_ENTRY_BYTES}")
        pages = whole_pages(address % Limit.PAGE_BYTES + length) // Limit.PAGE_BYTES
        return self.page_list, pages * _LIST_ENTRY_BYTES


class RegionTable:
    """Allocates pages of the NIC's memory, and keeps the kernel's table of regions.

    Args:
        lifetime_ns: a key that was given back is not drawn again for so long: packets may name it.
    """

    def __init__(self, device: NicDevice, lifetime_ns: int) -> None:
        self._device = device
        self._lifetime_ns = lifetime_ns
        self._pages = FreePages(device.memory.length_bytes)
        self._growth = MemoryGrowth(device, self._pages)
        self._regions: dict[int, MemoryRegistration] = {}
        self._own: dict[int, MemoryRegistration] = {}  # by key: those that have come with pages
        self._places: deque[int] = deque()  # that regions have had, and that have rested
        self._retired: deque[tuple[int, int]] = deque()  # when, and which key
        self._retired_keys: set[int] = set()
        # pages and places in the table that were given back rest here
        self.grace = Grace(device.await_runs)
        for index in range(min(device.control.region_count, len(device.regions))):
            device.regions[index].r_key = 0  # of an agent that was here before
        device.control.region_count = 0
        self._next_index = 0  # that no region of this agent has had

    # -- pages --------------------------------------------------------------------------------------

    def allocate(self, length: int, wanted: int | None = None, *, grows: bool = False) -> int:
        """Offset of whole pages for *length* bytes, with what they hold.

        Args:
            wanted: offset where they should be if there is room.
            grows: whether more memory may be added for them, and may be used that was; else they lie in
                what the NIC has had from the start.
        """
        if length < 1:
            raise UsageError(f"length: {length} bytes; at least 1 is accepted")
        self.grace.look()
        limit = None if grows else self._device.memory.length_bytes
        take = partial(self._pages.take, whole_pages(length), wanted, limit)
        offset = take()
        if offset is None and self.grace.settle():
            offset = take()
        refusal = None
        if offset is None and grows:
            refusal = self._growth.make_room(whole_pages(length))
            offset = take()
        if offset is None:
            raise NoRoomError(
                f"length: {length} bytes; {self._pages.largest()} of {self._growth.end()} "
                f"are free in a row{'' if refusal is None else f', and {refusal}'}",
                hint="give the NIC more memory (topology: nic: memory)",
            )
        self._device.fresh_from = max(self._device.fresh_from, offset + whole_pages(length))
        return offset

    def give_back(self) -> None:
        """Has memory removed that was added and that nobody has any more, once it has rested."""
        self.grace.rest(self._remove_free)

    def _remove_free(self) -> None:
        chunks = self._growth.take_free()
        if not chunks:
            return
        remove = partial(self._device.remove_memory, chunks)  # waits, ten milliseconds for each
        forget = partial(self._growth.forget, chunks)
        if self.grace.in_background is not None:
            self.grace.in_background(remove, forget)
            return
        remove()
        forget()

    def free(self, offset: int, length: int) -> None:
        """Takes back pages that were allocated, all of them."""
        self.grace.rest(partial(self._pages.add, offset, whole_pages(length)))

    # -- regions ------------------------------------------------------------------------------------

    def register(self, length: int) -> MemoryRegistration:
        """A new zeroed region of *length* bytes with pages of its own, remotely writable."""
        fresh_from = self._device.fresh_from
        offset = self.allocate(length)
        try:
            index = self._take_index()
        except NoRoomError:
            self.free(offset, length)
            raise
        used = max(0, min(length, fresh_from - offset))
        self._device.memory.view[offset : offset + used] = bytes(used)
        region = self._enter(index, RegionPlace(offset), length)
        self._own[region.r_key] = region
        return region

    def register_over(
        self, address: int, length: int, place: RegionPlace, *, is_remote_writable: bool, pd: int
    ) -> MemoryRegistration:
        """A region over pages that were allocated; peers name it by a virtual address of its first byte.

        Args:
            address: of the first byte, in a process that has mapped the pages.
            is_remote_writable: whether peers may write to it.
            pd: protection domain of the QPs by which peers may write to it.
        """
        if length < 1 or not 0 < address <= _ADDRESS_MAX - length or length >= 1 << 32:
            raise UsageError(f"address, length: {address:#x}, {length}; no such memory")
        offset, needed = place.needs(address, length)
        if not 0 <= offset <= offset + needed <= self._growth.end():
            raise UsageError(f"offset, length: {offset:#x}, {needed}; no such memory of the NIC")
        return self._enter(
            self._take_index(), place, length, base=address, is_remote_writable=is_remote_writable, pd=pd
        )

    def _enter(
        self,
        index: int,
        place: RegionPlace,
        length: int,
        *,
        base: int = 0,
        is_remote_writable: bool = True,
        pd: int = 0,
    ) -> MemoryRegistration:
        region = MemoryRegistration(place.offset, length, self._draw_key(index))
        entry = self._device.regions[index]
        entry.offset = place.offset
        entry.length = length
        entry.base = base
        entry.pd = pd
        entry.is_remote_writable = is_remote_writable
        entry.page_list = PageList.NO_PAGE_LIST if place.page_list is None else place.page_list
        entry.r_key = region.r_key
        self._regions[index] = region
        return region

    def _take_index(self) -> int:
        self.grace.look()
        if self._next_index < len(self._device.regions):
            self._next_index += 1
            self._device.control.region_count = self._next_index
            return self._next_index - 1
        if not self._places and not (self.grace.settle() and self._places):
            raise NoRoomError(f"all {len(self._device.regions)} memory regions are in use")
        return self._places.popleft()

    def deregister(self, r_key: int) -> None:
        """Invalidates a key; packets that name it are refused from now on."""
        index = r_key % Limit.REGION_MAX
        region = self._regions.get(index)
        if region is None or region.r_key != r_key:
            raise UsageError(f"no memory region has the key {r_key:#x}")
        self._device.regions[index].r_key = 0
        del self._regions[index]
        self.grace.rest(partial(self._places.append, index))
        self._retired.append((monotonic_ns(), r_key))
        self._retired_keys.add(r_key)
        if self._own.pop(r_key, None) is not None:
            self.free(region.offset, region.length)

    def _draw_key(self, index: int) -> int:
        """A key of that index that no packet on its way can name."""
        now_ns = monotonic_ns()
        while self._retired and now_ns - self._retired[0][0] > self._lifetime_ns:
            self._retired_keys.remove(self._retired.popleft()[1])
        while True:
            r_key = (randbits(_KEY_DRAW_BITS) + 1) << Limit.KEY_INDEX_BITS | index
            if r_key not in self._retired_keys:
                return r_key

    def check(self, offset: int, length: int) -> int:
        """Address in this process of a stretch inside one region that has come with its pages."""
        for region in self._own.values():
            if region.offset <= offset <= offset + length <= region.offset + region.length:
                return self._device.memory.address + offset
        raise UsageError(f"bytes {offset} to {offset + length} lie in no registered region")

    def view(self, offset: int, length: int) -> memoryview:
        """A stretch of the NIC's memory, shared with the data path."""
        return self._device.memory.view[offset : offset + length]

    def writable(self, r_key: int, offset: int, length: int) -> memoryview:
        """The memory that a peer with this key may write to."""
        region = self._own.get(r_key)
        if region is None or not 0 <= offset <= offset + length <= region.length:
            raise UsageError(f"no region with the key {r_key:#x} has bytes {offset} to {offset + length}")
        return self.view(region.offset + offset, length)
