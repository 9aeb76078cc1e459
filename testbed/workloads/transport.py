"""What a workload asks of a transport: memory, connections, messages, and events.

    near, far = transport.connect("h0", "h5", seed)     two ends of one connection; both may send
    near.send(Message(...), source, target)             bytes of one region into another
    transport.events()                                  whenever transport.fileno() is readable

A workload knows nothing else of what carries its bytes, so the same one runs over any transport. A message
goes from a place in a region of one host to a place in a region of the other; with an immediate, the far end
gets an event when it has arrived whole, in the order of sending. `mrc_transport` is the one for MRC.

All times are CLOCK_MONOTONIC in ns. A transport belongs to one thread.
"""

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from agents.nic.pattern import count_wrong, fill

ARRIVALS_MAX: Final = 1 << 30
"""Messages with an immediate that an end lets in over its life, when asked once for all of them."""


class Region(ABC):
    """Memory of a host that messages are read from and written to, mapped into this process.

    Args:
        host: whose it is.
        address: in this process.
        length: in bytes.
    """

    def __init__(self, host: str, address: int, length: int) -> None:
        self.host = host
        self.address = address
        self.length = length

    @property
    def view(self) -> memoryview:
        """Its bytes, shared with the data path."""
        return memoryview((ctypes.c_char * self.length).from_address(self.address)).cast("B")

    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed* over an interval."""
        fill(self._place(offset, length), length, seed)

    def count_wrong(self, offset: int, length: int, seed: int) -> int:
        """How many bytes of an interval differ from the test pattern of *seed*."""
        return count_wrong(self._place(offset, length), length, seed)

    @abstractmethod
    def close(self) -> None:
        """Gives the memory back; nobody may write to it any more."""

    def _place(self, offset: int, length: int) -> int:
        if not 0 <= offset <= offset + length <= self.length:
            raise ValueError(f"{length} bytes at {offset} of a region of {self.length}")
        return self.address + offset


@dataclass(frozen=True, slots=True)
class Message:
    """Bytes to carry, once or several times over.

    Attributes:
        length: bytes of each message.
        source_offset: where the first is read, from the start of the source region.
        target_offset: where it goes, from the start of the target region.
        iterations: messages.
        depth: outstanding at most.
        source_slots: message i is read at source_offset + (i % source_slots) * length.
        target_slots: and written at target_offset + (i % target_slots) * length.
        immediate: 32 bits for the application at the far end, which then learns of each arrival.
    """

    length: int
    source_offset: int
    target_offset: int
    iterations: int = 1
    depth: int = 1
    source_slots: int = 1
    target_slots: int = 1
    immediate: int | None = None


class End(Protocol):
    """One end of a connection.

    Every method may raise AgentError: what carries the connection is gone.
    """

    @property
    def host(self) -> str:
        """Where it is."""

    @property
    def number(self) -> int:
        """By which tools of the transport know it: a QP number, a port."""

    def post(self, message: Message, source: Region, target: Region) -> int:
        """Id of work that was accepted; `Sent` reports its end.

        Raises:
            UsageError: it was refused.
        """

    def send(self, message: Message, source: Region, target: Region) -> None:
        """Posts without waiting and without hearing of the end; a refusal comes as `Failed`."""

    def stop(self, work_id: int) -> None:
        """Ends work after the messages that have begun."""

    def accept(self, count: int) -> None:
        """Lets so many more messages with an immediate come in."""

    def acknowledged_bytes(self) -> int:
        """Payload sent by this end and acknowledged for the first time, since it was made."""

    def close(self) -> None:
        """Takes this end out of use."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Posted work has ended; `error` is None when all of it arrived."""

    end: End
    work_id: int
    messages: int
    time_ns: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message with an immediate is whole at this end: the how-manieth from 1, and its bytes."""

    end: End
    number: int
    immediate: int
    length: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Failed:
    """An end can do no more."""

    end: End
    reason: str


@dataclass(frozen=True, slots=True)
class HostLost:
    """What serves a host has died, and all ends there with it."""

    host: str
    reason: str


Event = Sent | Arrived | Failed | HostLost


class Transport(Protocol):
    """Everything that one run has of a transport.

    Every method may raise AgentError: what serves a host died or did not answer.
    """

    def open(self, hosts: Sequence[str]) -> None:
        """Gets ready for these hosts; asked once, before anything else."""

    def memory_bytes(self, host: str) -> int:
        """What a host has for regions."""

    def register(self, host: str, length: int) -> Region:
        """A new zeroed region.

        Raises:
            UsageError: the host has no room for it.
        """

    def connect(self, source: str, target: str, seed: int) -> tuple[End, End]:
        """The ends at both hosts of a new connection.

        Args:
            source: a host.
            target: another one; both ends may send.
            seed: of every choice that is left to the transport, such as paths.

        Raises:
            UsageError: a host has no room for it.
        """

    def fileno(self) -> int:
        """Readable when there may be events."""

    @property
    def has_events(self) -> bool:
        """Whether events may wait although `fileno` is not readable."""

    def events(self) -> list[Event]:
        """What has happened, those of one host in their order; does not wait."""

    def close(self) -> None:
        """Lets go of everything; ends and regions are closed before."""
