"""Warnings of a busy machine before a run, and advice after an UNTRUSTED one."""

import os
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Self

import psutil

from mrc_agents.clock import monotonic_ns
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import read_state
from mrc_testbed.scenario.measure.verdict import Status

LOOK_S: Final = 0.5
BUSY_RATIO: Final = 0.125
"""Share of all CPUs: below it the ready scenarios keep their limits (docs/explanation/fidelity.md)."""

_KTHREADD: Final = 2
_SHOWN: Final = 2

_WHAT_TO_DO: Final = (
    "run it when the machine is quiet, with --retry-untrusted N, with a lower port_rate, or with --virtual, "
    "which is exact on any machine"
)


@dataclass(frozen=True, slots=True)
class OtherLoad:
    """CPU time that other programs took over an interval."""

    ratio: float  # share of all CPUs, 0 to 1
    programs: Mapping[str, float]  # name -> share of all CPUs, the greatest first

    @property
    def is_busy(self) -> bool:
        """Return True if it is enough to make a run late."""
        return self.ratio > BUSY_RATIO

    def __str__(self) -> str:
        named = ", ".join(f"{name} {share:.0%}" for name, share in list(self.programs.items())[:_SHOWN])
        return f"other programs take {self.ratio:.0%} of the machine's CPUs ({named})"


class ProcessTimes:
    """CPU time that each process has used by a moment; kernel threads, which serve the lab, are left out."""

    def __init__(self, time_ns: int, used_s: Mapping[tuple[int, float], tuple[str, float]]) -> None:
        self._time_ns = time_ns
        self._used_s = used_s

    @classmethod
    def now(cls) -> Self:
        found = {}
        for process in psutil.process_iter(["name", "cpu_times", "create_time", "ppid"]):
            info = process.info
            if info["ppid"] != _KTHREADD and process.pid != _KTHREADD and info["cpu_times"] is not None:
                used_s = info["cpu_times"].user + info["cpu_times"].system
                found[process.pid, info["create_time"]] = (info["name"], used_s)
        return cls(monotonic_ns(), found)

    def load_since(self, earlier: Self, spared: Collection[int] = ()) -> OtherLoad:
        """CPU time since *earlier* of processes that are still there.

        Args:
            earlier: the beginning of the interval.
            spared: processes that are ours; this one and its descendants are left out anyway.
        """
        ours = {os.getpid(), *spared, *(child.pid for child in psutil.Process().children(recursive=True))}
        used_s: dict[str, float] = {}
        for (pid, created), (name, now_s) in self._used_s.items():
            if pid not in ours:
                before_s = earlier._used_s.get((pid, created), (name, 0.0))[1]
                used_s[name] = used_s.get(name, 0.0) + now_s - before_s
        all_s = max(self._time_ns - earlier._time_ns, 1) / 1e9 * (os.cpu_count() or 1)
        greatest_first = sorted(used_s.items(), key=lambda used: used[1], reverse=True)
        programs = {name: seconds / all_s for name, seconds in greatest_first if seconds > 0}
        return OtherLoad(sum(programs.values()), programs)


def look_at_load(spared: Collection[int] = ()) -> OtherLoad:
    """CPU use of other programs right now; takes LOOK_S."""
    before = ProcessTimes.now()
    threading.Event().wait(LOOK_S)
    return ProcessTimes.now().load_since(before, spared)


class MachineWatch:
    """Watch other programs around a run, and warn when they take much of the machine.

    Args:
        lab: name of the lab; its processes are not others.
    """

    def __init__(self, settings: Settings, lab: str) -> None:
        self._settings = settings
        self._lab = lab
        self._before = ProcessTimes.now()
        found = look_at_load(self._ours())
        if found.is_busy:
            say(settings.stderr, f"warning: {found}: this run may be UNTRUSTED; --virtual is exact")

    def begin(self) -> None:
        self._before = ProcessTimes.now()

    def explain(self, status: Status, retries: int = 0) -> None:
        """Print advice about a run that ended as *status*, when it is UNTRUSTED.

        Args:
            retries: how often it is repeated from here.
        """
        if status is not Status.UNTRUSTED:
            return
        found = ProcessTimes.now().load_since(self._before, self._ours())
        cause = f"{found} meanwhile" if found.is_busy else "no other program took much of the machine"
        then = f"repeating it, {retries} left" if retries else _WHAT_TO_DO
        say(self._settings.stderr, f"hint:  the run is UNTRUSTED; {cause}; {then}")

    def _ours(self) -> list[int]:
        state = read_state(lab_paths(self._lab))
        return [] if state is None else [process.pid for process in state.processes]
