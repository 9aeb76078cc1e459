"""Jobs: on ports with and without a rate, over both transports, with a fault or none. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

SECOND_NS: Final = 1_000_000_000
HOSTS_PER_T0: Final = 4
"""Hosts in each of the two rows of the default topology."""

TRANSPORTS: Final = {"mrc": "MRC", "rocev2": "RoCEv2-like"}


@dataclass(frozen=True, slots=True)
class Ports:
    """A fabric and how long a job runs on it."""

    name: str  # on the command line
    title: str  # for people
    topology: dict[str, Any]  # keys of a Topology file
    lead_steps: int  # steps before the fault begins
    fault_ns: int  # how long it lasts
    steps: int  # of the whole job


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as `mrc-testbed fault add` has it, without its end."""

    name: str
    title: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """One launch of the training script."""

    ports: Ports
    transport: str
    fault: Fault | None
    steps: int

    @property
    def lead_steps(self) -> int:
        """Steps before the fault begins, of a short job a third of all."""
        return min(self.ports.lead_steps, self.steps // 3)

    @property
    def title(self) -> str:
        """In a line of progress."""
        fault = self.fault.title if self.fault else "no fault"
        return f"{self.ports.title}, {TRANSPORTS[self.transport]}: {fault}"


PORTS: Final = {
    each.name: each
    for each in (
        Ports("unshaped", "ports without a rate", {"t1": 4}, 30, 5 * SECOND_NS, 200),
        Ports("shaped", "4 x 25 Mbit/s", {"t1": 4, "port_rate": "25Mbit"}, 20, 5 * SECOND_NS, 80),
    )
}

FAULTS: Final = {
    each.name: each
    for each in (
        Fault(
            "flaps",
            "T0-T1 flaps",
            (
                "link-flap",
                "--link",
                "p0-t0-0:4,p0-t0-0:5,p0-t0-0:6,p0-t0-0:7",
                "--every",
                "500ms",
                "--down",
                "150ms",
            ),
        ),
        Fault("dead-t1", "a dead T1", ("switch-down", "--node", "p0-t1-0")),
        Fault("lost-plane", "a lost plane", ("plane-down", "--plane", "0")),
        Fault("gray-link", "a gray link", ("loss", "--link", "p0-t0-0:4", "--ratio", "5%")),
    )
}


def jobs(ports: Ports, transports: Sequence[str], faults: Sequence[str], steps: int | None) -> Iterator[Job]:
    """The jobs on some ports: for each transport one without a fault, then one for each fault."""
    for transport in transports:
        for fault in (None, *(FAULTS[name] for name in faults)):
            yield Job(ports, transport, fault, steps or ports.steps)


def across(ranks: int) -> list[str]:
    """Hosts of the ranks: each neighbour in the ring is behind the other T0, so that all crosses T1s."""
    return [f"h{HOSTS_PER_T0 * (rank % 2) + rank // 2}" for rank in range(ranks)]
