"""A node that writes whatever it likes into the maps of its own NIC."""

import ctypes
import random
from contextlib import ExitStack
from pathlib import Path

from mrc_agents.bpf.libbpf import library, open_pinned_in
from mrc_agents.bpf.maps import map_info

_ARRAY, _PER_CPU_ARRAY = 2, 6
_ELEMENTS = 8
_VALUE_BYTES_MAX = 1 << 20


def scribble(pins: Path, chance: random.Random, *, elements: int = _ELEMENTS) -> int:
    """Writes random bytes over some elements of every array in a folder; how many took them."""
    written = 0
    copies = int(library().libbpf_num_possible_cpus())
    for pin in sorted(pins.iterdir()):
        with ExitStack() as opened:
            descriptor = open_pinned_in(opened, pins, pin.name)
            info = map_info(descriptor)  # of a program it is nonsense, and no update is taken
            if info.type not in {_ARRAY, _PER_CPU_ARRAY} or info.value_size > _VALUE_BYTES_MAX:
                continue
            size = (info.value_size + 7 & ~7) * (copies if info.type == _PER_CPU_ARRAY else 1)
            for _ in range(elements):
                key = ctypes.c_uint32(chance.randrange(info.max_entries))
                value = chance.randbytes(size)
                written += library().bpf_map_update_elem(descriptor, ctypes.byref(key), value, 0) == 0
    return written
