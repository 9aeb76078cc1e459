"""Registered memory: regions of the NIC's mapped memory, each with an R_Key that the kernel checks."""

from collections import deque
from dataclasses import dataclass

from agents.clock import monotonic_ns
from agents.entropy import randbits
from agents.errors import UsageError
from agents.nic.device import NicDevice

_PAGE_BYTES = 4096
_KEY_INDEX_BITS = 6


@dataclass(frozen=True, slots=True)
class MemoryRegion:
    """A registered stretch: where it lies in the NIC's memory, how long it is, and its key."""

    offset: int
    length: int
    r_key: int


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
        index = next((i for i in range(len(self._device.regions)) if i not in self._regions), None)
        if index is None:
            raise UsageError(f"all {len(self._device.regions)} memory regions are in use")
        offset = self._find_gap(length)
        r_key = self._draw_key(index)
        if not self._are_runs_awaited:
            # A CPU may still be placing a packet in a region that was here.
            self._device.await_runs()
            self._are_runs_awaited = True
        region = MemoryRegion(offset, length, r_key)
        self._device.memory.view[offset : offset + length] = bytes(length)
        entry = self._device.regions[index]
        entry.offset = offset
        entry.length = length
        entry.is_remote_writable = 1
        entry.r_key = r_key
        self._regions[index] = region
        return region

    def deregister(self, r_key: int) -> None:
        """Invalidates a key; packets that name it are refused from now on.

        Raises:
            UsageError: there is no such key.
        """
        index = r_key & (1 << _KEY_INDEX_BITS) - 1
        if index not in self._regions or self._regions[index].r_key != r_key:
            raise UsageError(f"no memory region has the key {r_key:#x}")
        self._device.regions[index].r_key = 0
        del self._regions[index]
        self._retired.append((monotonic_ns(), r_key))
        self._are_runs_awaited = False

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
        """What a peer that holds a key may write to.

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
        for region in sorted(self._regions.values(), key=lambda region: region.offset):
            if start + length <= region.offset:
                return start
            start = -(-(region.offset + region.length) // _PAGE_BYTES) * _PAGE_BYTES
        if start + length > self._device.memory.length_bytes:
            free = max(0, self._device.memory.length_bytes - start)
            raise UsageError(
                f"length: {length} bytes; {free} of {self._device.memory.length_bytes} are free",
                hint="give the NIC more memory (topology: nic: memory)",
            )
        return start
