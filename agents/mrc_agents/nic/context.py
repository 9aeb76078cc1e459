"""A NIC for programs, shaped like libibverbs: context, memory regions, queue pairs, completion queue.

    with open_nic(socket, pins) as nic:
        region = nic.register_memory(1 << 20)
        qp = nic.create_qp(peer_host)
        qp.post_write(region, remote)
        (done,) = nic.completions.wait()

Everything goes through the agent but the bytes: a region is the NIC's own memory, mapped into this process.
Workloads, benchmarks and docs/guide/scripting-a-nic.md use this. All times are CLOCK_MONOTONIC in ns. A
context belongs to one thread. Every method may raise AgentError: the agent died or did not answer.
"""

import ctypes
import select
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mrc_agents.bpf.libbpf import Pins
from mrc_agents.clock import Timeout
from mrc_agents.closing import Closing
from mrc_agents.errors import AgentError, UsageError
from mrc_agents.nic.client import AgentClient
from mrc_agents.nic.connection import Connection
from mrc_agents.nic.nic_maps import NicMaps
from mrc_agents.nic.pattern import count_wrong, fill

RECEIVES_MAX: Final = 1 << 30
"""Receives that a QP can be given over its life, when posted once for all of them."""

_EVENTS_PER_POLL: Final = 256
"""An agent keeps events until they are polled: at most so many of a QP."""


@dataclass(frozen=True, slots=True)
class RemoteRegion:
    """The data that a peer needs of a region to write into it."""

    r_key: int
    length: int


class MemoryRegion:
    """Registered memory.

    Attributes:
        offset: in the NIC's memory.
        length: bytes.
        address: in this process.
        remote: what the peer needs.
    """

    def __init__(self, context: "Context", offset: int, length: int, r_key: int) -> None:
        self.context = context
        self.offset, self.length = offset, length
        self.address = context.maps.memory.address + offset
        self.remote = RemoteRegion(r_key, length)

    @property
    def view(self) -> memoryview:
        """Its bytes; stores are what peers' NICs see, and the other way round."""
        return memoryview((ctypes.c_char * self.length).from_address(self.address)).cast("B")

    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed* over an interval."""
        fill(self._place(offset, length), length, seed)

    def count_wrong(self, offset: int, length: int, seed: int) -> int:
        """Count the bytes of an interval that differ from the test pattern of *seed*."""
        return count_wrong(self._place(offset, length), length, seed)

    def close(self) -> None:
        """Invalidates the key; nobody may write to it any more."""
        self.context.verbs.deregister_memory(self.remote.r_key)

    def _place(self, offset: int, length: int) -> int:
        if not 0 <= offset <= offset + length <= self.length:
            raise ValueError(f"{length} bytes at {offset} of a region of {self.length}")
        return self.address + offset


class QueuePair:
    """A QP of a context: of MRC or of a reliable connection."""

    def __init__(self, context: "Context", qpn: int) -> None:
        self.context = context
        self.qpn = qpn  # its number
        self.host = context.host  # name of the host that it is of
        self.outstanding: set[int] = set()
        self._unpolled = 0

    def exchange(self) -> dict[str, int]:
        """The data that the peer needs before the QPs connect, by whatever means: plain numbers."""
        asked = self.query()
        names = ("qpn", "host", "first_psn", "mpr_dest", "max_wimm_dest", "dynamic_mpr", "sack_every")
        return {name: asked[name] for name in names}

    def connect(self, peer: Mapping[str, int]) -> None:
        """Moves an MRC QP to RTS, using at most what both ends can take.

        Args:
            peer: what `exchange` of the far QP gave.

        Raises:
            UsageError: it is another host's than the QP was created for, or the ends disagree.
        """
        mine = self.query()
        if peer["host"] != mine["peer_host"]:
            raise UsageError(f"host: {peer['host']}; QP {self.qpn} was created for {mine['peer_host']}")
        if peer["dynamic_mpr"] != mine["dynamic_mpr"]:
            raise UsageError(f"dynamic_mpr: {mine['dynamic_mpr']} here, {peer['dynamic_mpr']} at the peer")
        verbs = self.context.verbs
        verbs.modify_qp(self.qpn, "RTR", peer_qpn=peer["qpn"], peer_first_psn=peer["first_psn"])
        verbs.modify_qp(
            self.qpn,
            "RTS",
            mpr=min(mine["mpr"], peer["mpr_dest"]),
            max_wimm=min(mine["max_wimm"], peer["max_wimm_dest"]),
        )

    def query(self) -> dict[str, Any]:
        """Attributes and state."""
        return self.context.verbs.query_qp(self.qpn)

    def post_write(
        self,
        local: MemoryRegion,
        remote: RemoteRegion,
        *,
        length: int | None = None,
        local_at: int = 0,
        remote_at: int = 0,
        immediate: int | None = None,
        **repeated: int,
    ) -> int:
        """Posts an RDMA WRITE, with immediate if one is given; the work request's id.

        Args:
            local: where the bytes are.
            remote: where they go.
            length: bytes; all of *local* from *local_at* on by default.
            local_at: offset in *local*.
            remote_at: offset in *remote*.
            immediate: 32 bits for the peer's application, which must have posted a receive.
            repeated: iterations, depth, local_slots and remote_slots of the verb `post_write`.

        Raises:
            UsageError: it does not fit the regions, or the QP is not in RTS.
        """
        size = local.length - local_at if length is None else length
        for name, at, region in (("local", local_at, local), ("remote", remote_at, remote)):
            if not 0 <= at <= at + size <= region.length:
                raise UsageError(f"{name}_at: {at}; {size} bytes do not fit a region of {region.length}")
        self.context.subscribe_completions()
        work = _work(local, remote, size, local_at, remote_at)
        work_id = self.context.verbs.post_write(self.qpn, **work, immediate=immediate, **repeated)
        self.outstanding.add(work_id)
        return work_id

    def send_write(
        self,
        local: MemoryRegion,
        remote: RemoteRegion,
        *,
        length: int,
        local_at: int,
        remote_at: int,
        immediate: int,
    ) -> None:
        """Posts without waiting and without a completion; a refusal is a QpError."""
        self.tally()
        work = _work(local, remote, length, local_at, remote_at)
        self.context.verbs.cast("post_write", qpn=self.qpn, **work, immediate=immediate)

    def stop_work(self, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        self.context.verbs.stop_work(self.qpn, work_id)

    def post_receive(self, count: int = 1) -> None:
        """Lets the peer's next *count* WRITEs with immediate come in."""
        self.context.verbs.post_receive(self.qpn, count)

    def acknowledged_bytes(self) -> int:
        """Payload acknowledged for the first time, read from the NIC's map."""
        return self.context.maps.acknowledged_bytes(self.qpn)

    def evs(self) -> list[dict[str, Any]]:
        """Every EV: state, reason, when it changed, packets, losses, marks, RTT."""
        return self.context.verbs.ev_list(self.qpn)

    def close(self) -> None:
        """Takes the QP out of use."""
        self.context.forget(self)
        self.context.verbs.destroy_qp(self.qpn)

    def tally(self) -> None:
        """Has the agent forget, now and then, what it keeps of messages sent and received."""
        self._unpolled += 1
        if self._unpolled == _EVENTS_PER_POLL:
            self._unpolled = 0
            self.context.verbs.cast("poll", qpn=self.qpn)
            self.context.verbs.cast("poll_receive", qpn=self.qpn)


def _work(
    local: MemoryRegion, remote: RemoteRegion, length: int, local_at: int, remote_at: int
) -> dict[str, int]:
    return {
        "length": length,
        "local_offset": local.offset + local_at,
        "remote_offset": remote_at,
        "r_key": remote.r_key,
    }


@dataclass(frozen=True, slots=True)
class Completion:
    """A work request has ended: its id, messages done, a status name such as `success`."""

    qp: QueuePair
    work_id: int
    iterations: int
    status: str
    time_ns: int

    @property
    def error(self) -> str | None:
        """The error, or None when all of it arrived."""
        return None if self.status == "success" else _failure(self.qp, self.status)

    def check(self) -> None:
        """Raises UsageError unless it was a success."""
        if self.status != "success":
            raise UsageError(f"work request {self.work_id} of QP {self.qp.qpn} ended with {self.status}")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A WRITE with immediate is whole at this end: the how-manieth from 1, and its bytes."""

    qp: QueuePair
    number: int
    immediate: int
    length: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class QpError:
    """A QP can do no more."""

    qp: QueuePair
    reason: str


QueueEntry = Completion | Arrival | QpError


class CompletionQueue:
    """The completions of all QPs of a context, in the order they are reported.

    It does not hold the context, so that the NIC's memory is unmapped as soon as nobody else does.

    Args:
        qps: of the context, by number.
    """

    def __init__(self, connection: Connection, host: str, qps: Mapping[int, QueuePair]) -> None:
        self._verbs, self._host, self._qps = connection, host, qps
        self._found: deque[QueueEntry] = deque()

    def fileno(self) -> int:
        """For select(): readable when there may be entries, or the agent has died."""
        return self._verbs.fileno()

    @property
    def has_entries(self) -> bool:
        """Return True if entries may wait although `fileno` is not readable."""
        return bool(self._found) or self._verbs.has_events

    def poll(self) -> list[QueueEntry]:
        """Those that wait, without waiting."""
        for fields in self._verbs.drain_events():
            self._take(fields)
        found = list(self._found)
        self._found.clear()
        return found

    def wait(self, count: int = 1, *, timeout_ns: int = 10_000_000_000) -> list[Any]:
        """The next *count* entries.

        Raises:
            AgentError: they did not come in time.
        """
        timeout = Timeout(timeout_ns)
        readable = select.poll()
        readable.register(self, select.POLLIN)
        found: list[QueueEntry] = []
        while len(found) < count:
            found += self.poll()
            step_ns = timeout.next_step_ns()
            if len(found) < count and not self._verbs.has_events:
                if step_ns <= 0:
                    self._found.extendleft(reversed(found))
                    host = self._host
                    raise AgentError(f"the NIC of {host} reported {len(found)} of {count} entries in time")
                readable.poll(max(1, step_ns // 1_000_000))
        self._found.extend(found[count:])
        return found[:count]

    def discard(self) -> None:
        """Forgets entries that nobody has asked for."""
        self._found.clear()

    def _take(self, fields: Mapping[str, Any]) -> None:
        qp = self._qps.get(fields.get("qpn", 0))
        if qp is None:
            return
        match fields["event"]:
            case "receive":
                qp.tally()
                entry = Arrival(
                    qp, fields["number"], fields["immediate"], fields["length"], fields["time_ns"]
                )
                self._found.append(entry)
            case "completion":
                qp.tally()
                self._complete(qp, fields)
            case "qp_state" if fields["to"] == "ERROR":
                self._found.append(QpError(qp, _failure(qp, fields["status"])))
                if qp.outstanding:  # work that it flushes has no events of its own
                    for flushed in self._verbs.poll(qp.qpn):
                        self._complete(qp, flushed)
            case "refused":
                reason = f"the NIC of {qp.host} refused a {fields['verb']}: {fields['error']}"
                self._found.append(QpError(qp, reason))

    def _complete(self, qp: QueuePair, fields: Mapping[str, Any]) -> None:
        work_id = fields["work_id"]
        if work_id in qp.outstanding:
            qp.outstanding.remove(work_id)
            entry = Completion(qp, work_id, fields["iterations"], fields["status"], fields["time_ns"])
            self._found.append(entry)


def _failure(qp: QueuePair, status: str) -> str:
    return f"QP {qp.qpn} of {qp.host} failed: {status}"


class Context(Closing):
    """The NIC of one host; a context manager. QPs and regions end with it.

    Attributes:
        verbs: the connection: every verb as docs/reference/verbs.md has it.
        maps: of the NIC.
        host: name of the host.
        host_index: its number.
        memory_bytes: size of the NIC's memory.
        completions: the completion queue of all its QPs.
        qps: QPs created here and not closed, by number.

    Raises:
        AgentError: the agent does not answer.
    """

    def __init__(self, connection: Connection, maps: NicMaps) -> None:
        self.verbs = connection
        self.maps = maps
        answer = connection.hello()
        self.host, self.host_index = str(answer["host"]), int(answer["host_index"])
        self.memory_bytes = int(answer["memory_bytes"])
        self.qps: dict[int, QueuePair] = {}
        self.completions = CompletionQueue(connection, self.host, self.qps)
        self._has_completions = False
        connection.subscribe("receive", "qp_state")

    def close(self) -> None:
        """Ends the connection, and with it QPs and regions.

        The NIC's memory stays mapped until the context and its QPs and regions are let go.
        """
        self.verbs.close()
        self.maps.close()
        self.qps.clear()
        self.completions.discard()

    def register_memory(self, length: int) -> MemoryRegion:
        """A new zeroed region of *length* bytes.

        Raises:
            UsageError: the NIC's memory has no room for it.
        """
        return MemoryRegion(self, **self.verbs.register_memory(length))

    def create_qp(self, peer_host: int, evs: Sequence[int] | None = None, **attributes: Any) -> QueuePair:
        """An MRC QP in INIT to the host with that index.

        Args:
            evs: EVs, plane by plane; by default 32 in each, spread over the uplinks.
            attributes: as docs/reference/verbs.md lists them; `ev_profile` among them.

        Raises:
            UsageError: an attribute is out of range; the message names it.
        """
        if evs is not None:
            attributes["evs"] = list(evs)
        return self._opened(self.verbs.create_qp(peer_host, **attributes))

    def create_rc_qp(self, peer_host: int, evs: Sequence[int], **attributes: Any) -> QueuePair:
        """A QP of a reliable connection in INIT; see docs/reference/verbs.md."""
        return self._opened(self.verbs.create_rc_qp(peer_host, list(evs), **attributes))

    def forget(self, qp: QueuePair) -> None:
        """Events of a QP are dropped from now on."""
        self.qps.pop(qp.qpn, None)

    def subscribe_completions(self) -> None:
        """Asks for events of completions; a program that only sends is spared one per message."""
        if not self._has_completions:
            self._has_completions = True
            self.verbs.subscribe("completion", "receive", "qp_state")

    def _opened(self, qpn: int) -> QueuePair:
        qp = self.qps[qpn] = QueuePair(self, qpn)
        return qp


def open_nic(socket: Path, pins: Pins) -> Context:
    """The NIC whose agent listens at *socket* and whose maps are pinned in the folder *pins*.

    Raises:
        AgentError: the agent does not answer.
        FabricError: a map is missing or of another layout.
    """
    maps = NicMaps(pins)
    try:
        return Context(AgentClient(socket), maps)
    except AgentError:
        maps.close()
        raise
