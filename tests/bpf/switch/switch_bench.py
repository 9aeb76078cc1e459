"""The real switch program with ports in a namespace of its own, driven one frame at a time.

Port 0 is where frames come in; a frame whose uSID has index p leaves through port p. Nothing moves by itself:
time in the model is what the metadata of the frames says, and the drainer's part is played by `drain`.
"""

import ctypes
import struct
import time
from contextlib import ExitStack
from ctypes import c_uint32, sizeof
from dataclasses import dataclass

from program_bench import FRAME_TIME_MAGIC, ProgramBench, Verdict

from mrc_agents.abi import (
    Dscp,
    FabricConfig,
    FaultAccounts,
    FaultLimit,
    FrameTime,
    Limit,
    PortCounter,
    PortEntry,
    PortFault,
    QueueDelays,
    QueueDrainer,
    QueueLimit,
    QueuePool,
    QueuePort,
    QueueSettings,
    QueueState,
    TrafficClass,
    UsidLayout,
)
from mrc_agents.bpf.maps import ArrayMap, MappedArray, map_update
from mrc_testbed.fabric.data_plane import QUEUE_PORT_MAPS

FORWARD = "forward.bpf.o"
SRV6_BLOCK = 0xFCBB0000
NODE_ID = 1
ETHERNET_AND_IPV6_BYTES = 54
PORT_MAPS = ("port_table", "port_fault", "fault_accounts", "fault_locks", "port_counters", "port_devmap")


@dataclass(frozen=True, slots=True)
class Departure:
    """A frame that left through *port_id*, due at the far end of its link at *arrival_ns*."""

    port_id: int
    arrival_ns: int
    frame: bytes
    credit_bytes: int


def mac_of(port_id: int) -> bytes:
    return bytes.fromhex("024d52") + port_id.to_bytes(3, "big")


def frame_for(
    port_id: int,
    length_bytes: int,
    *,
    traffic_class: TrafficClass,
    label: int = 0,
    dscp: Dscp = Dscp.TRIMMABLE,
    ecn: int = 0,
    next_header: int = 0xFD,
) -> bytes:
    """A frame that leaves through *port_id*; its payload is made from *label*, *dscp* is that of data."""
    if traffic_class == TrafficClass.CONTROL:
        dscp = Dscp.CONTROL
    payload = struct.pack("=I", label) + bytes(i * 7 + label & 0xFF for i in range(length_bytes))
    header = (6 << 28 | dscp << 22 | ecn << 20).to_bytes(4, "big") + bytes((0, 0, next_header, 64))
    usid = UsidLayout.T0 << UsidLayout.ROLE_SHIFT | port_id
    carrier = SRV6_BLOCK.to_bytes(4, "big") + usid.to_bytes(2, "big") + bytes(10)
    frame = bytes(12) + b"\x86\xdd" + header + bytes(16) + carrier + payload
    return frame[:length_bytes]


def label_of(frame: bytes) -> int:
    """The label that the frame was made with."""
    return int(struct.unpack_from("=I", frame, ETHERNET_AND_IPV6_BYTES)[0])


class SwitchBench(ProgramBench):
    """A switch of *port_count* ports, to be entered as a context by one thread."""

    def __init__(self, port_count: int, *, pool_frames: int = 4096) -> None:
        self.port_count = port_count
        self._pool_frames = pool_frames

    def open(self, undo: ExitStack) -> None:
        entries = dict.fromkeys((*PORT_MAPS, *QUEUE_PORT_MAPS), self.port_count)
        entries |= {"fib": Limit.FIB_STRIDE * (NODE_ID + 2), "queue_frames": self._pool_frames}
        entries["fault_lines"] = FaultLimit.LINES * self.port_count
        rodata = bytes(FabricConfig(srv6_block=SRV6_BLOCK, is_shaped=1))
        self.load(undo, FORWARD, "forward", rodata=rodata, max_entries=entries)
        self.port_table = MappedArray(self.map_fd("port_table"), PortEntry)
        self.port_fault = MappedArray(self.map_fd("port_fault"), PortFault)
        self.settings = MappedArray(self.map_fd("queue_settings"), QueueSettings)
        self.delays = MappedArray(self.map_fd("queue_delays"), QueueDelays)
        self.fault_accounts = MappedArray(self.map_fd("fault_accounts"), FaultAccounts)
        self.state = MappedArray(self.map_fd("queue_state"), QueueState)
        self.drainer = MappedArray(self.map_fd("queue_drainer"), QueueDrainer)[0]
        self.ports = ArrayMap(self.map_fd("queue_ports"), QueuePort, locked=True)
        self.pool = ArrayMap(self.map_fd("queue_pool"), QueuePool, locked=True)
        count = self.port_count
        self.create_links(((i, mac_of(i)), (count + i, mac_of(count + i))) for i in range(count))
        for port_id, port in enumerate(self.port_table):
            port.node_id = NODE_ID
            port.is_configured = 1
            port.mac[:] = list(mac_of(port_id))
            self.route(NODE_ID, port_id, port_id)

    def route(self, node_id: int, usid_index: int, egress_id: int) -> None:
        """Sends what a node gets for a uSID out of a port."""
        fib_index = node_id * Limit.FIB_STRIDE + (UsidLayout.T0 << UsidLayout.PLANE_SHIFT | usid_index)
        map_update(self.map_fd("fib"), c_uint32(fib_index), c_uint32(egress_id + 1))

    def shape(
        self,
        port_id: int,
        *,
        rate_bps: int,
        delay_ns: int = 0,
        buffer_bytes: tuple[int, int] = (1 << 20, 1 << 20),
    ) -> None:
        """Sets rate, delay and buffers (control, data) of a port."""
        port = self.port_table[port_id]
        port.delay_ns = delay_ns
        queue = self.settings[port_id]
        queue.control_buffer_bytes, queue.data_buffer_bytes = buffer_bytes
        port.rate_bps = rate_bps

    def mark(
        self, port_id: int, *, min_bytes: int, max_bytes: int, probability_q32: int = 1 << 32, seed: int = 0
    ) -> None:
        """Sets where a port marks."""
        queue = self.settings[port_id]
        queue.ecn_min_bytes, queue.ecn_max_bytes = min_bytes, max_bytes
        queue.ecn_probability_q32, queue.seed = probability_q32, seed

    def forget_delays(self, port_id: int) -> None:
        """Empties the histograms of a port's queueing delays."""
        ctypes.memset(ctypes.addressof(self.delays[port_id]), 0, ctypes.sizeof(QueueDelays))

    def receive(
        self, frame: bytes, arrival_ns: int | None = None, *, ingress: int = 0, credit_bytes: int = 0
    ) -> Verdict:
        """Lets *frame* come in, at *arrival_ns* in the model; without it, from an unshaped link."""
        return self.run(frame, ingress, arrival_ns, credit_bytes)[0]

    def drain_one(self) -> Departure | None:
        """One run of the drainer: the next due frame, if there is one."""
        verdict, left = self.run(bytes(QueueLimit.FRAME_BYTES))
        if verdict is Verdict.DROP:
            return None
        assert verdict is Verdict.REDIRECT
        time = FrameTime.from_buffer_copy(left)
        assert time.magic == FRAME_TIME_MAGIC
        frame = left[sizeof(FrameTime) :]
        return Departure(int.from_bytes(frame[9:12], "big"), time.arrival_ns, frame, time.credit_bytes)

    def drain(self) -> list[Departure]:
        """Runs the drainer until the pool is empty; all frames must be due."""
        departures = []
        idle_runs = 0
        while self.pool.read(0).used:
            departure = self.drain_one()
            idle_runs = 0 if departure else idle_runs + 1
            assert idle_runs < 1000, "frames are left that are never sent"
            if departure:
                departures.append(departure)
        return departures

    def counter(self, port_id: int, which: PortCounter) -> int:
        """One counter of a port, over all CPUs."""
        return self.port_counters.sum(port_id)[which]


def now_ns() -> int:
    """The clock of the model."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
