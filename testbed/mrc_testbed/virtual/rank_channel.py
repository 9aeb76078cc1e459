"""The channel between a rank and the simulation that carries its collectives.

A rank is an ordinary process: mrc-torch in it reports over a socket pair which operations it starts and when,
in virtual time, and for which of them it waits. Messages are JSON documents; the bytes of an operation are in
shared memory that the rank passes along (memfd_create(2)).

    rank        {"do": "start", "id": 1, "at_ns": ..., "operation": "all_reduce", "ranks": [0, 1], "group": 5,
                 "number": 0, "arguments": [1000, 0, 0]}      and the memory
                {"do": "wait", "in": null, "ids": [1]}        its program waits for operations
    simulation  {"id": 1, "at_ns": ..., "error": null}        it has ended; the memory has the result
    rank        {"do": "go_on", "in": null}                   its program waits no more
                {"do": "took", "id": 1}                       all that follows from the end was done
                {"do": "outside"}                             its program waits for others, until it sleeps
                {"do": "sleep", "until_ns": ...}              its program sleeps, until now if that is later
    simulation  {"now_ns": ...}                               it is awake
    simulation  {}                                            where is its program?
    rank        {"do": "where", "place": "at train.py:12, in wait (threading.py:327)"}

What follows the end of an operation may wait too: it has the id of that operation as its `in`. Threads beside
that of the program have numbers below 0.
"""

import ctypes
import json
import mmap
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from mrc_testbed.workloads.rank_network import Piece

CHANNEL_VARIABLE: Final = "MRC_TESTBED_VIRTUAL_FD"
"""Number of a rank's descriptor of its channel."""

MESSAGE_BYTES_MAX: Final = 1 << 20


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", defer_build=True)


class Start(_Message):
    """An operation begins at this rank."""

    do: Literal["start"]
    id: int  # of the rank, for the answer
    at_ns: int  # when, in virtual time
    operation: Literal["all_reduce", "reduce_scatter", "all_gather", "exchange"]
    ranks: tuple[int, ...]  # of its group, in the order of their indices
    # group, number: name the group, and the operation in it, on all ranks
    group: int
    number: int
    # of the library's function, behind the data: elements, type and reduction, or chunk bytes
    arguments: tuple[int, ...] = ()
    # out, in_: of an exchange, by index in the group
    out: tuple[Piece, ...] = ()
    in_: tuple[Piece, ...] = Field(default=(), alias="in")

    @property
    def needed(self) -> set[int]:
        """Ranks without which it does not end."""
        if self.operation != "exchange":
            return set(self.ranks)
        pieces = zip(self.ranks, self.out, self.in_, strict=True)
        return {rank for rank, (_, sent_bytes), (_, bytes_) in pieces if sent_bytes or bytes_}


class Wait(_Message):
    do: Literal["wait"]
    in_: int | None = Field(alias="in")
    ids: tuple[int, ...]


class GoOn(_Message):
    do: Literal["go_on"]
    in_: int | None = Field(alias="in")


class Took(_Message):
    do: Literal["took"]
    id: int


class Outside(_Message):
    do: Literal["outside"]


class Sleep(_Message):
    do: Literal["sleep"]
    until_ns: int


class Where(_Message):
    do: Literal["where"]
    place: str


Message = Start | Wait | GoOn | Took | Outside | Sleep | Where
_MESSAGE: Final[TypeAdapter[Message]] = TypeAdapter(
    Annotated[Message, Field(discriminator="do")], config=ConfigDict(defer_build=True)
)


class Shared:
    """Memory of a rank that the simulation works on."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, 0)
        self._held = (ctypes.c_char * len(self._map)).from_buffer(self._map)
        self.address = ctypes.addressof(self._held)  # in this process

    def close(self) -> None:
        del self._held
        self._map.close()


@dataclass(frozen=True, slots=True)
class Received:
    """A message, and the memory that came with it."""

    message: Message
    shared: Shared | None


class ChannelError(Exception):
    """A rank sent something that is no message."""


class RankChannel:
    """The simulation's end.

    Attributes:
        near: the rank's end, which its process inherits.
        is_closed: whether the rank's process has closed it.
    """

    def __init__(self) -> None:
        self._far, self.near = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._far.setblocking(False)

        self.is_closed = False

    def fileno(self) -> int:
        return self._far.fileno()

    def receive(self) -> Iterator[Received]:
        """Messages that are there, oldest first."""
        while True:
            try:
                text, descriptors, _, _ = socket.recv_fds(self._far, MESSAGE_BYTES_MAX, 1)
            except BlockingIOError:
                return
            except ConnectionResetError:
                text = b""
            if not text:
                self.is_closed = True
                return
            try:
                yield Received(_MESSAGE.validate_json(text), Shared(descriptors[0]) if descriptors else None)
            except ValidationError as error:
                raise ChannelError(str(error.errors()[0]["msg"])) from error
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def send(self, **fields: Any) -> None:
        """Send the rank an answer; one that is gone does not mind."""
        try:
            self._far.send(json.dumps(fields).encode())
        except (BrokenPipeError, ConnectionResetError):
            return

    def close(self) -> None:
        self._far.close()
        self.near.close()
