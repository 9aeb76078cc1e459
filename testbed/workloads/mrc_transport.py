"""MRC as a transport: connections are QPs driven through the NIC agents, memory is the NICs' own, mapped."""

import random
import select
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agents.nic.client import AgentClient
from agents.nic.qp import PSN_BITS
from testbed.errors import AgentError
from testbed.fabric.live import Lab
from testbed.topology.clos import Clos
from testbed.topology.ev_set import build_ev_set
from testbed.transport.congestion import CongestionControl, choose_congestion_control
from testbed.workloads.nic_access import NicConnection, NicMaps, NicView
from testbed.workloads.transport import Arrived, End, Event, Failed, HostLost, Message, Region, Sent

_SUCCESS: Final = "success"

_EVENTS_PER_POLL: Final = 256
"""An agent keeps events until they are polled: at most so many of a QP."""


@dataclass(frozen=True, slots=True)
class QpShape:
    """What all QPs of a run have in common.

    Attributes:
        evs: EVs of a QP over all planes; None for the topology's.
        congestion: congestion control; None for what fits the fabric.
    """

    evs: int | None = None
    congestion: CongestionControl | None = None


class MrcRegion(Region):
    """A registered region.

    Attributes:
        offset: in the NIC's memory.
        r_key: what the peer names it by.
    """

    def __init__(self, host: str, nic: NicConnection, maps: NicView, made: dict[str, int]) -> None:
        super().__init__(host, maps.memory_address + made["offset"], made["length"])
        self._nic = nic
        self._maps = maps  # keeps the memory mapped
        self.offset = made["offset"]
        self.r_key = made["r_key"]

    def close(self) -> None:
        """Invalidates the key."""
        self._nic.deregister_memory(self.r_key)


class MrcEnd:
    """A QP."""

    def __init__(
        self,
        host: str,
        nic: NicConnection,
        maps: NicView,
        qpn: int,
        touched: Callable[[], None],
        listen: Callable[[], None],
    ) -> None:
        self._host = host
        self._nic = nic
        self._maps = maps
        self._qpn = qpn
        self._touched = touched
        self._listen = listen
        self._unpolled = 0

    @property
    def host(self) -> str:
        """Where it is."""
        return self._host

    @property
    def number(self) -> int:
        """QP number."""
        return self._qpn

    def post(self, message: Message, source: Region, target: Region) -> int:
        """Id of a work request that was accepted."""
        self._listen()
        self._touched()
        return self._nic.post_write(self._qpn, **_work(message, source, target))

    def send(self, message: Message, source: Region, target: Region) -> None:
        """Posts without waiting."""
        self.count_event()
        self._nic.cast("post_write", qpn=self._qpn, **_work(message, source, target))

    def count_event(self) -> None:
        """Has the agent forget, now and then, what it keeps of messages sent and received."""
        self._unpolled += 1
        if self._unpolled == _EVENTS_PER_POLL:
            self._unpolled = 0
            self._nic.cast("poll", qpn=self._qpn)
            self._nic.cast("poll_receive", qpn=self._qpn)

    def stop(self, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        self._touched()
        self._nic.stop_work(self._qpn, work_id)

    def accept(self, count: int) -> None:
        """Posts receives."""
        self._touched()
        self._nic.post_receive(self._qpn, count)

    def acknowledged_bytes(self) -> int:
        """Payload acknowledged for the first time, read from the NIC's map."""
        return self._maps.acknowledged_bytes(self._qpn)

    def close(self) -> None:
        """Destroys the QP."""
        self._touched()
        self._nic.destroy_qp(self._qpn)


def _work(message: Message, source: Region, target: Region) -> dict[str, int]:
    """The arguments of post_write."""
    if not isinstance(source, MrcRegion) or not isinstance(target, MrcRegion):
        raise TypeError("a region of another transport")
    work = {
        "length": message.length,
        "local_offset": source.offset + message.source_offset,
        "remote_offset": message.target_offset,
        "r_key": target.r_key,
        "iterations": message.iterations,
        "depth": message.depth,
        "local_slots": message.source_slots,
        "remote_slots": message.target_slots,
    }
    return work if message.immediate is None else work | {"immediate": message.immediate}


class MrcTransport:
    """The NICs of a lab.

    Args:
        clos: the lab's topology.
        connect: a new connection to the NIC agent of a host.
        look: the maps of a host's NIC.
        shape: of every QP.
    """

    def __init__(
        self,
        clos: Clos,
        connect: Callable[[str], NicConnection],
        look: Callable[[str], NicView],
        shape: QpShape,
    ) -> None:
        self._clos = clos
        self._connect = connect
        self._look = look
        self._shape = shape
        self._nics: dict[str, NicConnection] = {}
        self._maps: dict[str, NicView] = {}
        self._memory_bytes: dict[str, int] = {}
        self._ends: dict[tuple[str, int], MrcEnd] = {}
        self._touched: dict[str, None] = {}  # asked for something since their events were last taken
        self._completion_hosts: set[str] = set()
        self._epoll = select.epoll()
        self._host_of: dict[int, str] = {}

    def open(self, hosts: Sequence[str]) -> None:
        """Connects to the agents of these hosts and maps their memory."""
        for host in hosts:
            self._maps[host] = self._look(host)
            nic = self._nics[host] = self._connect(host)
            self._memory_bytes[host] = nic.hello()["memory_bytes"]
            nic.subscribe("receive", "qp_state")
            self._epoll.register(nic.fileno(), select.EPOLLIN)
            self._host_of[nic.fileno()] = host

    def memory_bytes(self, host: str) -> int:
        """Size of the NIC's memory."""
        return self._memory_bytes[host]

    def register(self, host: str, length: int) -> Region:
        """A new memory region."""
        self._touched[host] = None
        nic = self._nics[host]
        return MrcRegion(host, nic, self._maps[host], nic.register_memory(length))

    def connect(self, source: str, target: str, seed: int) -> tuple[End, End]:
        """Two QPs that are connected."""
        drawn, psns = random.Random(seed), random.Random(f"first PSNs {seed}")
        with ExitStack() as undone:
            psn, back_psn = (psns.getrandbits(PSN_BITS) for _ in range(2))
            there = {"first_psn": psn, "peer_first_psn": back_psn}
            back = {"first_psn": back_psn, "peer_first_psn": psn}
            near = self._end(source, self._create_qp(source, target, drawn, there))
            undone.callback(near.close)
            far = self._end(target, self._create_qp(target, source, drawn, back))
            undone.callback(far.close)
            self._nics[target].connect_qp(far.number, near.number)
            self._nics[source].connect_qp(near.number, far.number)
            undone.pop_all()
        return near, far

    def fileno(self) -> int:
        """Readable when an agent has sent something."""
        return self._epoll.fileno()

    @property
    def has_events(self) -> bool:
        """Whether events may have been read along with answers."""
        return bool(self._touched)

    def events(self) -> list[Event]:
        """Events that the agents have reported."""
        hosts = self._touched | {self._host_of[fileno]: None for fileno, _ in self._epoll.poll(0)}
        self._touched.clear()  # the dictionary stays: every end notes itself in it
        events: list[Event] = []
        for host in hosts:
            if host in self._host_of.values():
                events += self._events_of(host)
        return events

    def close(self) -> None:
        """Ends the connections; the agents take back what is left of them."""
        for nic in self._nics.values():
            nic.close()
        for maps in self._maps.values():
            maps.close()
        self._nics.clear()
        self._maps.clear()
        self._ends.clear()
        self._epoll.close()

    def _end(self, host: str, qpn: int) -> MrcEnd:
        self._touched[host] = None
        touch = partial(self._touched.__setitem__, host, None)
        listen = partial(self._subscribe_completions, host)
        end = MrcEnd(host, self._nics[host], self._maps[host], qpn, touch, listen)
        self._ends[host, qpn] = end
        return end

    def _create_qp(self, host: str, peer: str, drawn: random.Random, psns: dict[str, int]) -> int:
        """Number of a new QP of *host* that leads to *peer*; *psns* are the first ones of both directions."""
        own, far = self._clos.node(host).index, self._clos.node(peer).index
        spec = self._clos.spec
        if self._shape.evs is not None:
            spec = spec.model_copy(update={"nic": spec.nic.model_copy(update={"evs": self._shape.evs})})
        congestion = self._shape.congestion or choose_congestion_control(self._clos)
        attributes = congestion.qp_attributes | {
            "backup_per_plane": spec.backup_evs_per_plane,
            "pmtu_bytes": spec.nic.path_mtu,
            "seed": drawn.getrandbits(31),
            **psns,
        }
        evs = build_ev_set(self._clos, own, far, spec.evs, drawn.getrandbits(31))
        return self._nics[host].create_qp(far, list(evs), **attributes)

    def _subscribe_completions(self, host: str) -> None:
        """Asks for completions too; ranks, who only send, are spared one event per message."""
        if host not in self._completion_hosts:
            self._completion_hosts.add(host)
            self._nics[host].subscribe("completion", "receive", "qp_state")

    def _events_of(self, host: str) -> list[Event]:
        events: list[Event] = []
        nic = self._nics[host]
        try:
            for fields in nic.drain_events():
                event = self._event(host, fields)
                if event is not None:
                    events.append(event)
        except AgentError as error:
            self._epoll.unregister(nic.fileno())
            del self._host_of[nic.fileno()]
            events.append(HostLost(host, f"the NIC agent of {host} is lost: {error.message}"))
        return events

    def _event(self, host: str, fields: dict[str, Any]) -> Event | None:
        end = self._ends.get((host, fields["qpn"])) if "qpn" in fields else None
        if end is None:
            return None
        match fields["event"]:
            case "refused":
                return Failed(end, f"the NIC of {host} refused a {fields['verb']}: {fields['error']}")
            case "receive":
                end.count_event()
                return Arrived(
                    end, fields["number"], fields["immediate"], fields["length"], fields["time_ns"]
                )
            case "completion":
                end.count_event()
                error = None if fields["status"] == _SUCCESS else _failure(end, fields["status"])
                return Sent(end, fields["work_id"], fields["iterations"], fields["time_ns"], error)
            case "qp_state" if fields["to"] == "ERROR":
                return Failed(end, _failure(end, fields["status"]))
        return None


def _failure(end: End, status: str) -> str:
    return f"QP {end.number} of {end.host} failed: {status}"


def open_mrc(lab: Lab, shape: QpShape) -> MrcTransport:
    """The transport of a lab that is up."""
    return MrcTransport(
        lab.clos,
        lambda host: AgentClient(lab.paths.agent_socket(host)),
        lambda host: NicMaps(lab.paths.node_pins(host)),
        shape,
    )
