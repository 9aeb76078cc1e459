"""Waiting for BPF programs that are running."""

import ctypes
import os
import platform
from typing import Final

from mrc_agents.errors import FabricError

_MEMBARRIER: Final = {"x86_64": 324, "aarch64": 283, "riscv64": 283}
_CMD_GLOBAL: Final = 1


def await_running_programs() -> None:
    """Returns when every BPF program that was running has ended; those that begin meanwhile may go on.

    Programs run inside an RCU read-side critical section, and membarrier(2) with MEMBARRIER_CMD_GLOBAL waits
    for a grace period. It takes about ten milliseconds.
    """
    number = _MEMBARRIER.get(platform.machine())
    if number is None:
        raise FabricError(f"membarrier: its number on {platform.machine()} is not known")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _CMD_GLOBAL, 0, 0):
        raise FabricError(
            f"membarrier: {os.strerror(ctypes.get_errno())}", hint="a kernel with nohz_full= refuses it"
        )
