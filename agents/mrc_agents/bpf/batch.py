"""Reads whole array maps by one system call each, for those who read many elements often."""

import ctypes
import os
from collections.abc import Callable
from ctypes import Structure, byref, c_int, c_uint32, c_void_p
from typing import cast

from mrc_agents.bpf.libbpf import library
from mrc_agents.bpf.maps import Descriptor, checked_map_info, possible_cpus
from mrc_agents.bpf.virtual import VirtualMap
from mrc_agents.errors import FabricError

_PER_CPU_TYPES = {5, 6}  # BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_PERCPU_ARRAY


class WholeMap:
    """All elements of an array map or per-CPU array map, read together.

    Args:
        descriptor: the map; it must stay open as long as this object is used.
    """

    def __init__(self, descriptor: Descriptor, value_type: type[Structure]) -> None:
        info = checked_map_info(descriptor, value_type)
        self._descriptor = descriptor
        self._name = info.name.decode()
        self.length = int(info.max_entries)  # elements of the map
        # values per element: the possible CPUs of a per-CPU map, else 1
        self.cpu_count = possible_cpus(descriptor) if info.type in _PER_CPU_TYPES else 1
        self.stride_bytes = (int(info.value_size) + 7) & ~7  # distance of two values, a multiple of 8
        self._memory = descriptor.memory if isinstance(descriptor, VirtualMap) else None
        self._keys = (c_uint32 * self.length)()
        self._values = ctypes.create_string_buffer(self.length * self.cpu_count * self.stride_bytes)
        self._view = memoryview(self._values).cast("B")

    def read(self) -> memoryview:
        """The values: (length, cpu_count) of stride_bytes each. The next call overwrites them."""
        if self._memory is not None:
            ctypes.memmove(self._values, self._memory, len(self._view))
            return self._view
        cursor = c_uint32()
        count = c_uint32(self.length)
        code = _lookup_batch()(
            self._descriptor, None, byref(cursor), self._keys, self._values, byref(count), None
        )
        if code:
            raise FabricError(f"cannot read map {self._name}: {os.strerror(-code)}")
        if count.value != self.length:
            raise FabricError(f"map {self._name} gave {count.value} of {self.length} elements")
        return self._view


def _lookup_batch() -> Callable[..., int]:
    lookup = library().bpf_map_lookup_batch
    lookup.restype = c_int
    lookup.argtypes = (c_int, *(c_void_p,) * 4, ctypes.POINTER(c_uint32), c_void_p)
    return cast("Callable[..., int]", lookup)
