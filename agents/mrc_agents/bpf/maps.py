"""Typed views of BPF maps: mapped arrays, per-CPU arrays, plain arrays, ring buffers.

Value layouts are the ctypes structures of mrc_agents.abi; a size unlike the kernel's is an error.
"""

import ctypes
import errno
import mmap
import os
from collections.abc import Callable, Iterator
from ctypes import Structure, byref, c_int, c_uint32, c_uint64, c_void_p
from typing import Any, Generic, TypeVar, cast

from mrc_agents.bpf.libbpf import library
from mrc_agents.bpf.virtual import VirtualMap
from mrc_agents.errors import FabricError
from mrc_agents.objects import how_to_build

Value = TypeVar("Value", bound=Structure)
Descriptor = int | VirtualMap
"""Descriptor of a map of the kernel, or its counterpart in virtual time."""

_BPF_F_LOCK = 4
_BPF_MAP_TYPE_PERCPU_ARRAY = 6
_BPF_MAP_TYPE_RINGBUF = 27


class _MapInfo(Structure):
    """The head of struct bpf_map_info."""

    _fields_ = (
        ("type", c_uint32),
        ("id", c_uint32),
        ("key_size", c_uint32),
        ("value_size", c_uint32),
        ("max_entries", c_uint32),
        ("map_flags", c_uint32),
        ("name", ctypes.c_char * 16),
    )


def map_info(descriptor: Descriptor) -> _MapInfo:
    """Type, sizes and name of a map."""
    if isinstance(descriptor, VirtualMap):
        return _MapInfo(
            type=descriptor.type,
            value_size=descriptor.value_bytes,
            max_entries=descriptor.count,
            name=descriptor.name.encode()[:15],
        )
    info = _MapInfo()
    size = c_uint32(ctypes.sizeof(info))
    code = library().bpf_obj_get_info_by_fd(descriptor, byref(info), byref(size))
    if code:
        raise FabricError(f"cannot ask about a map: {os.strerror(-code)}")
    return info


def checked_map_info(descriptor: Descriptor, value_type: type[Structure]) -> _MapInfo:
    """Type, sizes and name of a map whose values are *value_type*."""
    info = map_info(descriptor)
    if info.value_size != ctypes.sizeof(value_type):
        raise FabricError(
            f"map {info.name.decode()} holds {info.value_size} bytes, {value_type.__name__} has "
            f"{ctypes.sizeof(value_type)}",
            hint=f"the BPF objects and agents/mrc_agents/abi.py differ: {how_to_build('setup')}",
        )
    return info


def _mapped(descriptor: Descriptor, length_bytes: int) -> "mmap.mmap | ctypes.Array[ctypes.c_char]":
    """The memory of an array map, in whole pages if it is the kernel's."""
    if isinstance(descriptor, VirtualMap):
        return descriptor.memory
    pages_bytes = -(-length_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
    return mmap.mmap(descriptor, pages_bytes, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


class MappedArray(Generic[Value]):
    """A memory-mapped array map: `array[i]` is a live view, a store takes effect at once."""

    def __init__(self, descriptor: Descriptor, value_type: type[Value]) -> None:
        info = checked_map_info(descriptor, value_type)
        stride = (info.value_size + 7) & ~7
        self._map = _mapped(descriptor, stride * info.max_entries)
        self._stride = stride
        self._length = int(info.max_entries)
        self._type = value_type

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Value:
        if not 0 <= index < self._length:
            raise IndexError(index)
        return self._type.from_buffer(self._map, index * self._stride)

    def __iter__(self) -> Iterator[Value]:
        return (self[index] for index in range(self._length))


class MappedMemory:
    """An array map whose elements lie end to end, as one writable stretch of bytes."""

    def __init__(self, descriptor: Descriptor) -> None:
        info = map_info(descriptor)
        if info.value_size % mmap.PAGESIZE:
            raise FabricError(f"map {info.name.decode()} does not hold whole pages")
        self.length_bytes = int(info.value_size * info.max_entries)
        self._map = _mapped(descriptor, self.length_bytes)
        self.view = memoryview(self._map).cast("B")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))


class ArrayMap(Generic[Value]):
    """A plain array map, read and written by system call; `locked` honours the value's spin lock."""

    def __init__(self, descriptor: Descriptor, value_type: type[Value], *, locked: bool = False) -> None:
        info = checked_map_info(descriptor, value_type)
        self._descriptor = descriptor
        self._type = value_type
        self._length = int(info.max_entries)
        self._flags = _BPF_F_LOCK if locked else 0

    def __len__(self) -> int:
        return self._length

    def read(self, index: int) -> Value:
        """A copy of element *index*."""
        value = self._type()
        _map_lookup(self._descriptor, index, value, self._flags)
        return value

    def peek(self, index: int) -> Value:
        """Element *index*, to be read at once: a copy, in virtual time the element itself.

        A QP has 80 kB: copies of it would be a large part of what virtual time costs.
        """
        virtual = isinstance(self._descriptor, VirtualMap) and self._descriptor.address_of(index)
        return self._type.from_address(virtual) if virtual else self.read(index)

    def write(self, index: int, value: Value) -> None:
        map_update(self._descriptor, c_uint32(index), value, self._flags)


class PerCpuArray(Generic[Value]):
    """A per-CPU array whose value consists of 64-bit numbers only."""

    def __init__(self, descriptor: Descriptor, value_type: type[Value]) -> None:
        info = checked_map_info(descriptor, value_type)
        if info.type != _BPF_MAP_TYPE_PERCPU_ARRAY:
            raise FabricError(f"map {info.name.decode()} is not a per-CPU array")
        self._descriptor = descriptor
        self._type = value_type
        self._length = int(info.max_entries)
        cpus = possible_cpus(descriptor)
        self._values = (value_type * cpus)()

    def __len__(self) -> int:
        return self._length

    def read(self, index: int) -> list[Value]:
        """Copies of element *index*, one per possible CPU."""
        _map_lookup(self._descriptor, index, self._values)
        return [self._type.from_buffer_copy(value) for value in self._values]

    def sum(self, index: int) -> list[int]:
        """The value's 64-bit numbers in order, each added up over CPUs."""
        _map_lookup(self._descriptor, index, self._values)
        count = ctypes.sizeof(self._type) // 8
        columns = [(c_uint64 * count).from_buffer(value) for value in self._values]
        return [sum(numbers) for numbers in zip(*columns, strict=True)]


def possible_cpus(descriptor: Descriptor) -> int:
    """Values of an element of a per-CPU map; virtual time has one CPU."""
    return 1 if isinstance(descriptor, VirtualMap) else int(library().libbpf_num_possible_cpus())


def map_delete(descriptor: int, key: Structure | c_uint32) -> None:
    """Removes one element of a map that can be without it; one that is not there is no error."""
    code = library().bpf_map_delete_elem(descriptor, byref(key))
    if code and -code != errno.ENOENT:
        raise FabricError(f"cannot empty an element of a map: {os.strerror(-code)}")


def create_ring(name: str, size_bytes: int) -> int:
    """Descriptor of a new ring buffer; it lives as long as a descriptor or a map holds it.

    Args:
        name: shown by tools, at most 15 characters.
        size_bytes: a power of two of whole pages.
    """
    descriptor = int(library().bpf_map_create(_BPF_MAP_TYPE_RINGBUF, name.encode(), 0, 0, size_bytes, None))
    if descriptor < 0:
        raise FabricError(f"cannot make a ring buffer of {size_bytes} bytes: {os.strerror(-descriptor)}")
    return descriptor


def _map_lookup(descriptor: Descriptor, index: int, value: Any, flags: int = 0) -> None:
    """Copies element *index* of an array; of a per-CPU array, the values of all CPUs."""
    if isinstance(descriptor, VirtualMap):
        code = 0 if descriptor.read(index, ctypes.addressof(value)) else -errno.ENOENT
    else:
        code = library().bpf_map_lookup_elem_flags(descriptor, byref(c_uint32(index)), byref(value), flags)
    if code:
        raise FabricError(f"cannot read element {index}: {os.strerror(-code)}")


def map_update(descriptor: Descriptor, key: c_uint32, value: Structure | c_uint32, flags: int = 0) -> None:
    """Stores one element of any map."""
    if isinstance(descriptor, VirtualMap):
        code = 0 if descriptor.write(key.value, value) else -errno.ENOENT
    else:
        code = library().bpf_map_update_elem(descriptor, byref(key), byref(value), flags)
    if code:
        raise FabricError(f"cannot write element {key.value}: {os.strerror(-code)}")


def map_freeze(descriptor: int) -> None:
    """Makes a map that nobody has mapped for writing read-only for user space, for good."""
    code = library().bpf_map_freeze(descriptor)
    if code:
        raise FabricError(f"cannot freeze a map: {os.strerror(-code)}")


_SAMPLE_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, c_void_p, c_void_p, ctypes.c_size_t)


class RingBuffer:
    """Consumer of a BPF ring buffer; `fileno` is readable when records wait."""

    def __init__(self, descriptor: int) -> None:
        self._records: list[bytes] = []
        self._limit: int | None = None
        self._callback = _SAMPLE_CALLBACK(self._take)
        self._ring = library().ring_buffer__new(descriptor, ctypes.cast(self._callback, c_void_p), None, None)
        if not self._ring:
            raise FabricError(f"cannot open a ring buffer: {os.strerror(ctypes.get_errno())}")

    def _take(self, _context: int, address: int, size: int) -> int:
        self._records.append(ctypes.string_at(address, size))
        return -1 if len(self._records) == self._limit else 0

    def fileno(self) -> int:
        """Descriptor to poll."""
        return int(library().ring_buffer__epoll_fd(self._ring))

    def drain(self, limit: int | None = None) -> list[bytes]:
        """All records that wait, or the first *limit* of them, oldest first.

        Without a limit it does not return as long as records come faster than they are read.

        Raises:
            ValueError: the ring buffer is closed.
        """
        if not self._ring:
            raise ValueError("the ring buffer is closed")
        self._limit = limit
        library().ring_buffer__consume(self._ring)
        records, self._records = self._records, []
        return records

    def close(self) -> None:
        if self._ring:
            library().ring_buffer__free(self._ring)
            self._ring = None


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
        lookup = library().bpf_map_lookup_batch
        lookup.restype = c_int
        lookup.argtypes = (c_int, *(c_void_p,) * 4, ctypes.POINTER(c_uint32), c_void_p)
        code = cast("Callable[..., int]", lookup)(
            self._descriptor, None, byref(cursor), self._keys, self._values, byref(count), None
        )
        if code:
            raise FabricError(f"cannot read map {self._name}: {os.strerror(-code)}")
        if count.value != self.length:
            raise FabricError(f"map {self._name} gave {count.value} of {self.length} elements")
        return self._view
