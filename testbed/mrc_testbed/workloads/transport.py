"""The transport of messages of workloads: the NICs of a lab, and how two QPs of them come to be connected.

    transport = Transport(connector, open_nic)
    near, far = transport.connect("h0", "h5", seed)     two ends of one connection; both may send
    transport.events()                                  whenever transport.fileno() is readable

MRC and reliable connections differ in their connector (connectors.py); the ends are
mrc_agents.nic.context.QueuePair for all. A transport belongs to one thread.
"""

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mrc_agents.nic.context import Context, MemoryRegion, QueueEntry, QueuePair
from mrc_testbed.errors import AgentError


@dataclass(frozen=True, slots=True)
class HostLost:
    """The process that serves a host has died, and all on it ends."""

    host: str
    reason: str


Event = QueueEntry | HostLost


class Connector(Protocol):
    """The method to connect two NICs."""

    def connect(self, near: Context, far: Context, seed: int) -> tuple[QueuePair, QueuePair]:
        """The ends of a new connection; *seed* decides every choice left to it, such as paths."""


class Transport:
    """Everything that one run has of a transport.

    Every method may raise AgentError: what serves a host died or did not answer.

    Args:
        open_nic: the NIC of a host, by name.
    """

    def __init__(self, connector: Connector, open_nic: Callable[[str], Context]) -> None:
        self._connector = connector
        self._open_nic = open_nic
        self._nics: dict[str, Context] = {}
        self._epoll = select.epoll()
        self._host_of: dict[int, str] = {}
        self._attended: dict[str, Context] = {}

    def open(self, hosts: Sequence[str]) -> None:
        """Gets ready for these hosts; asked once, before anything else."""
        for host in hosts:
            nic = self._nics[host] = self._attended[host] = self._open_nic(host)
            self._attend(nic)

    def memory_bytes(self, host: str) -> int:
        """Size of a host's memory for regions."""
        return self._nics[host].memory_bytes

    def register(self, host: str, length: int) -> MemoryRegion:
        """A new zeroed region."""
        return self._nics[host].register_memory(length)

    def connect(self, source: str, target: str, seed: int) -> tuple[QueuePair, QueuePair]:
        """The QPs at both hosts of a new connection; see Connector."""
        return self._connector.connect(self._nics[source], self._nics[target], seed)

    def sending_of(self, qp: QueuePair) -> tuple[int, int] | None:  # noqa: ARG002 - of other transports
        """Packets that a QP may have in flight, and payload bytes of one; None: only its agent posts."""
        return None

    def fileno(self) -> int:
        """Readable when there may be events."""
        return self._epoll.fileno()

    @property
    def has_events(self) -> bool:
        """Return True if events may wait although `fileno` is not readable."""
        return any(nic.completions.has_entries for nic in self._attended.values())

    def events(self) -> list[Event]:
        """Events so far, those of one host in their order; does not wait."""
        events: list[Event] = []
        for nic in self._ready():
            try:
                events += nic.completions.poll()
            except AgentError as error:
                self._forget(nic)
                del self._attended[nic.host]
                events.append(HostLost(nic.host, f"the NIC agent of {nic.host} is lost: {error.message}"))
        return events

    def close(self) -> None:
        """Ends the connections; the agents take back what is left of them."""
        for nic in self._nics.values():
            nic.close()
        self._nics.clear()
        self._attended.clear()
        self._epoll.close()

    # -- how NICs are waited for

    def _attend(self, nic: Context) -> None:
        self._epoll.register(nic.completions.fileno(), select.EPOLLIN)
        self._host_of[nic.completions.fileno()] = nic.host

    def _ready(self) -> list[Context]:
        """The NICs that may have events."""
        ready = {host: None for host, nic in self._attended.items() if nic.completions.has_entries}
        ready |= dict.fromkeys(self._host_of[number] for number, _ in self._epoll.poll(0))
        return [self._attended[host] for host in ready]

    def _forget(self, nic: Context) -> None:
        self._epoll.unregister(nic.completions.fileno())
