"""The real NIC program of one host, its ports in a namespace of their own, driven frame by frame.

A received frame is run with the ifindex of the port it comes in through; a kick is a run whose frame comes
from loopback, as the agent's does. What the program redirects goes nowhere: the verdict, the frame as it was
left, and what changed in counters and events are the outcome.
"""

import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import Structure, addressof, c_uint32, memset, sizeof
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Self

from waiting import DEADLINE_S

from mrc_testbed.agents.abi import (
    Command,
    Event,
    FrameTime,
    Histogram,
    Kick,
    KickMode,
    Limit,
    LinkProbePath,
    LinkProbing,
    NicControl,
    NicCounter,
    NicCounters,
    NicPaths,
    PageList,
    Port,
    PortCounter,
    PortCounters,
    Probe,
    ProbeKind,
    Qp,
    QpState,
    Region,
    Work,
    WorkRing,
)
from mrc_testbed.agents.bpf.chunks import ChunkedMemory
from mrc_testbed.agents.bpf.libbpf import BpfObject, attach_xdp, run_once
from mrc_testbed.agents.bpf.maps import (
    ArrayMap,
    MappedArray,
    PerCpuArray,
    RingBuffer,
    map_update,
)
from mrc_testbed.agents.nic.qp import QpAttributes, QueuePair, build_qp
from mrc_testbed.agents.nic.work_queue import QPN_MIN
from mrc_testbed.fabric.data_plane import fabric_rodata
from mrc_testbed.fabric.link import silence_interfaces
from mrc_testbed.fabric.namespace import unnamed_namespace
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, create_veth, mac_bytes, set_link_up
from mrc_testbed.fabric.nic_data_plane import create_memory, fill_link_probes, nic_config
from mrc_testbed.topology.addressing import INTERFACE_MTU_BYTES, ifindex
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import probe_paths

NIC_OBJECT = Path(__file__).parents[3] / "agents" / "_objects" / "nic.bpf.o"
MEMORY_BYTES = 2 * Limit.MEMORY_SEGMENT
QP_COUNT = 3

_FRAME_TIME_MAGIC = int.from_bytes(b"mrct", "big")
_LIVE_FRAME = bytes(Limit.FRAME_BYTES_MAX)


class Verdict(IntEnum):
    """enum xdp_action."""

    ABORTED = 0
    DROP = 1
    PASS = 2
    TX = 3
    REDIRECT = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run."""

    verdict: Verdict  # of the program
    frame: bytes  # as the program left it
    counters: Mapping[NicCounter, int]  # those of the NIC that changed, by how much
    planes: tuple[int, ...]  # of the ports through which a frame was sent


class NicBench:
    """The NIC of *host* in a fabric, to be entered as a context by one thread.

    Attributes:
        config: who the NIC is.
        control: live.
        paths: live, what the NIC knows of them.
        regions: live, by R_Key modulo their number.
        memory: of the NIC, live, MEMORY_BYTES of it.
        port_table: live, by port id.
        link_probe_paths, link_probing: live; not touched by `reset`.
    """

    def __init__(self, clos: Clos, host: int) -> None:
        self.clos = clos
        self.host = host
        self.ports = tuple(clos.ports_of(clos.host(host)))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            namespace_fd = undo.enter_context(unnamed_namespace())
            silence_interfaces()  # a frame of the kernel's own would be counted
            entries = dict.fromkeys(
                ("port_table", "port_counters", "port_devmap"),
                self.clos.numbering.port_count,
            )
            entries |= {"qps": QP_COUNT, "work_ring": QP_COUNT, "rtt_histogram": len(self.ports)}
            probed = probe_paths(self.clos, self.host)
            entries["link_probe_paths"] = max(1, len(probed))
            self._object = undo.enter_context(
                BpfObject(NIC_OBJECT, rodata=fabric_rodata(self.clos), max_entries=entries)
            )
            self._program_fd = self._object.program_fd("nic")
            maps = {name: self._object.map_fd(name) for name in self._object.map_names()}
            chunks = create_memory(undo, self.map_fd("memory"), MEMORY_BYTES)
            self.mapped_memory = ChunkedMemory(self.map_fd("memory"), chunks)
            fill_link_probes(maps, probed)
            self._open_maps()
            undo.callback(self._ring.close)
            self._create_ports(namespace_fd)
            self.reset()
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def map_fd(self, name: str) -> int:
        return self._object.map_fd(name)

    def _open_maps(self) -> None:
        self.config = nic_config(self.clos, self.clos.host(self.host))
        map_update(self.map_fd("nic_config"), c_uint32(0), self.config)
        self.control = MappedArray(self.map_fd("nic_control"), NicControl)[0]
        self.paths = MappedArray(self.map_fd("nic_paths"), NicPaths)[0]
        self.regions = MappedArray(self.map_fd("regions"), Region)
        self.memory = self.mapped_memory.view[:MEMORY_BYTES]
        self.port_table = MappedArray(self.map_fd("port_table"), Port)
        self._work = MappedArray(self.map_fd("work_ring"), WorkRing)
        self._kick = MappedArray(self.map_fd("kick"), Kick)[0]
        self.link_probe_paths = MappedArray(self.map_fd("link_probe_paths"), LinkProbePath)
        self.link_probing = MappedArray(self.map_fd("link_probing"), LinkProbing)[0]
        self._probes = ArrayMap(self.map_fd("probes"), Probe)
        self._qps = ArrayMap(self.map_fd("qps"), Qp, locked=True)
        self._ring = RingBuffer(self.map_fd("nic_events"))
        self._counters = PerCpuArray(self.map_fd("nic_counters"), NicCounters)
        self._port_counters = PerCpuArray(self.map_fd("port_counters"), PortCounters)
        self._rtt = PerCpuArray(self.map_fd("rtt_histogram"), Histogram)

    def _create_ports(self, namespace_fd: int) -> None:
        with RouteSocket() as route:
            for port in self.ports:
                index, peer = ifindex(port.id), self.clos.peer(port)
                near = VethEnd(namespace_fd, port.interface, index, mac_bytes(port.mac))
                far = VethEnd(namespace_fd, f"far{port.plane}", ifindex(peer.id), mac_bytes(peer.mac))
                route.perform([create_veth(port.name, near, far, INTERFACE_MTU_BYTES)])
                route.perform([set_link_up(port.name, index, is_up=True)])
                attach_xdp(index, self._program_fd)
                map_update(self.map_fd("port_devmap"), c_uint32(port.id), c_uint32(index))

    def reset(self) -> None:
        """Puts everything but the counters back to how a fresh NIC has it, all ports up and faultless."""
        memset(addressof(self.regions[0]), 0, len(self.regions) * sizeof(Region))
        _clear(self.control, self.paths, self._kick, *self._work, *self.port_table)
        self.control.port_up_mask = (1 << self.clos.spec.planes) - 1
        for plane, port in enumerate(self.ports):
            entry = self.port_table[port.id]
            entry.plane = plane
            entry.peer_port = port.peer_id
            entry.mac[:] = list(mac_bytes(port.mac))
            entry.peer_mac[:] = list(mac_bytes(self.clos.mac(port.peer_id)))
            entry.is_configured = 1
        self.memory[:] = bytes(MEMORY_BYTES)
        for index in range(QP_COUNT):
            self._qps.write(index, Qp(state=QpState.RESET))
        for index in range(Limit.PROBE_RING):
            if self._probes.read(index).is_pending:
                self._probes.write(index, Probe())
        self._ring.drain()

    # -- what the agent does ----------------------------------------------------------------------

    def create_qp(self, index: int, attributes: QpAttributes, peer_qpn: int, *, first_psn: int = 0) -> None:
        """A QP in RTS whose packets, in both directions, start at *first_psn*, 32 bits."""
        value = build_qp(QueuePair(QPN_MIN + index, attributes), self.config)
        value.state = QpState.RTS
        value.peer_qpn = peer_qpn
        value.next_psn = value.una_psn = value.peer_cack_next = value.cack_next = first_psn
        value.tracked_from_psn = value.first_expected = first_psn
        value.max_received = c_uint32(first_psn - 1).value
        self._qps.write(index, value)

    def qp(self, index: int = 0) -> Qp:
        """A copy of a QP as it is now."""
        return self._qps.read(index)

    @contextmanager
    def editing_qp(self, index: int = 0) -> Iterator[Qp]:
        """A copy of a QP, stored when the body ends."""
        value = self._qps.read(index)
        yield value
        self._qps.write(index, value)

    def register(self, slot: int, offset: int, length: int, *, is_remote_writable: bool = True) -> int:
        """The R_Key of a new region."""
        r_key = 0x5EC2C000 | slot
        region = self.regions[slot]
        region.offset, region.length, region.is_remote_writable = offset, length, is_remote_writable
        region.page_list = PageList.NO_PAGE_LIST
        region.r_key = r_key
        return r_key

    def post(self, work: Work, index: int = 0) -> None:
        """Adds a work request to a QP's ring."""
        ring = self._work[index]
        ring.entries[ring.tail % Limit.WORK_RING] = work
        ring.tail += 1

    def work_ring(self, index: int = 0) -> WorkRing:
        ring: WorkRing = self._work[index]
        return ring

    def posted(self, place: int, index: int = 0) -> Work:
        """A work request in a QP's ring, live."""
        entry: Work = self._work[index].entries[place]
        return entry

    # -- runs -------------------------------------------------------------------------------------

    def receive(self, frame: bytes, plane: int, *, model_ns: int | None = None) -> Outcome:
        """Lets *frame* come in through the port to *plane*; over a shaped link, at *model_ns*."""
        metadata = b"" if model_ns is None else _frame_time(model_ns)
        return self._run(frame, ifindex(self.ports[plane].id), metadata)

    def kick(self, index: int = 0, *, frames_left: int = 1) -> Outcome:
        """Run a TX kick for a QP; *frames_left* buffers are announced, this one included."""
        self._kick.mode = KickMode.DATA
        self._kick.qp_index = index
        self._kick.frames_left = frames_left
        return self._run(_LIVE_FRAME, 0)

    def post_receives(self, count: int, index: int = 0) -> None:
        """Lets that many more WRITEs with immediate come in."""
        self._work[index].receive_tail += count

    def command(
        self, command: Command, index: int, *arguments: int, mode: KickMode = KickMode.COMMAND
    ) -> bool:
        """Has the program change a QP; whether it did."""
        self._kick.mode = mode
        self._kick.qp_index = index
        self._kick.command = command
        for place, argument in enumerate(arguments):
            self._kick.argument[place] = argument
        assert self._run(_LIVE_FRAME, 0).verdict is Verdict.DROP
        return bool(self._kick.result)

    def send_all(self, index: int = 0, *, frames_max: int = Limit.PSN_RING) -> list[bytes]:
        """The frames that a QP sends when it gets as many TX buffers as it uses."""
        frames: list[bytes] = []
        while len(frames) < frames_max:
            outcome = self.kick(index)
            if outcome.verdict is Verdict.DROP:
                break
            frames.append(outcome.frame)
        return frames

    def probe(self, evs: Sequence[int], index: int = 0, kind: ProbeKind = ProbeKind.EV) -> list[bytes]:
        """The frames of one EV probe on each EV of a QP, by index."""
        self._kick.mode = KickMode.PROBE
        self._kick.probe_kind = kind
        self._kick.probe_cursor = 0
        self._kick.probe_count = len(evs)
        for place, ev in enumerate(evs):
            self._kick.probe_qp[place] = index
            self._kick.probe_ev[place] = ev
        return [self.kick_probe().frame for _ in evs]

    def probe_paths(self, peer_host: int, evs: Sequence[int]) -> list[bytes]:
        """The frames of one probe on each of *evs* to a host, without a QP."""
        self._kick.mode = KickMode.PROBE
        self._kick.probe_kind = ProbeKind.PATH
        self._kick.probe_cursor = 0
        self._kick.probe_count = len(evs)
        for place, ev in enumerate(evs):
            self._kick.probe_qp[place] = peer_host
            self._kick.probe_ev[place] = ev
        return [self.kick_probe().frame for _ in evs]

    @property
    def probe_ids(self) -> list[int]:
        """Request ids of the last probes, in their order."""
        return list(self._kick.probe_id)

    def link_probes(self) -> list[Outcome]:
        """The link probes of one round, path by path."""
        self._kick.mode = KickMode.LINK_PROBE
        self._kick.probe_cursor = 0
        self._kick.probe_count = self.link_probing.path_count
        return [self._run(_LIVE_FRAME, 0) for _ in range(self.link_probing.path_count)]

    def kick_probe(self) -> Outcome:
        """Run a TX kick for the next of the requested probes."""
        return self._run(_LIVE_FRAME, 0)

    def probe_under_way(self, request_id: int) -> Probe:
        """The state of the probe with that id."""
        return self._probes.read(request_id % Limit.PROBE_RING)

    @property
    def next_probe_id(self) -> int:
        """The request id of the next probe."""
        return int(self._kick.next_probe_id)

    @next_probe_id.setter
    def next_probe_id(self, number: int) -> None:
        self._kick.next_probe_id = number

    def _run(self, frame: bytes, ingress_ifindex: int, metadata: bytes = b"") -> Outcome:
        counters, sent = self.counters(), self._sent()
        verdict, left = run_once(self._program_fd, frame, ingress_ifindex=ingress_ifindex, metadata=metadata)
        changed = {
            counter: after - counters[counter]
            for counter, after in self.counters().items()
            if after != counters[counter]
        }
        planes = [plane for plane, after in enumerate(self._sent()) for _ in range(after - sent[plane])]
        return Outcome(Verdict(verdict), left[len(metadata) :], changed, tuple(planes))

    # -- what can be seen -------------------------------------------------------------------------

    def counters(self) -> dict[NicCounter, int]:
        values = self._counters.sum(0)
        return {counter: values[counter] for counter in NicCounter if counter != NicCounter.COUNT}

    def _sent(self) -> list[int]:
        return [self._port_counters.sum(port.id)[PortCounter.TX_PACKETS] for port in self.ports]

    def rtt_samples(self, plane: int) -> int:
        """Round-trip times recorded for a plane."""
        head = 2  # sum_ns and max_ns
        return sum(self._rtt.sum(plane)[head:])

    def events(self) -> list[Event]:
        """Events that wait, oldest first."""
        return [Event.from_buffer_copy(record) for record in self._ring.drain()]

    def await_events(self) -> list[Event]:
        """The next events, which the kernel's clock must bring about before long."""
        events = self.events_within(DEADLINE_S)
        assert events, "no event came"
        return events

    def events_within(self, seconds: float) -> list[Event]:
        """The next events, none if there are none for so long."""
        select.select([self._ring.fileno()], [], [], seconds)
        return self.events()


def _frame_time(model_ns: int) -> bytes:
    return bytes(FrameTime(arrival_ns=model_ns, magic=_FRAME_TIME_MAGIC))


def _clear(*values: Structure) -> None:
    for value in values:
        memset(addressof(value), 0, sizeof(value))
