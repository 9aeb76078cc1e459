"""CPU time of the machine, interrupts and the kernel's own threads included."""

from pathlib import Path

_TICKS_PER_S = 100
_BUSY_FIELDS = (0, 1, 2, 5, 6)  # of /proc/stat: user, nice, system, irq, softirq


def busy_s() -> float:
    """CPU time the machine has been busy for since it was started, over all cores."""
    first = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(int(first[field]) for field in _BUSY_FIELDS) / _TICKS_PER_S
