"""The real NIC program of one host, its ports in a namespace of their own, driven frame by frame.

A kick is a run whose frame comes from loopback, as the agent's does. The verdict, the frame as it was left,
and what changed in counters and events are the outcome of a run.
"""

import select
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import Structure, addressof, c_uint32, memset, sizeof
from dataclasses import dataclass
from typing import Final

from program_bench import OBJECTS, ProgramBench, Verdict
from waiting import DEADLINE_S

from mrc_agents.abi import (
    Command,
    Doorbell,
    Event,
    EventKind,
    FrameTime,
    Kick,
    KickMode,
    Limit,
    LinkProbePath,
    LinkProbing,
    MapHistogram,
    NicControl,
    NicCounter,
    NicCounters,
    NicPaths,
    PageList,
    PortCounter,
    PortEntry,
    Probe,
    ProbeKind,
    Qp,
    QpState,
    RcQp,
    Region,
    Work,
    WorkRing,
)
from mrc_agents.bpf.chunks import ChunkedMemory
from mrc_agents.bpf.libbpf import BpfObject
from mrc_agents.bpf.maps import ArrayMap, MappedArray, PerCpuArray, RingBuffer, map_update
from mrc_agents.nic.qp import MrcQueuePair, QpAttributes, build_qp
from mrc_agents.nic.rc_qp import RcAttributes, RcQueuePair, build_rc_qp
from mrc_agents.nic.work_queue import QPN_MIN
from mrc_testbed.fabric.data_plane import fabric_rodata
from mrc_testbed.fabric.netlink import mac_bytes
from mrc_testbed.fabric.nic_data_plane import create_memory, fill_link_probes, nic_config, nic_map_entries
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import probe_paths

MEMORY_BYTES: Final = 2 * Limit.MEMORY_SEGMENT
QP_COUNT: Final = 3
LIVE_FRAME: Final = bytes(Limit.FRAME_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one run."""

    verdict: Verdict  # of the program
    frame: bytes  # as the program left it
    counters: Mapping[NicCounter, int]  # those of the NIC that changed, by how much
    planes: tuple[int, ...]  # of the ports through which a frame was sent
    began_ns: int  # CLOCK_MONOTONIC


class NicBench(ProgramBench):
    """The NIC of *host* in a fabric, with its program of reliable connections if it *has_rc*.

    Attributes:
        config: who the NIC is.
        control: live.
        paths: live, what the NIC knows of them.
        regions: live, by R_Key modulo their number.
        memory: of the NIC, live, MEMORY_BYTES of it.
        port_table: live, by port id.
        work: live, the work rings.
        next_kick: live, what a TX kick asks for.
        link_probe_paths, link_probing: live; not touched by `reset`.
        qps, rc_qps: of MRC and of reliable connections.
    """

    def __init__(self, clos: Clos, host: int, *, has_rc: bool = False) -> None:
        self.clos = clos
        self.host = host
        self.ports = tuple(clos.ports_of(clos.host(host)))
        self._has_rc = has_rc

    def open(self, undo: ExitStack) -> None:
        probed = probe_paths(self.clos, self.host)
        port_maps = ("port_table", "port_counters", "port_devmap")
        entries = dict.fromkeys(port_maps, self.clos.numbering.port_count)
        entries |= nic_map_entries(self.clos, len(probed)) | {"qps": QP_COUNT, "work_ring": QP_COUNT}
        self.load(undo, "nic.bpf.o", "nic", rodata=fabric_rodata(self.clos), max_entries=entries)
        maps = {name: self.map_fd(name) for name in self.loaded.map_names()}
        chunks = create_memory(undo, maps["memory"], MEMORY_BYTES)
        self.mapped_memory = ChunkedMemory(maps["memory"], chunks)
        self.memory = self.mapped_memory.view[:MEMORY_BYTES]
        fill_link_probes(maps, probed)
        self.config = nic_config(self.clos, self.clos.host(self.host))
        map_update(maps["nic_config"], c_uint32(0), self.config)
        self.control = MappedArray(maps["nic_control"], NicControl)[0]
        self.paths = MappedArray(maps["nic_paths"], NicPaths)[0]
        self.regions = MappedArray(maps["regions"], Region)
        self.port_table = MappedArray(maps["port_table"], PortEntry)
        self.work = MappedArray(maps["work_ring"], WorkRing)
        self.next_kick = MappedArray(maps["kick"], Kick)[0]
        self.link_probe_paths = MappedArray(maps["link_probe_paths"], LinkProbePath)
        self.link_probing = MappedArray(maps["link_probing"], LinkProbing)[0]
        self._probes = ArrayMap(maps["probes"], Probe)
        self.qps = ArrayMap(maps["qps"], Qp, locked=True)
        self._ring = RingBuffer(maps["nic_events"])
        undo.callback(self._ring.close)
        self._counters = PerCpuArray(maps["nic_counters"], NicCounters)
        self._rtt = PerCpuArray(maps["rtt_histogram"], MapHistogram)
        if self._has_rc:
            entries = {"rc_qps": QP_COUNT}
            path, rodata = OBJECTS / "rc.bpf.o", fabric_rodata(self.clos)
            rc = undo.enter_context(BpfObject(path, rodata=rodata, max_entries=entries, reuse=maps))
            map_update(maps["nic_transports"], c_uint32(0), c_uint32(rc.program_fd("rc")))
            self.rc_qps = ArrayMap(rc.map_fd("rc_qps"), RcQp, locked=True)
        pairs = ((port, self.clos.peer(port)) for port in self.ports)
        self.create_links(
            ((near.id, mac_bytes(near.mac)), (far.id, mac_bytes(far.mac))) for near, far in pairs
        )
        self.reset()

    def reset(self) -> None:
        """Puts everything but the counters back to how a fresh NIC has it, all ports up and faultless."""
        memset(addressof(self.regions[0]), 0, len(self.regions) * sizeof(Region))
        _clear(self.control, self.paths, self.next_kick, *self.work, *self.port_table)
        self.control.port_up_mask = (1 << self.clos.spec.planes) - 1
        for plane, port in enumerate(self.ports):
            entry = self.port_table[port.id]
            entry.plane, entry.peer_port, entry.is_configured = plane, port.peer_id, 1
            entry.mac[:] = list(mac_bytes(port.mac))
            entry.peer_mac[:] = list(mac_bytes(self.clos.mac(port.peer_id)))
        self.memory[:] = bytes(MEMORY_BYTES)
        for index in range(QP_COUNT):
            self.qps.write(index, Qp(state=QpState.RESET))
            if self._has_rc:
                self.rc_qps.write(index, RcQp(state=QpState.RESET))
        for index in range(Limit.PROBE_RING):
            if self._probes.read(index).is_pending:
                self._probes.write(index, Probe())
        self._ring.drain()

    # -- what the agent does ----------------------------------------------------------------------

    def create_qp(self, index: int, attributes: QpAttributes, peer_qpn: int, *, first_psn: int = 0) -> None:
        """A QP in RTS whose packets, in both directions, start at *first_psn*, 32 bits."""
        value = build_qp(MrcQueuePair(QPN_MIN + index, attributes), self.config)
        value.state, value.head.peer_qpn = QpState.RTS, peer_qpn
        value.req.next_psn = value.comp.una_psn = value.comp.peer_cack_next = value.resp.cack_next = first_psn
        value.resp.tracked_from_psn = value.resp.first_expected = first_psn
        value.resp.max_received = c_uint32(first_psn - 1).value
        self.qps.write(index, value)

    def connect(self, index: int, attributes: RcAttributes, peer_qpn: int) -> None:
        """A reliable connection in RTS."""
        value = build_rc_qp(RcQueuePair(QPN_MIN + index, attributes), self.config)
        value.state, value.head.peer_qpn = QpState.RTS, peer_qpn
        self.rc_qps.write(index, value)

    def qp(self, index: int = 0) -> Qp:
        """A copy of a QP as it is now."""
        return self.qps.read(index)

    def rc_qp(self, index: int = 0) -> RcQp:
        """A copy of a connection as it is now."""
        return self.rc_qps.read(index)

    @contextmanager
    def editing_qp(self, index: int = 0) -> Iterator[Qp]:
        """A copy of a QP, stored when the body ends."""
        value = self.qps.read(index)
        yield value
        self.qps.write(index, value)

    def edit_qp(self, index: int = 0, **values: int) -> None:
        """Sets members of a QP."""
        with self.editing_qp(index) as qp:
            _set(qp, values)

    def edit_rc_qp(self, index: int = 0, **values: int) -> None:
        """Sets members of a connection."""
        value = self.rc_qp(index)
        _set(value, values)
        self.rc_qps.write(index, value)

    def register(self, slot: int, offset: int, length: int, *, is_remote_writable: bool = True) -> int:
        """The R_Key of a new region."""
        region = self.regions[slot]
        region.offset, region.length, region.is_remote_writable = offset, length, is_remote_writable
        region.page_list = PageList.NO_PAGE_LIST
        region.r_key = r_key = 0x5EC2C000 | slot
        return r_key

    def post(self, work: Work, index: int = 0) -> None:
        """Adds a work request to a QP's ring."""
        ring = self.work[index]
        ring.entries[ring.tail % Limit.WORK_RING] = work
        ring.tail += 1

    def post_receives(self, count: int, index: int = 0) -> None:
        """Lets that many more WRITEs with immediate come in."""
        self.work[index].receive_tail += count

    def let_agent_die(self, looks: int) -> None:
        """The agent's last sign of life is longer ago than its limit; *looks* have found that so far."""
        self.control.heartbeat_limit_ns = limit_ns = 1_000_000_000
        self.control.heartbeat_ns = time.monotonic_ns() - 2 * limit_ns
        self.control.silence_ns = self.control.heartbeat_ns + bool(looks) * limit_ns
        self.control.silences = looks

    # -- runs -------------------------------------------------------------------------------------

    def receive(self, frame: bytes, plane: int, *, model_ns: int | None = None) -> Outcome:
        """Lets *frame* come in through the port to *plane*; over a shaped link, at *model_ns*."""
        return self._run(frame, self.ports[plane].id, model_ns)

    def ask(self, mode: KickMode, **values: int | Sequence[int]) -> None:
        """Says what the next TX kick asks for."""
        self.next_kick.mode = mode
        for name, value in values.items():
            if isinstance(value, int):
                setattr(self.next_kick, name, value)
            else:
                getattr(self.next_kick, name)[: len(value)] = value

    def kick(self, index: int = 0, *, frames_left: int = 1, mode: KickMode = KickMode.DATA) -> Outcome:
        """Run a TX kick for a QP; *frames_left* buffers are announced, this one included."""
        self.ask(mode, qp_index=index, frames_left=frames_left)
        return self.kick_again()

    def kick_again(self) -> Outcome:
        """Run another TX kick for what was asked for, such as the next of several probes."""
        return self._run(LIVE_FRAME)

    def ring_doorbell(self, magic: int, index: int) -> Outcome:
        """Run a TX kick as an application's doorbell does."""
        return self._run(bytes(Doorbell(magic=magic, qp_index=index)).ljust(len(LIVE_FRAME), b"\0"))

    def command(
        self, command: Command, index: int, *arguments: int, mode: KickMode = KickMode.COMMAND
    ) -> bool:
        """Has the program change a QP; whether it did."""
        self.ask(mode, qp_index=index, command=command, argument=arguments)
        assert self.kick_again().verdict is Verdict.DROP
        return bool(self.next_kick.result)

    def rc_command(self, command: Command, index: int, *arguments: int) -> bool:
        """Has the program change a connection; whether it did."""
        return self.command(command, index, *arguments, mode=KickMode.RC_COMMAND)

    def send_all(self, index: int = 0) -> list[bytes]:
        """The frames that a QP sends when it gets as many TX buffers as it uses."""
        frames: list[bytes] = []
        while (outcome := self.kick(index)).verdict is not Verdict.DROP:
            frames.append(outcome.frame)
        return frames

    def probe(self, evs: Sequence[int], of: int = 0, kind: ProbeKind = ProbeKind.EV) -> list[bytes]:
        """The frames of one probe on each EV of a QP, by index, or on paths to a host."""
        self.ask(KickMode.PROBE, probe_kind=kind, probe_cursor=0, probe_count=len(evs))
        self.ask(KickMode.PROBE, probe_qp=[of] * len(evs), probe_ev=evs)
        return [self.kick_again().frame for _ in evs]

    def link_probes(self) -> list[Outcome]:
        """The link probes of one round, path by path."""
        count = self.link_probing.path_count
        self.ask(KickMode.LINK_PROBE, probe_cursor=0, probe_count=count)
        return [self.kick_again() for _ in range(count)]

    def probe_under_way(self, request_id: int) -> Probe:
        """The state of the probe with that id."""
        return self._probes.read(request_id % Limit.PROBE_RING)

    def _run(self, frame: bytes, port_id: int | None = None, model_ns: int | None = None) -> Outcome:
        counters, sent, began_ns = self.counters(), self._sent(), time.monotonic_ns()
        verdict, left = self.run(frame, port_id, model_ns)
        left = left if model_ns is None else left[sizeof(FrameTime) :]
        planes = [plane for plane, after in enumerate(self._sent()) for _ in range(after - sent[plane])]
        return Outcome(verdict, left, self.grown(counters), tuple(planes), began_ns)

    # -- what can be seen -------------------------------------------------------------------------

    def counters(self) -> dict[NicCounter, int]:
        values = self._counters.sum(0)
        return {counter: values[counter] for counter in NicCounter if counter != NicCounter.COUNT}

    def grown(self, before: Mapping[NicCounter, int]) -> dict[NicCounter, int]:
        """The counters that have changed since they were as *before*, by how much."""
        changes = {counter: after - before[counter] for counter, after in self.counters().items()}
        return {counter: change for counter, change in changes.items() if change}

    def _sent(self) -> list[int]:
        return [self.port_counters.sum(port.id)[PortCounter.TX_PACKETS] for port in self.ports]

    def rtt_samples(self, plane: int) -> int:
        """Round-trip times recorded for a plane."""
        head = 2  # sum_ns and max_ns
        return sum(self._rtt.sum(plane)[head:])

    def events(self, kind: EventKind | None = None) -> list[Event]:
        """Events that wait, oldest first; with a *kind* those, and the others are forgotten."""
        events = [Event.from_buffer_copy(record) for record in self._ring.drain()]
        return [event for event in events if kind is None or event.kind == kind]

    def await_events(self) -> list[Event]:
        """The next events, which the kernel's clock must bring about before long."""
        events = self.events_within(DEADLINE_S)
        assert events, "no event came"
        return events

    def await_error(self) -> list[Event]:
        """All events up to the one that a QP has changed its state."""
        events = self.await_events()
        while not any(event.kind == EventKind.QP_STATE for event in events):
            events += self.await_events()
        return events

    def events_within(self, seconds: float) -> list[Event]:
        """The next events, none if there are none for so long."""
        select.select([self._ring.fileno()], [], [], seconds)
        return self.events()


def _set(value: Qp | RcQp, members: Mapping[str, int]) -> None:
    for name, member in members.items():
        parts = (value, *(getattr(value, part) for part, *_ in value._fields_))
        (part,) = (part for part in parts if name in dict(getattr(part, "_fields_", ())))
        setattr(part, name, member)


def _clear(*values: Structure) -> None:
    for value in values:
        memset(addressof(value), 0, sizeof(value))
