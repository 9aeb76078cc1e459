"""A NIC for programs: memory regions as byte views, queue pairs and completion queues as objects.

Names follow libmrc and libibverbs. Everything goes through the agent but the bytes: a region is the NIC's own
memory, mapped into this process. docs/guide/scripting-a-nic.md shows how it is used.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agents.bpf.libbpf import open_pinned
from agents.bpf.maps import MappedMemory
from agents.clock import monotonic_ns
from agents.errors import UsageError
from agents.nic.client import AgentClient

AUTO_EVS_PER_PLANE = 32


@dataclass(frozen=True, slots=True)
class RemoteRegion:
    """What a peer has to know of a region so that it can write into it."""

    r_key: int
    length: int


@dataclass(frozen=True, slots=True)
class Completion:
    """A work request that has ended: its id, the QP, messages done, a status name such as `success`."""

    work_id: int
    qpn: int
    iterations: int
    status: str
    time_ns: int

    def check(self) -> None:
        """Raises UsageError unless it was a success."""
        if self.status != "success":
            raise UsageError(f"work request {self.work_id} of QP {self.qpn} ended with {self.status}")


class MemoryRegion:
    """Registered memory.

    Attributes:
        view: its bytes; stores are what peers' NICs see, and the other way round.
        offset: in the NIC's memory.
        length: bytes.
        r_key: its key.
    """

    def __init__(self, context: "Context", offset: int, length: int, r_key: int, view: memoryview) -> None:
        self._context = context
        self.offset, self.length, self.r_key, self.view = offset, length, r_key, view

    @property
    def remote(self) -> RemoteRegion:
        """What the peer needs."""
        return RemoteRegion(self.r_key, self.length)

    def deregister(self) -> None:
        """Invalidates the key."""
        self.view.release()
        self._context.client.deregister_memory(self.r_key)


class QueuePair:
    """A QP of a context.

    Attributes:
        qpn: its number.
    """

    def __init__(self, context: "Context", qpn: int) -> None:
        self._context = context
        self.qpn = qpn

    def exchange(self) -> dict[str, int]:
        """What the peer has to know before the QPs connect, by whatever means: plain numbers."""
        asked = self.query()
        names = ("qpn", "host", "first_psn", "mpr_dest", "max_wimm_dest", "dynamic_mpr", "sack_every")
        return {name: asked[name] for name in names}

    def connect(self, peer: Mapping[str, int]) -> None:
        """Moves the QP to RTS, using at most what both ends can take.

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
        client = self._context.client
        client.modify_qp(self.qpn, "RTR", peer_qpn=peer["qpn"], peer_first_psn=peer["first_psn"])
        client.modify_qp(
            self.qpn,
            "RTS",
            mpr=min(mine["mpr"], peer["mpr_dest"]),
            max_wimm=min(mine["max_wimm"], peer["max_wimm_dest"]),
        )

    def query(self) -> dict[str, Any]:
        """Attributes and state."""
        result: dict[str, Any] = self._context.client.call("query_qp", qpn=self.qpn)
        return result

    def post_write(
        self,
        local: MemoryRegion,
        remote: RemoteRegion,
        *,
        length: int | None = None,
        local_at: int = 0,
        remote_at: int = 0,
        immediate: int | None = None,
    ) -> int:
        """Posts an RDMA WRITE, with immediate if one is given; the work request's id.

        Args:
            local: where the bytes are.
            remote: where they go.
            length: bytes; all of *local* from *local_at* on by default.
            local_at: offset in *local*.
            remote_at: offset in *remote*.
            immediate: 32 bits for the peer's application, which must have posted a receive.

        Raises:
            UsageError: it does not fit the regions, or the QP is not in RTS.
        """
        size = local.length - local_at if length is None else length
        for name, at, room in (("local", local_at, local.length), ("remote", remote_at, remote.length)):
            if not 0 <= at <= at + size <= room:
                raise UsageError(f"{name}_at: {at}; {size} bytes do not fit a region of {room}")
        work = {
            "length": size,
            "local_offset": local.offset + local_at,
            "remote_offset": remote_at,
            "r_key": remote.r_key,
        }
        if immediate is not None:
            work["immediate"] = immediate
        return self._context.client.post_write(self.qpn, **work)

    def post_receive(self, count: int = 1) -> None:
        """Lets the peer's next *count* WRITEs with immediate come in."""
        self._context.client.post_receive(self.qpn, count)

    def poll_receive(self) -> list[dict[str, Any]]:
        """WRITEs with immediate that have arrived, in order."""
        return self._context.client.poll_receive(self.qpn)

    def evs(self) -> list[dict[str, Any]]:
        """Every EV: state, reason, when it changed, packets, losses, marks, RTT."""
        return self._context.client.ev_list(self.qpn)

    def destroy(self) -> None:
        """Takes the QP out of use."""
        self._context.client.destroy_qp(self.qpn)


class CompletionQueue:
    """Completions of all QPs of a context, in the order they are reported."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._found: deque[Completion] = deque()

    def poll(self) -> list[Completion]:
        """Those that wait, without waiting."""
        for event in self._context.events.drain_events():
            self._take(event)
        found = list(self._found)
        self._found.clear()
        return found

    def wait(self, count: int = 1, *, timeout_ns: int = 10_000_000_000) -> list[Completion]:
        """The next *count* completions.

        Raises:
            AgentError: they did not come in time.
        """
        deadline_ns = monotonic_ns() + timeout_ns
        while len(self._found) < count:
            self._take(self._context.events.next_event(max(1, deadline_ns - monotonic_ns())))
        return [self._found.popleft() for _ in range(count)]

    def _take(self, event: Mapping[str, Any]) -> None:
        """An event only says that there is something: also work that a failed QP flushes is polled."""
        if event["qpn"] in self._context.qpns:
            for done in self._context.client.poll(event["qpn"]):
                self._found.append(Completion(qpn=event["qpn"], **done))


class Context:
    """The NIC of one host; a context manager. QPs and regions end with it.

    Args:
        socket: of its agent.
        pins: folder of the NIC's pinned maps.

    Attributes:
        client: the verbs as they are.
        events: a second connection, on which events come.
        host: name of the host.
        host_index: its number.
        completions: the completion queue of all its QPs.
        qpns: numbers of the QPs created here.

    Raises:
        AgentError: the agent does not answer.
    """

    def __init__(self, socket: Path, pins: Path) -> None:
        self.client = AgentClient(socket)
        self.events = AgentClient(socket)
        self.events.subscribe("completion", "qp_state")
        answer = self.client.hello()
        self.host, self.host_index = str(answer["host"]), int(answer["host_index"])
        descriptor = open_pinned(pins / "memory")
        try:
            self._memory = MappedMemory(descriptor)
        finally:
            os.close(descriptor)
        self.qpns: set[int] = set()
        self.completions = CompletionQueue(self)
        self._ev_profile: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections, and with them QPs and regions."""
        self.client.close()
        self.events.close()

    def query_device(self) -> dict[str, Any]:
        """What the NIC can do."""
        result: dict[str, Any] = self.client.call("query_device")
        return result

    def register_memory(self, length: int) -> MemoryRegion:
        """A new zeroed region of *length* bytes.

        Raises:
            UsageError: the NIC's memory has no room for it.
        """
        region = self.client.register_memory(length)
        view = self._memory.view[region["offset"] : region["offset"] + length]
        return MemoryRegion(self, region["offset"], length, region["r_key"], view)

    def create_qp(self, peer_host: int, evs: Sequence[int] | None = None, **attributes: Any) -> QueuePair:
        """A QP in INIT to the host with that index.

        Args:
            peer_host: index.
            evs: EVs, plane by plane; those of an AUTO profile by default.
            attributes: as docs/reference/verbs.md lists them; `ev_profile` among them.

        Raises:
            UsageError: an attribute is out of range; the message names it.
        """
        if evs is not None:
            attributes["evs"] = list(evs)
        elif "ev_profile" not in attributes:
            attributes["ev_profile"] = self._auto_profile()
        qpn = int(self.client.call("create_qp", peer_host=peer_host, **attributes))
        self.qpns.add(qpn)
        return QueuePair(self, qpn)

    def probe(
        self, peer_host: int, evs: Sequence[int], *, wait_ns: int = 1_000_000_000
    ) -> list[dict[str, Any]]:
        """One EV probe to a host on each of *evs*, without a QP: `ev`, `port`, `req_id`, `rtt_ns` or None."""
        return self.client.probe_evs(peer_host, list(evs), wait_ns)

    def _auto_profile(self) -> int:
        """An AUTO profile that is ONLINE: one there is already, or a new one that stays for others."""
        if self._ev_profile is None:
            count = AUTO_EVS_PER_PLANE * self.query_device()["ev_count_alignment"]
            wanted = {"mode": "AUTO", "state": "ONLINE", "count": count, "min_active": None}
            for profile in self.client.call("list_ev_profiles"):
                if wanted.items() <= profile.items():
                    self._ev_profile = int(profile["profile_id"])
                    return self._ev_profile
            self._ev_profile = int(self.client.call("create_ev_profile", mode="AUTO", count=count))
            for state in ("OFFLINE", "ONLINE"):
                self.client.call("modify_ev_profile", profile_id=self._ev_profile, state=state)
        return self._ev_profile
