"""Loads BPF objects and runs their programs: the only module that calls libbpf.

A `BpfObject` is opened, configured (read-only data, map sizes, maps to reuse) and loaded in one step; file
descriptors of its maps and programs live as long as it does. Maps and programs meant to outlive the process
are pinned.

Needs libbpf 1.0 or newer (libbpf.so.1).
"""

import ctypes
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from mrc_agents.bpf.refusal import ObjectRefusedError
from mrc_agents.bpf.virtual import VirtualFolder, VirtualMap, VirtualProgram
from mrc_agents.closing import Closing
from mrc_agents.errors import FabricError, PreflightError
from mrc_agents.objects import how_to_build

XDP_FLAGS_SKB_MODE = 1 << 1
XDP_FLAGS_DRV_MODE = 1 << 2
_BPF_F_TEST_XDP_LIVE_FRAMES = 1 << 1
_LOG_BYTES = 4 << 20
_PRINT_CALLBACK = ctypes.CFUNCTYPE(c_int, c_int, c_char_p, c_void_p)


class _OpenOptions(Structure):
    """struct bpf_object_open_opts of libbpf 1.x; later fields stay zero."""

    _fields_ = (
        ("sz", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", c_char_p),
        ("attach_prog_fd", c_uint32),
        ("kconfig", c_char_p),
        ("btf_custom_path", c_char_p),
        ("kernel_log_buf", c_void_p),
        ("kernel_log_size", c_size_t),
        ("kernel_log_level", c_uint32),
    )


class _TestRunOptions(Structure):
    """struct bpf_test_run_opts."""

    _fields_ = (
        ("sz", c_size_t),
        ("data_in", c_void_p),
        ("data_out", c_void_p),
        ("data_size_in", c_uint32),
        ("data_size_out", c_uint32),
        ("ctx_in", c_void_p),
        ("ctx_out", c_void_p),
        ("ctx_size_in", c_uint32),
        ("ctx_size_out", c_uint32),
        ("retval", c_uint32),
        ("repeat", c_int),
        ("duration", c_uint32),
        ("flags", c_uint32),
        ("cpu", c_uint32),
        ("batch_size", c_uint32),
    )


class _XdpMd(Structure):
    """struct xdp_md."""

    _fields_ = tuple(
        (name, c_uint32)
        for name in ("data", "data_end", "data_meta", "ingress_ifindex", "rx_queue_index", "egress_ifindex")
    )


_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "bpf_object__open_file": (c_void_p, (c_char_p, POINTER(_OpenOptions))),
    "bpf_object__load": (c_int, (c_void_p,)),
    "bpf_object__close": (None, (c_void_p,)),
    "bpf_object__find_map_by_name": (c_void_p, (c_void_p, c_char_p)),
    "bpf_object__find_program_by_name": (c_void_p, (c_void_p, c_char_p)),
    "bpf_object__next_map": (c_void_p, (c_void_p, c_void_p)),
    "bpf_object__next_program": (c_void_p, (c_void_p, c_void_p)),
    "bpf_program__name": (c_char_p, (c_void_p,)),
    "bpf_program__set_autoload": (c_int, (c_void_p, c_bool)),
    "bpf_map__name": (c_char_p, (c_void_p,)),
    "bpf_map__fd": (c_int, (c_void_p,)),
    "bpf_map__set_max_entries": (c_int, (c_void_p, c_uint32)),
    "bpf_map__reuse_fd": (c_int, (c_void_p, c_int)),
    "bpf_map__initial_value": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "bpf_program__fd": (c_int, (c_void_p,)),
    "bpf_obj_pin": (c_int, (c_int, c_char_p)),
    "bpf_obj_get": (c_int, (c_char_p,)),
    "bpf_xdp_attach": (c_int, (c_int, c_int, c_uint32, c_void_p)),
    "bpf_xdp_detach": (c_int, (c_int, c_uint32, c_void_p)),
    "bpf_prog_load": (c_int, (c_int, c_char_p, c_char_p, c_void_p, c_size_t, c_void_p)),
    "bpf_prog_test_run_opts": (c_int, (c_int, POINTER(_TestRunOptions))),
    "bpf_map_lookup_elem": (c_int, (c_int, c_void_p, c_void_p)),
    "bpf_map_lookup_elem_flags": (c_int, (c_int, c_void_p, c_void_p, c_uint64)),
    "bpf_map_update_elem": (c_int, (c_int, c_void_p, c_void_p, c_uint64)),
    "bpf_map_update_batch": (c_int, (c_int, c_void_p, c_void_p, c_void_p, c_void_p)),
    "bpf_map_delete_elem": (c_int, (c_int, c_void_p)),
    "bpf_map_freeze": (c_int, (c_int,)),
    "bpf_map_create": (c_int, (c_int, c_char_p, c_uint32, c_uint32, c_uint32, c_void_p)),
    "bpf_obj_get_info_by_fd": (c_int, (c_int, c_void_p, POINTER(c_uint32))),
    "libbpf_num_possible_cpus": (c_int, ()),
    "ring_buffer__new": (c_void_p, (c_int, c_void_p, c_void_p, c_void_p)),
    "ring_buffer__free": (None, (c_void_p,)),
    "ring_buffer__consume": (c_int, (c_void_p,)),
    "ring_buffer__epoll_fd": (c_int, (c_void_p,)),
    "libbpf_set_print": (c_void_p, (c_void_p,)),
}


@cache
def library() -> ctypes.CDLL:
    """The loaded libbpf with its signatures declared."""
    try:
        lib = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError as error:
        raise PreflightError(
            "libbpf.so.1 cannot be loaded", hint="install it: apt-get install libbpf1"
        ) from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(lib, name, None)
        if function is None:
            raise PreflightError(f"libbpf lacks {name}", hint="libbpf 1.0 or newer is needed")
        function.restype = result
        function.argtypes = arguments
    lib.libbpf_set_print(None)
    return lib


def _raise_errno(what: str, code: int | None = None) -> None:
    number = abs(code) if code else ctypes.get_errno()
    raise FabricError(f"{what}: {os.strerror(number)} (errno {number})")


class BpfObject(Closing):
    """One loaded object file.

    Args:
        rodata: bytes for what the object lets its loader set: its section .rodata.config, or .rodata where it
            has no such; their length must be exactly its length.
        max_entries: map name -> number of entries.
        reuse: map name -> descriptor of an existing map; the object takes those that it declares itself.
        programs: names of the programs to load, the others cost the verifier nothing; None: all.
    """

    def __init__(
        self,
        path: Path,
        *,
        rodata: bytes | None = None,
        max_entries: Mapping[str, int] | None = None,
        reuse: Mapping[str, int] | None = None,
        programs: Collection[str] | None = None,
    ) -> None:
        if not path.is_file():
            raise PreflightError(f"BPF object {path} is missing", hint=how_to_build("setup"))
        self.path = path
        self._lib = library()
        self._log = ctypes.create_string_buffer(_LOG_BYTES)
        options = _OpenOptions(sz=ctypes.sizeof(_OpenOptions))
        options.kernel_log_buf = ctypes.cast(self._log, c_void_p).value
        options.kernel_log_size = _LOG_BYTES
        options.kernel_log_level = 0
        self._object = self._lib.bpf_object__open_file(str(path).encode(), byref(options))
        if not self._object:
            _raise_errno(f"cannot open {path}")
        try:
            self._configure(rodata, max_entries or {}, reuse or {})
            if programs is not None:
                self._choose(programs)
            self._load()
        except BaseException:
            self.close()
            raise

    def _configure(
        self, rodata: bytes | None, max_entries: Mapping[str, int], reuse: Mapping[str, int]
    ) -> None:
        for name, count in max_entries.items():
            self._check(self._lib.bpf_map__set_max_entries(self._map(name), count), f"size of map {name}")
        for name in set(self.map_names()) & reuse.keys():
            self._check(self._lib.bpf_map__reuse_fd(self._map(name), reuse[name]), f"reuse of map {name}")
        if rodata is not None:
            size = c_size_t()
            address = self._lib.bpf_map__initial_value(
                self._section(".rodata.config", ".rodata"), byref(size)
            )
            if size.value != len(rodata):
                raise FabricError(f"{self.path}: .rodata has {size.value} bytes, {len(rodata)} were given")
            ctypes.memmove(address, rodata, len(rodata))

    def _choose(self, programs: Collection[str]) -> None:
        for name, pointer in self._programs():
            self._check(self._lib.bpf_program__set_autoload(pointer, name in programs), f"choice of {name}")

    def _programs(self) -> Iterator[tuple[str, int]]:
        pointer = None
        while pointer := self._lib.bpf_object__next_program(self._object, pointer):
            yield self._lib.bpf_program__name(pointer).decode(), int(pointer)

    def _load(self) -> None:
        code = self._lib.bpf_object__load(self._object)
        if code:
            raise ObjectRefusedError(self.path.name, -code, self._log.value.decode(errors="replace").strip())

    def _check(self, code: int, what: str) -> None:
        if code:
            _raise_errno(f"{self.path.name}: {what}", code)

    def _map(self, name: str) -> int:
        pointer = self._lib.bpf_object__find_map_by_name(self._object, name.encode())
        if not pointer:
            raise FabricError(f"{self.path.name} has no map {name}")
        return int(pointer)

    def _section(self, *suffixes: str) -> int:
        found = {}
        pointer = None
        while pointer := self._lib.bpf_object__next_map(self._object, pointer):
            found[self._lib.bpf_map__name(pointer).decode()] = int(pointer)
        for suffix in suffixes:
            for name, section in found.items():
                if name.endswith(suffix):
                    return section
        raise FabricError(f"{self.path.name} has no section {suffixes[-1]}")

    def map_names(self) -> list[str]:
        """Names of the object's maps but for its data sections."""
        names = []
        pointer = None
        while pointer := self._lib.bpf_object__next_map(self._object, pointer):
            name = self._lib.bpf_map__name(pointer).decode()
            if "." not in name:
                names.append(name)
        return names

    def map_fd(self, name: str) -> int:
        """Descriptor of a map, valid until `close`."""
        return int(self._lib.bpf_map__fd(self._map(name)))

    def program_fd(self, name: str) -> int:
        """Descriptor of a program, valid until `close`."""
        pointer = self._lib.bpf_object__find_program_by_name(self._object, name.encode())
        if not pointer:
            raise FabricError(f"{self.path.name} has no program {name}")
        descriptor = int(self._lib.bpf_program__fd(pointer))
        if descriptor < 0:
            raise FabricError(f"program {name} of {self.path.name} was not to be loaded")
        return descriptor

    def verified_instructions(self) -> int:
        """Instructions that the verifier went through when it accepted the object's largest program
        (kernel 5.16 or newer).
        """
        most = 0
        for _, pointer in self._programs():
            program_fd = int(self._lib.bpf_program__fd(pointer))
            if program_fd < 0:
                continue  # not loaded
            most = max(most, int(program_facts(program_fd)["verified_insns"]))
        return most

    def close(self) -> None:
        """Close the descriptors; pinned and attached objects stay."""
        if self._object:
            self._lib.bpf_object__close(self._object)
            self._object = None


def pin(descriptor: int, path: Path) -> None:
    """Pins a map or program at *path*, which must lie on a bpffs and be free."""
    code = library().bpf_obj_pin(descriptor, str(path).encode())
    if code:
        _raise_errno(f"cannot pin {path}", code)


def open_pinned(path: Path) -> int:
    """A new descriptor of the map or program pinned at *path*; the caller closes it."""
    descriptor = int(library().bpf_obj_get(str(path).encode()))
    if descriptor < 0:
        _raise_errno(f"cannot open the pin {path}", descriptor)
    return descriptor


Pins = Path | VirtualFolder
"""A folder of pinned maps and programs, or what stands for it in virtual time."""


def open_map_in(opened: ExitStack, folder: Pins, name: str) -> int | VirtualMap:
    """The map pinned under *name* in *folder*, closed with *opened*."""
    if isinstance(folder, VirtualFolder):
        return folder.map_fd(name)
    return open_pinned_in(opened, folder, name)


def open_pinned_in(opened: ExitStack, folder: Path, name: str) -> int:
    """A descriptor of the map or program pinned under *name* in *folder*, closed with *opened*."""
    descriptor = open_pinned(folder / name)
    opened.callback(os.close, descriptor)
    return descriptor


def attach_xdp(ifindex: int, program_fd: int, flags: int = XDP_FLAGS_DRV_MODE) -> None:
    """Attaches an XDP program, native by default, in the calling thread's network namespace."""
    code = library().bpf_xdp_attach(ifindex, program_fd, flags, None)
    if code:
        _raise_errno(f"cannot attach XDP to interface {ifindex}", code)


def detach_xdp(ifindex: int) -> None:
    """Detaches the XDP programs of an interface, native and generic; none is success."""
    for flags in (XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE):
        code = library().bpf_xdp_detach(ifindex, flags, None)
        if code:
            _raise_errno(f"cannot detach XDP from interface {ifindex}", code)


def program_facts(program_fd: int) -> dict[str, str]:
    """Facts of a loaded program by the names of its fdinfo, such as prog_id and verified_insns."""
    lines = Path(f"/proc/self/fdinfo/{program_fd}").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def run_live(program: int | VirtualProgram, frame: bytes, repeat: int, batch: int = 64) -> None:
    """Runs an XDP program on *repeat* live frames: what it redirects really leaves.

    The program must be attached to some interface, else each call costs tens of milliseconds. A recycled page
    keeps the bytes and the length that an earlier run gave it, so the program must set both.
    """
    if isinstance(program, VirtualProgram):
        program.run(repeat)
        return
    buffer = ctypes.create_string_buffer(frame, len(frame))
    options = _TestRunOptions(
        sz=ctypes.sizeof(_TestRunOptions),
        data_in=ctypes.cast(buffer, c_void_p),
        data_size_in=len(frame),
        repeat=repeat,
        flags=_BPF_F_TEST_XDP_LIVE_FRAMES,
        batch_size=min(batch, repeat),
    )
    code = library().bpf_prog_test_run_opts(program, byref(options))
    if code:
        _raise_errno("live-frame run", code)


def run_once(
    program_fd: int, frame: bytes, *, ingress_ifindex: int = 0, metadata: bytes = b"", repeat: int = 1
) -> tuple[int, bytes]:
    """Runs an XDP program once on a copy of *frame*, that comes in through *ingress_ifindex* (0: lo), or
    *repeat* times on what the run before has left of it.

    Returns:
        The XDP verdict and the frame as the program left it, after its metadata if it has any.
    """
    source = ctypes.create_string_buffer(metadata + frame, len(metadata) + len(frame))
    result = ctypes.create_string_buffer(4096)
    context = _XdpMd(data=len(metadata), data_end=len(source), ingress_ifindex=ingress_ifindex)
    options = _TestRunOptions(
        sz=ctypes.sizeof(_TestRunOptions),
        data_in=ctypes.cast(source, c_void_p),
        data_size_in=len(source),
        data_out=ctypes.cast(result, c_void_p),
        data_size_out=len(result),
        repeat=repeat,
    )
    if ingress_ifindex or metadata:
        options.ctx_in = ctypes.cast(byref(context), c_void_p)
        options.ctx_size_in = ctypes.sizeof(context)
    code = library().bpf_prog_test_run_opts(program_fd, byref(options))
    if code:
        _raise_errno("test run", code)
    return options.retval, result.raw[: options.data_size_out]
