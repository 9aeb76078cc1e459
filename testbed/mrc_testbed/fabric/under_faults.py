"""The deviations that faults want of a lab, which are neither problems nor fixed."""

from dataclasses import dataclass
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class UnderFaults:
    """Parts of a lab that faults keep from working."""

    hosts: frozenset[str] = frozenset()  # names of those whose agent is stopped or dead
    ports: frozenset[int] = frozenset()  # ids of those that are down, or down at times

    def __or__(self, other: Self) -> "UnderFaults":
        return UnderFaults(self.hosts | other.hosts, self.ports | other.ports)


NO_FAULTS: Final = UnderFaults()
