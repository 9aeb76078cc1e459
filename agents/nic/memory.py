"""Registered memory: regions of the NIC's mapped memory, each with an R_Key that the kernel checks."""

from collections import deque
from dataclasses import dataclass

from mrc_testbed.agents.clock import monotonic_ns
from mrc_testbed.agents.entropy import randbits
from mrc_testbed.agents.errors import UsageError
from mrc_testbed.agents.nic.device import NicDevice

_PAGE_BYTES = 4096
_KEY_INDEX_BITS = 6
_ADDRESS_MAX = 1 << 57


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """A registered stretch: where it lies in the NIC's memory, how long it is, and its key.

    `pages` are those that it holds in the NIC's memory, offset and length; regions may share them.
    """

    offset: int
    length: int
    r_key: int
    pages: tuple[int, int]


class RegionTable:
    """Allocates the NIC's memory first-fit and keeps the kernel's table of regions.

    Args:
        device: whose memory it is.
        lifetime_ns: a key that was given back is not drawn again for so long: packets may name it.
    """

    def __init__(self, device: NicDevice, lifetime_ns: int) -> None:
        self._device = device
        self._lifetime_ns = lifetime_ns
        self._regions: dict[int, MemoryRegion] = {}
        self._bases: dict[int, int] = {}  # virtual address of the first byte, by key
        self._retired: deque[tuple[int, int]] = deque()  # when, and which key
        self._are_runs_awaited = True
        for entry in device.regions:
            entry.r_key = 0

    def register(self, length: int) -> MemoryRegion:
        """A new zeroed region of *length* bytes, remotely writable.

        Raises:
            UsageError: the NIC's memory, or its table of regions, has no room for it.
        """
        if length < 1:
            raise UsageError(f"length: {length} bytes; at least 1 is accepted")
        index = self._free_index()
        offset = self._find_gap(length)
        self._device.memory.view[offset : offset + length] = bytes(length)
        return self._enter(index, offset, length, (offset, length))

    def register_at(
        self, address: int, length: int, *, is_remote_writable: bool, shared: MemoryRegion | None, pd: int
    ) -> MemoryRegion:
        """A region that peers name by a virtual address of its first byte; its bytes stay as they are.

        Args:
            address: in a process that has mapped the region's pages.
            length: bytes.
            is_remote_writable: whether peers may write to it.
            shared: a region registered likewise whose pages hold all of this one; None: new pages.
            pd: protection domain of the QPs by which peers may write to it.

        Raises:
            UsageError: the NIC's memory, or its table of regions, has no room for it.
        """
        first = address // _PAGE_BYTES * _PAGE_BYTES
        if length < 1 or not 0 < address <= _ADDRESS_MAX - length:
            raise UsageError(f"address, length: {address:#x}, {length}; no such memory")
        index = self._free_index()
        if shared is None:
            pages_bytes = -(-(address + length) // _PAGE_BYTES) * _PAGE_BYTES - first
            pages = (self._find_gap(pages_bytes), pages_bytes)
            offset = pages[0] + address - first
        else:
            pages = shared.pages
            offset = shared.offset + address - self._bases[shared.r_key]
            if not pages[0] <= offset <= offset + length <= pages[0] + pages[1]:
                raise UsageError(f"address: {address:#x}; the pages of {shared.r_key:#x} do not hold it")
        region = self._enter(
            index, offset, length, pages, base=address, is_remote_writable=is_remote_writable, pd=pd
        )
        self._bases[region.r_key] = address
        return region

    def _enter(
        self,
        index: int,
        offset: int,
        length: int,
        pages: tuple[int, int],
        *,
        base: int = 0,
        is_remote_writable: bool = True,
        pd: int = 0,
    ) -> MemoryRegion:
        region = MemoryRegion(offset, length, self._draw_key(index), pages)
        entry = self._device.regions[index]
        entry.offset = offset
        entry.length = length
        entry.base = base
        entry.pd = pd
        entry.is_remote_writable = is_remote_writable
        entry.r_key = region.r_key
        self._regions[index] = region
        return region

    def _free_index(self) -> int:
        index = next((i for i in range(len(self._device.regions)) if i not in self._regions), None)
        if index is None:
            raise UsageError(f"all {len(self._device.regions)} memory regions are in use")
        if not self._are_runs_awaited:
            # A CPU may still be placing a packet in a region that was here.
            self._device.await_runs()
            self._are_runs_awaited = True
        return index

    def find(self, r_key: int) -> MemoryRegion:
        """The region with a key.

        Raises:
            UsageError: there is none.
        """
        region = self._regions.get(r_key & (1 << _KEY_INDEX_BITS) - 1)
        if region is None or region.r_key != r_key:
            raise UsageError(f"no memory region has the key {r_key:#x}")
        return region

    def deregister(self, r_key: int) -> None:
        """Invalidates a key; packets that name it are refused from now on.

        Raises:
            UsageError: there is no such key.
        """
        self.find(r_key)
        index = r_key & (1 << _KEY_INDEX_BITS) - 1
        self._device.regions[index].r_key = 0
        del self._regions[index]
        self._bases.pop(r_key, None)
        self._retired.append((monotonic_ns(), r_key))
        self._are_runs_awaited = False

    def revoke(self, r_key: int) -> None:
        """Keeps peers from writing to a region from now on.

        Raises:
            UsageError: there is no such key.
        """
        self.find(r_key)
        self._device.regions[r_key & (1 << _KEY_INDEX_BITS) - 1].is_remote_writable = False

    def _draw_key(self, index: int) -> int:
        """A key of that index that no packet on its way can name."""
        now_ns = monotonic_ns()
        while self._retired and now_ns - self._retired[0][0] > self._lifetime_ns:
            self._retired.popleft()
        while True:
            r_key = (randbits(32 - _KEY_INDEX_BITS - 1) + 1) << _KEY_INDEX_BITS | index
            if all(r_key != retired for _, retired in self._retired):
                return r_key

    def check(self, offset: int, length: int) -> int:
        """Address in this process of a stretch inside one region.

        Raises:
            UsageError: no region holds it.
        """
        for region in self._regions.values():
            if region.offset <= offset <= offset + length <= region.offset + region.length:
                return self._device.memory.address + offset
        raise UsageError(f"bytes {offset} to {offset + length} lie in no registered region")

    def view(self, offset: int, length: int) -> memoryview:
        """A stretch of the NIC's memory, shared with the data path."""
        return self._device.memory.view[offset : offset + length]

    def writable(self, r_key: int, offset: int, length: int) -> memoryview:
        """The memory that a peer with this key may write to.

        Args:
            r_key: of a region.
            offset: from the start of the region.
            length: bytes.

        Raises:
            UsageError: there is no such key, or it would pass the region's end.
        """
        region = self._regions.get(r_key & (1 << _KEY_INDEX_BITS) - 1)
        if region is None or region.r_key != r_key or not 0 <= offset <= offset + length <= region.length:
            raise UsageError(f"no region with the key {r_key:#x} has bytes {offset} to {offset + length}")
        return self.view(region.offset + offset, length)

    def _find_gap(self, length: int) -> int:
        start = 0
        for offset, bytes_there in sorted(region.pages for region in self._regions.values()):
            if start + length <= offset:
                return start
            start = -(-(offset + bytes_there) // _PAGE_BYTES) * _PAGE_BYTES
        if start + length > self._device.memory.length_bytes:
            free = max(0, self._device.memory.length_bytes - start)
            raise UsageError(
                f"length: {length} bytes; {free} of {self._device.memory.length_bytes} are free",
                hint="give the NIC more memory (topology: nic: memory)",
            )
        return start
