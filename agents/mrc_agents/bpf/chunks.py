"""Memory in chunks: array maps that an array of maps names, end to end in one stretch of addresses.

The kernel takes a new value of an array of maps and then waits until no program uses the old one; kernels
from 6.8 on wait once for all values of one call. What the kernel refuses is an OSError.
"""

import ctypes
import errno
import mmap
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from ctypes import Structure, byref, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from mrc_agents.abi import Limit
from mrc_agents.bpf.libbpf import library, open_pinned_in
from mrc_agents.bpf.maps import map_info
from mrc_agents.errors import FabricError

_BPF_MAP_TYPE_ARRAY = 2
_BPF_F_MMAPABLE = 1 << 10
_BPF_F_INNER_MAP = 1 << 12
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_PROT_NONE = 0
_SPACE_BYTES = Limit.MEMORY_CHUNK * Limit.MEMORY_CHUNKS
_KEY_BYTES = 4
_MAP_FAILED = c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = c_void_p
_libc.mmap.argtypes = (c_void_p, c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (c_void_p, c_size_t)


class _CreateOptions(Structure):
    """struct bpf_map_create_opts of libbpf 1.0; later fields stay zero."""

    _fields_ = (
        ("sz", c_size_t),
        ("btf_fd", c_uint32),
        ("btf_key_type_id", c_uint32),
        ("btf_value_type_id", c_uint32),
        ("btf_vmlinux_value_type_id", c_uint32),
        ("inner_map_fd", c_uint32),
        ("map_flags", c_uint32),
        ("map_extra", c_uint64),
        ("numa_node", c_uint32),
        ("map_ifindex", c_uint32),
    )


class _Space(ctypes.c_char * _SPACE_BYTES):  # type: ignore[misc]
    """Addresses of all memory that there may be; views of it keep it mapped."""


def chunk_pin(index: int) -> str:
    return f"memory_{index}"


def chunk_segments(memory_bytes: int) -> list[int]:
    """Segments of each chunk of a memory; the last chunk may have fewer than the others."""
    starts = range(0, memory_bytes, Limit.MEMORY_CHUNK)
    return [min(memory_bytes - start, Limit.MEMORY_CHUNK) // Limit.MEMORY_SEGMENT for start in starts]


def create_chunk(segments: int) -> int:
    """Descriptor of a new zeroed chunk."""
    options = _CreateOptions(sz=ctypes.sizeof(_CreateOptions), map_flags=_BPF_F_MMAPABLE | _BPF_F_INNER_MAP)
    descriptor = int(
        library().bpf_map_create(
            _BPF_MAP_TYPE_ARRAY, b"memory_chunk", _KEY_BYTES, Limit.MEMORY_SEGMENT, segments, byref(options)
        )
    )
    if descriptor < 0:
        raise OSError(-descriptor, os.strerror(-descriptor))
    return descriptor


def insert_chunks(memory: int, chunks: Mapping[int, int]) -> None:
    """Lets the kernel find chunks.

    Args:
        memory: descriptor of the array of maps.
        chunks: descriptors by number.
    """
    keys = (c_uint32 * len(chunks))(*chunks)
    values = (c_uint32 * len(chunks))(*chunks.values())
    code = library().bpf_map_update_batch(memory, keys, values, byref(c_uint32(len(chunks))), None)
    if code:
        raise OSError(-code, os.strerror(-code))


def remove_maps(outer: int, indexes: Iterable[int]) -> None:
    """Has the kernel find chunks, or other inner maps, no more; those that are not there cost a look each."""
    identity = c_uint32()
    for index in indexes:
        key = c_uint32(index)
        if library().bpf_map_lookup_elem(outer, byref(key), byref(identity)) == 0:
            code = library().bpf_map_delete_elem(outer, byref(key))
            if code:
                raise OSError(-code, os.strerror(-code))


def open_chunks(opened: ExitStack, folder: Path) -> list[int]:
    """Descriptors of the pinned chunks, in order: those that a NIC has from the start."""
    count = sum(1 for _ in folder.glob(chunk_pin(0)[:-1] + "*"))
    return [open_pinned_in(opened, folder, chunk_pin(index)) for index in range(count)]


class ChunkedMemory:
    """Chunks as one writable stretch of bytes, in which there are gaps.

    Args:
        memory: descriptor of the array of maps.
        chunks: descriptors of those that it has from the start; they stay the caller's.
    """

    def __init__(self, memory: int, chunks: Sequence[int]) -> None:
        self._memory = memory
        self._chunks = dict(enumerate(chunks))
        self.address = _map(None, _SPACE_BYTES, -1)  # of its first byte
        space = _Space.from_address(self.address)
        weakref.finalize(space, _libc.munmap, self.address, _SPACE_BYTES).atexit = False
        # all bytes that there may be; those without memory must not be touched
        self.view = memoryview(space).cast("B")
        self.length_bytes = 0  # of the chunks that it has from the start
        for index, descriptor in self._chunks.items():
            self.length_bytes += self._show(index, descriptor)

    def _show(self, index: int, descriptor: int) -> int:
        info = map_info(descriptor)
        if info.value_size != Limit.MEMORY_SEGMENT:
            raise FabricError(f"map {info.name.decode()} does not hold segments of memory")
        length = int(info.value_size * info.max_entries)
        _map(self.address + index * Limit.MEMORY_CHUNK, length, descriptor)
        return length

    def descriptor(self, index: int) -> int | None:
        """The map of a chunk; None: there is no such chunk."""
        return self._chunks.get(index)

    def add(self, indexes: Iterable[int]) -> None:
        """Adds whole chunks, all or none."""
        made: dict[int, int] = {}
        try:
            for index in indexes:
                made[index] = create_chunk(Limit.MEMORY_CHUNK // Limit.MEMORY_SEGMENT)
                self._show(index, made[index])
            insert_chunks(self._memory, made)
        except OSError:
            self._drop(made)
            raise
        self._chunks |= made

    def remove(self, indexes: Iterable[int]) -> None:
        """Takes away chunks that were added; another thread may do it."""
        self._drop({index: self._chunks.pop(index) for index in indexes})

    def _drop(self, chunks: Mapping[int, int]) -> None:
        try:
            remove_maps(self._memory, chunks)
        finally:
            for index, descriptor in chunks.items():
                _map(self.address + index * Limit.MEMORY_CHUNK, Limit.MEMORY_CHUNK, -1)
                os.close(descriptor)


def _map(address: int | None, length: int, descriptor: int) -> int:
    """Maps a chunk at an address, or nothing (-1); anywhere where no address is given."""
    kind = mmap.MAP_SHARED if descriptor >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    protection = mmap.PROT_READ | mmap.PROT_WRITE if descriptor >= 0 else _PROT_NONE
    flags = kind if address is None else kind | _MAP_FIXED
    found = _libc.mmap(address, length, protection, flags, descriptor, 0)
    if found is None or found == _MAP_FAILED:
        number = ctypes.get_errno() or errno.ENOMEM
        raise OSError(number, os.strerror(number))
    return int(found)
