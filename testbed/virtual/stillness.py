"""Processes that do nothing: no thread of theirs computes, and none waits for a disk."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from mrc_testbed.agents.clock import machine_ns

_PROC: Final = Path("/proc")
_STATE, _PARENT, _SESSION, _USER, _SYSTEM = 0, 1, 3, 11, 12
"""Fields of proc_pid_stat(5), counted from behind the command."""

_TICK_NS: Final = 10**9 // os.sysconf("SC_CLK_TCK")
_IDLE_SHARE: Final = 0.01
"""Share of a core: a thread that looks around now and then does nothing."""


class Stillness:
    """Watches processes, and their children.

    Args:
        leaders: pids of the processes, each the leader of a session.
    """

    def __init__(self, leaders: Collection[int]) -> None:
        self._leaders = leaders
        self._since_ns = machine_ns()
        self._used_ns, _ = self._look()

    def still_ns(self) -> int:
        """Time for which they have done nothing, until now."""
        now_ns = machine_ns()
        used_ns, is_busy = self._look()
        idle_ns = _IDLE_SHARE * (now_ns - self._since_ns) + _TICK_NS
        if is_busy or used_ns - self._used_ns > idle_ns:
            self._since_ns, self._used_ns = now_ns, used_ns
        return now_ns - self._since_ns

    def _look(self) -> tuple[int, bool]:
        """CPU time that they have used, and whether a thread is running or waits for a disk."""
        used_ticks, is_busy = 0, False
        for pid in self._pids():
            for fields in _stats(_PROC / str(pid) / "task"):
                used_ticks += int(fields[_USER]) + int(fields[_SYSTEM])
                is_busy |= fields[_STATE] in {"R", "D"}
        return used_ticks * _TICK_NS, is_busy

    def _pids(self) -> list[int]:
        found = {int(fields[-1]): fields for fields in _stats(_PROC)}

        def is_ours(pid: int) -> bool:
            fields = found.get(pid)
            if fields is None:
                return False
            return int(fields[_SESSION]) in self._leaders or is_ours(int(fields[_PARENT]))

        return [pid for pid in found if is_ours(pid)]


def _stats(folder: Path) -> Iterator[list[str]]:
    """Fields of all processes or threads in a folder of proc(5), with the number behind them."""
    try:
        numbers = [path.name for path in folder.iterdir() if path.name.isdecimal()]
    except OSError:  # it has ended
        return
    for number in numbers:
        try:
            text = (folder / number / "stat").read_text()
        except OSError:
            continue
        yield [*text.rpartition(") ")[2].split(), number]
