"""BPF programs and maps of one lab, whatever other labs the machine has."""

import ctypes
import os
from contextlib import ExitStack
from pathlib import Path

from mrc_agents.bpf.libbpf import library, open_pinned_in

BpfObjects = frozenset[tuple[str, int]]
"""Each by kind, `prog` or `map`, and by its id, which the kernel gives to no other for a long time."""

_MAPS_PER_PROGRAM_MAX = 64


class _ProgramInfo(ctypes.Structure):
    """The head of struct bpf_prog_info."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("tag", ctypes.c_uint8 * 8),
        ("jited_bytes", ctypes.c_uint32),
        ("translated_bytes", ctypes.c_uint32),
        ("jited", ctypes.c_uint64),
        ("translated", ctypes.c_uint64),
        ("load_time_ns", ctypes.c_uint64),
        ("uid", ctypes.c_uint32),
        ("map_count", ctypes.c_uint32),
        ("map_ids", ctypes.c_uint64),
    )


def objects_of(pins: Path) -> BpfObjects:
    """The objects pinned below a folder, all programs that use one of these maps, and the maps of those."""
    found = {_pinned(path) for path in pins.rglob("*") if not path.is_dir()}
    programs = _maps_of_programs()
    size = 0
    while size != len(found):
        size = len(found)
        for program, maps in programs.items():
            if ("prog", program) in found or not found.isdisjoint(maps):
                found |= {("prog", program)} | maps
    return frozenset(found)


def living(objects: BpfObjects) -> BpfObjects:
    """Those that the kernel still lists.

    None is opened: a map of programs that is let go of while it is being emptied stays for good (Linux 6.18).
    """
    return objects & {(kind, number) for kind in ("prog", "map") for number in _ids(kind)}


def _pinned(path: Path) -> tuple[str, int]:
    with ExitStack() as opened:
        descriptor = open_pinned_in(opened, path.parent, path.name)
        facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    numbers = dict(line.split(":", 1) for line in facts)
    kind = "map" if "map_id" in numbers else "prog"
    return kind, int(numbers[f"{kind}_id"])


def _maps_of_programs() -> dict[int, set[tuple[str, int]]]:
    """Maps of all programs of the machine, by program id."""
    found = {}
    for program in _ids("prog"):
        descriptor = library().bpf_prog_get_fd_by_id(program)
        if descriptor < 0:
            continue  # it went meanwhile
        try:
            ids = (ctypes.c_uint32 * _MAPS_PER_PROGRAM_MAX)()
            info = _ProgramInfo(map_count=len(ids), map_ids=ctypes.addressof(ids))
            size = ctypes.c_uint32(ctypes.sizeof(info))
            code = library().bpf_obj_get_info_by_fd(descriptor, ctypes.byref(info), ctypes.byref(size))
        finally:
            os.close(descriptor)
        assert code == 0
        assert info.map_count <= len(ids)
        found[program] = {("map", map_id) for map_id in ids[: info.map_count]}
    return found


def _ids(kind: str) -> list[int]:
    """Ids of all programs, or maps, of the machine."""
    next_id = getattr(library(), f"bpf_{kind}_get_next_id")
    found = []
    number = ctypes.c_uint32(0)
    while next_id(number, ctypes.byref(number)) == 0:
        found.append(number.value)
    return found
