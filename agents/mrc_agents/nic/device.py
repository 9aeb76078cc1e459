"""The NIC as the kernel holds it: its pinned maps and program, and the transmit buffers it is given."""

import ctypes
import errno
import os
import platform
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from ctypes import c_uint32
from functools import partial
from pathlib import Path
from typing import Final

from mrc_agents.abi import (
    Command,
    Kick,
    KickMode,
    Limit,
    NicConfig,
    NicControl,
    NicCounter,
    NicCounters,
    NicPaths,
    ProbeKind,
    Qp,
    RcQp,
    Region,
    WorkRing,
)
from mrc_agents.bpf.chunks import ChunkedMemory, open_chunks
from mrc_agents.bpf.libbpf import Pins, open_map_in, open_pinned_in, run_live
from mrc_agents.bpf.maps import ArrayMap, MappedArray, MappedMemory, PerCpuArray, RingBuffer, map_info
from mrc_agents.bpf.virtual import VirtualFolder
from mrc_agents.closing import Holder
from mrc_agents.errors import FabricError

_FRAMES_PER_RUN = 256
_FRAME = bytes(Limit.FRAME_BYTES_MAX)
_MEMINFO: Final = Path("/proc/meminfo")


class NicDevice(Holder):
    """Opened pins of one NIC. Not safe for use by several threads: a kick is a request and a run.

    What a NIC in virtual time does not have raises TypeError. The NIC continues when the device closes.
    """

    def __init__(self, pins: Pins) -> None:
        self.pins = pins  # where its maps are found
        with ExitStack() as opened:
            descriptor = partial(open_map_in, opened, pins)
            self._program = (
                pins.program() if isinstance(pins, VirtualFolder) else open_pinned_in(opened, pins, "nic")
            )
            # who the NIC is; a copy of what cannot be changed
            self.config = ArrayMap(descriptor("nic_config"), NicConfig).read(0)
            self.control = MappedArray(descriptor("nic_control"), NicControl)[0]  # live
            # live paths, by the place of each in the NIC
            self.paths = MappedArray(descriptor("nic_paths"), NicPaths)[0].path
            self.regions = MappedArray(descriptor("regions"), Region)
            self.work = MappedArray(descriptor("work_ring"), WorkRing)
            self.memory = open_memory(opened, pins)
            # from there on nobody has had memory, so that it is all zeros
            self.fresh_from = self.memory.length_bytes
            self._work_ring = descriptor("work_ring")
            qps = descriptor("qps")
            self.qps = ArrayMap(qps, Qp, locked=True)
            self.qp_count = int(map_info(qps).max_entries)
            self.rc_qps = ArrayMap(descriptor("rc_qps"), RcQp, locked=True)
            self.reliable_connections: set[int] = set()  # indices of the QPs that are no MRC QPs
            self._kick = MappedArray(descriptor("kick"), Kick)[0]
            self._counters = PerCpuArray(descriptor("nic_counters"), NicCounters)
            self._opened = opened.pop_all()

    def open_events(self) -> RingBuffer:
        """The events of the NIC, for one reader; closed with the device."""
        if isinstance(self.pins, VirtualFolder):
            raise TypeError("a NIC in virtual time has no ring of events")
        events = RingBuffer(open_pinned_in(self._opened, self.pins, "nic_events"))
        self._opened.callback(events.close)
        return events

    def application_descriptors(self) -> list[int]:
        """The descriptors for a program of its own: the NIC's program, its work rings."""
        descriptors = [self._program, self._work_ring]
        if not all(isinstance(each, int) for each in descriptors):
            raise TypeError("a NIC in virtual time has no descriptors")
        return [each for each in descriptors if isinstance(each, int)]

    def open_channels(self) -> int:
        """Descriptor of the map of channel rings, closed with the device."""
        if isinstance(self.pins, VirtualFolder):
            raise TypeError("a NIC in virtual time has no channels")
        return open_pinned_in(self._opened, self.pins, "channels")

    def memory_descriptor(self, chunk: int) -> int | None:
        return self.memory.descriptor(chunk) if isinstance(self.memory, ChunkedMemory) else None

    def add_memory(self, chunks: Sequence[int]) -> None:
        """Adds chunks to the memory, all or none.

        Raises:
            OSError: the kernel refuses them, or the machine would have too little left.
        """
        # It takes whatever there is, and then ends a process of anybody's for want of memory.
        if 2 * len(chunks) * Limit.MEMORY_CHUNK > available_bytes():
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        if not isinstance(self.memory, ChunkedMemory):
            raise TypeError("the memory of a NIC in virtual time does not grow")
        self.memory.add(chunks)

    def remove_memory(self, chunks: Iterable[int]) -> None:
        """Takes away chunks that were added."""
        if isinstance(self.memory, ChunkedMemory):
            self.memory.remove(chunks)

    def request_tx(self, qp_index: int, packets: int) -> None:
        """Lets a QP send up to *packets* packets now, as far as window and work allow."""
        is_rc = qp_index in self.reliable_connections
        self._kick.mode = KickMode.RC if is_rc else KickMode.DATA
        self._kick.qp_index = qp_index
        while packets > 0:
            frames = min(packets, _FRAMES_PER_RUN)
            self._kick.frames_left = frames
            run_live(self._program, _FRAME, frames)
            packets -= frames

    def send_probes(self, targets: list[tuple[int, int]], kind: ProbeKind = ProbeKind.EV) -> None:
        """Sends one probe for each (QP index, EV index)."""
        for start in range(0, len(targets), Limit.KICK_PROBES):
            batch = targets[start : start + Limit.KICK_PROBES]
            self._kick.mode = KickMode.PROBE
            self._kick.probe_kind = kind
            self._kick.probe_cursor = 0
            self._kick.probe_count = len(batch)
            for place, (qp_index, ev_index) in enumerate(batch):
                self._kick.probe_qp[place] = c_uint32(qp_index).value
                self._kick.probe_ev[place] = c_uint32(ev_index).value
            run_live(self._program, _FRAME, len(batch))

    def send_path_probes(self, peer_host: int, evs: list[int]) -> list[int]:
        """Sends one probe of no QP on each of *evs*; their request ids, in the same order."""
        ids = []
        for start in range(0, len(evs), Limit.KICK_PROBES):
            batch = evs[start : start + Limit.KICK_PROBES]
            self._kick.mode = KickMode.PROBE
            self._kick.probe_kind = ProbeKind.PATH
            self._kick.probe_cursor = 0
            self._kick.probe_count = len(batch)
            for place, ev in enumerate(batch):
                self._kick.probe_qp[place] = c_uint32(peer_host).value
                self._kick.probe_ev[place] = c_uint32(ev).value
            run_live(self._program, _FRAME, len(batch))
            ids += self._kick.probe_id[: len(batch)]
        return ids

    def send_link_probes(self, path_count: int) -> None:
        self._kick.mode = KickMode.LINK_PROBE
        self._kick.probe_cursor = 0
        self._kick.probe_count = path_count
        run_live(self._program, _FRAME, path_count)

    def command(self, command: Command, qp_index: int, *arguments: int) -> bool:
        """Has the kernel change a QP under its lock; whether it did."""
        is_rc = qp_index in self.reliable_connections
        self._kick.mode = KickMode.RC_COMMAND if is_rc else KickMode.COMMAND
        self._kick.qp_index = qp_index
        self._kick.command = command
        self._kick.result = 0
        for place, argument in enumerate(arguments):
            self._kick.argument[place] = argument
        run_live(self._program, _FRAME, 1)
        return bool(self._kick.result)

    def await_runs(self) -> None:
        """Returns when no run of the NIC's programs that had begun is still going on."""
        if not isinstance(self.pins, VirtualFolder):  # where one runs at a time, and none while Python does
            await_running_programs()

    def counters(self) -> dict[str, int]:
        """Counters of the NIC since it was loaded, by lower-case name."""
        values = self._counters.sum(0)
        return {NicCounter(index).name.lower(): value for index, value in enumerate(values)}


def open_memory(opened: ExitStack, pins: Pins) -> ChunkedMemory | MappedMemory:
    """The memory of a NIC, as much as it has from the start; in virtual time it is one map."""
    if isinstance(pins, VirtualFolder):
        return MappedMemory(pins.map_fd("memory"))
    return ChunkedMemory(open_pinned_in(opened, pins, "memory"), open_chunks(opened, pins))


def available_bytes() -> int:
    """Memory of the machine that programs may still take."""
    return int(re.findall(r"^MemAvailable:\s*(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE)[0]) << 10


_MEMBARRIER: Final = {"x86_64": 324, "aarch64": 283, "riscv64": 283}
_CMD_GLOBAL: Final = 1


def await_running_programs() -> None:
    """Returns when every BPF program that was running has ended; those that begin meanwhile may go on.

    Programs run inside an RCU read-side critical section, and membarrier(2) with MEMBARRIER_CMD_GLOBAL waits
    for a grace period. It takes about ten milliseconds.
    """
    number = _MEMBARRIER.get(platform.machine())
    if number is None:
        raise FabricError(f"membarrier: its number on {platform.machine()} is not known")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, _CMD_GLOBAL, 0, 0):
        raise FabricError(
            f"membarrier: {os.strerror(ctypes.get_errno())}", hint="a kernel with nohz_full= refuses it"
        )
