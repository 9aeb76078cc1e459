"""NICs that exist in this process: memory, QPs, and writes that happen when they are notified to."""

import ctypes
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from mrc_testbed.agents.nic.connection import Connection
from mrc_testbed.agents.nic.context import Context
from mrc_testbed.agents.nic.nic_maps import NicMaps
from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.workloads.connectors import MrcConnector
from mrc_testbed.workloads.transport import Transport

MEMORY_BYTES = 1 << 20


@dataclass
class Work:
    work_id: int
    arguments: dict[str, int]
    is_stopped: bool = False


@dataclass
class Qp:
    peer: "FakeNic"
    attributes: dict[str, int]
    evs: list[int]
    peer_qpn: int | None = None
    posted: list[Work] = field(default_factory=list)
    acknowledged_bytes: int = 0
    receives: int = 0
    arrived: int = 0
    polls: int = 0


def fake_transport(nics: list["FakeNic"], connector: MrcConnector) -> Transport:
    return Transport(
        connector, lambda host: Context(nics[int(host[1:])], cast("NicMaps", nics[int(host[1:])]))
    )


class FakeNic(Connection):
    """Agent and maps of one NIC; it writes at once when `is_instant`, else when `carry_out` is called."""

    def __init__(self, name: str, nics: list["FakeNic"], *, is_instant: bool = True) -> None:
        self.name = name
        self.is_instant = is_instant
        self.is_dead = False
        self.memory = ctypes.create_string_buffer(MEMORY_BYTES)
        self.regions: dict[int, tuple[int, int]] = {}
        self.qps: dict[int, Qp] = {}
        self.corrupt_byte: int | None = None
        self._nics = nics
        self._events: list[dict[str, Any]] = []
        self._near, self._far = socket.socketpair()
        self._numbers = iter(range(1, 1 << 20))
        self._time_ns = 0
        self.is_closed = False
        self.kinds: set[str] = set()

    # what the engine calls

    def fileno(self) -> int:
        return self._near.fileno()

    def hello(self) -> dict[str, Any]:
        return {"memory_bytes": MEMORY_BYTES, "host": self.name, "host_index": int(self.name[1:])}

    def subscribe(self, *kinds: str) -> None:
        self._check()
        self.kinds = set(kinds)

    @property
    def memory_address(self) -> int:
        return ctypes.addressof(self.memory)

    def acknowledged_bytes(self, qpn: int) -> int:
        return self.qps[qpn].acknowledged_bytes

    @property
    def has_events(self) -> bool:
        return bool(self._events) and not self.is_dead

    def call(self, verb: str, **arguments: Any) -> Any:
        raise NotImplementedError(verb)

    def cast(self, verb: str, **arguments: Any) -> None:
        try:
            getattr(self, verb)(**arguments)
        except UsageError as error:
            self.publish(event="refused", verb=verb, qpn=arguments["qpn"], error=error.message)

    def post_receive(self, qpn: int, count: int = 1) -> None:
        self.qps[qpn].receives += count

    def poll(self, qpn: int) -> list[dict[str, Any]]:
        self.qps[qpn].polls += 1
        return []

    def poll_receive(self, qpn: int) -> list[dict[str, Any]]:
        self.qps[qpn].polls += 1
        return []

    def drain_events(self) -> Iterator[dict[str, Any]]:
        self._check()
        events, self._events = self._events, []
        if events:
            self._near.recv(4096)
        yield from events

    def close(self) -> None:
        self.is_closed = True
        self._near.close()
        self._far.close()

    def register_memory(self, length: int) -> dict[str, int]:
        self._check()
        offset = max((start + size for start, size in self.regions.values()), default=0)
        r_key = next(self._numbers)
        self.regions[r_key] = (offset, length)
        return {"offset": offset, "length": length, "r_key": r_key}

    def deregister_memory(self, r_key: int) -> None:
        self._check()
        del self.regions[r_key]

    def create_qp(self, peer_host: int, evs: list[int] | None = None, *_: Any, **attributes: Any) -> int:
        self._check()
        qpn = 255 + next(self._numbers)
        self.qps[qpn] = Qp(self._nics[peer_host], attributes, evs or [])
        return qpn

    def connect_qp(self, qpn: int, peer_qpn: int, peer_first_psn: int | None = None) -> None:
        assert peer_first_psn is None
        assert peer_qpn in self.qps[qpn].peer.qps
        self.qps[qpn].peer_qpn = peer_qpn

    def destroy_qp(self, qpn: int) -> None:
        self._check()
        del self.qps[qpn]

    def post_write(self, qpn: int, **work: Any) -> int:
        self._check()
        posted = Work(next(self._numbers), work)
        self.qps[qpn].posted.append(posted)
        if self.is_instant:
            self.carry_out(qpn)
        return posted.work_id

    def stop_work(self, qpn: int, work_id: int) -> None:
        for work in self.qps[qpn].posted:
            if work.work_id == work_id:
                work.is_stopped = True
                if not self.is_instant:
                    self.carry_out(qpn, messages=0)

    # what tests call

    def carry_out(self, qpn: int, *, messages: int | None = None, status: str = "success") -> None:
        """Writes the messages of the oldest work of a QP and completes it."""
        qp = self.qps[qpn]
        work = qp.posted.pop(0)
        its = work.arguments
        count = its.get("iterations", 1) if messages is None else messages
        region, _ = qp.peer.regions[its["r_key"]]
        length = its["length"]
        for i in range(count):
            source = its["local_offset"] + i % its.get("local_slots", 1) * length
            place = region + its["remote_offset"] + i % its.get("remote_slots", 1) * length
            written = memoryview(self.memory).cast("B")[source : source + length]
            memoryview(qp.peer.memory).cast("B")[place : place + length] = written
            qp.acknowledged_bytes += length
        if self.corrupt_byte is not None:
            place = region + its["remote_offset"] + self.corrupt_byte
            qp.peer.memory[place] = bytes([qp.peer.memory[place][0] ^ 0xFF])
        self._time_ns += 1_000_000
        if its["immediate"] is not None and qp.peer_qpn is not None:
            qp.peer.receive(qp.peer_qpn, its["immediate"], length, count)
        self.publish(
            event="completion",
            qpn=qpn,
            work_id=work.work_id,
            iterations=count,
            status=status,
            time_ns=self._time_ns,
        )

    def receive(self, qpn: int, immediate: int, length: int, count: int) -> None:
        """Reports messages with an immediate that have arrived."""
        qp = self.qps[qpn]
        for _ in range(count):
            assert qp.arrived < qp.receives
            qp.arrived += 1
            self.publish(
                event="receive",
                qpn=qpn,
                number=qp.arrived,
                immediate=immediate,
                length=length,
                time_ns=time.monotonic_ns(),
            )

    def publish(self, **event: Any) -> None:
        if event["event"] not in self.kinds | {"refused"}:
            return
        self._events.append(event)
        self._far.send(b"!")

    def die(self) -> None:
        self.is_dead = True
        self._far.send(b"!")

    def refuse(self) -> None:
        raise UsageError("refused")

    def _check(self) -> None:
        if self.is_dead:
            raise AgentError(f"the NIC agent of {self.name} died")
