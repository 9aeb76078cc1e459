"""The clock that BPF programs read, which a time namespace does not shift."""

import os
import struct
from typing import Final

from mrc_agents.bpf.libbpf import library, run_once
from mrc_agents.errors import FabricError

_PROGRAM_TYPE_XDP: Final = 6
_INSTRUCTION: Final = struct.Struct("=BBhi")
_KTIME_GET_NS: Final = 5
_PROGRAM: Final = (
    (0xBF, 0x16, 0, 0),  # r6 = r1: struct xdp_md
    (0x85, 0x00, 0, _KTIME_GET_NS),
    (0x61, 0x62, 0, 0),  # r2 = data
    (0x61, 0x63, 4, 0),  # r3 = data_end
    (0xBF, 0x24, 0, 0),  # r4 = r2
    (0x07, 0x04, 0, 8),  # r4 += 8
    (0x2D, 0x34, 1, 0),  # if r4 > r3 goto +1
    (0x7B, 0x02, 0, 0),  # *(u64 *)r2 = r0
    (0xB7, 0x00, 0, 2),  # r0 = XDP_PASS
    (0x95, 0x00, 0, 0),  # exit
)
"""Writes the time into the first eight bytes of its frame. Source: linux/bpf.h, struct bpf_insn."""


def kernel_ns() -> int:
    """The kernel's CLOCK_MONOTONIC as bpf_ktime_get_ns has it, in ns."""
    code = b"".join(_INSTRUCTION.pack(*instruction) for instruction in _PROGRAM)
    descriptor = library().bpf_prog_load(
        _PROGRAM_TYPE_XDP, b"kernel_clock", b"GPL", code, len(_PROGRAM), None
    )
    if descriptor < 0:
        raise FabricError(f"a BPF program that reads the clock is refused: {os.strerror(-descriptor)}")
    try:
        _, frame = run_once(descriptor, bytes(64))
    finally:
        os.close(descriptor)
    return int.from_bytes(frame[:8], "little")
