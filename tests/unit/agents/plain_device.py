"""A NIC without a kernel: the agent's maps are plain memory, and requests to transmit are only noted."""

import ctypes
import errno
import os
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from mrc_testbed.agents.abi import (
    Command,
    EvState,
    Limit,
    NicConfig,
    NicControl,
    NicCounter,
    NicPaths,
    ProbeKind,
    Qp,
    QpState,
    RcQp,
    Region,
    WorkRing,
)
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.usid import BLOCK

_EV_STATES = {
    Command.DENY: EvState.DENIED,
    Command.ALLOW: EvState.GOOD,
    Command.GOOD: EvState.GOOD,
    Command.ASSUMED_BAD: EvState.ASSUMED_BAD,
}

AnyQp = TypeVar("AnyQp", bound=ctypes.Structure)


class PlainQps(Generic[AnyQp]):
    def __init__(self, kind: type[AnyQp], count: int) -> None:
        self._kind = kind
        self._values = [kind() for _ in range(count)]

    def read(self, index: int) -> AnyQp:
        return self._kind.from_buffer_copy(self._values[index])

    peek = read

    def write(self, index: int, value: AnyQp) -> None:
        self._values[index] = self._kind.from_buffer_copy(value)


class PlainMemory:
    def __init__(self, length_bytes: int) -> None:
        self._buffer = ctypes.create_string_buffer(length_bytes)
        self.length_bytes = length_bytes
        self.address = ctypes.addressof(self._buffer)
        self.view = memoryview(self._buffer).cast("B")


class PlainDevice:
    """Stands in for mrc_testbed.agents.nic.device.NicDevice.

    Attributes:
        requested: (QP index, packets) of each request to transmit.
        probes: (QP index, EV index) of each probe.
        probe_kinds: of each call that sent some.
        chunks: of memory that were added, of which there are chunks_max at most; they have no bytes.
    """

    def __init__(self, clos: Clos, host: int, *, qp_count: int = 3, memory_bytes: int = 1 << 20) -> None:
        spec = clos.spec
        self.config = NicConfig(
            host_index=host,
            plane_count=spec.planes,
            hosts_per_t0=spec.hosts_per_t0,
            uplinks_per_pair=spec.uplinks_per_pair,
            uplink_count=clos.numbering.uplink_count,
            srv6_block=BLOCK,
        )
        self.control = NicControl(port_up_mask=0b0101)
        self.paths = NicPaths().path
        self.qp_count = qp_count
        self.qps = PlainQps(Qp, qp_count)
        self.rc_qps = PlainQps(RcQp, qp_count)
        self.reliable_connections: set[int] = set()
        self.work = [WorkRing() for _ in range(qp_count)]
        self.regions = [Region() for _ in range(Limit.REGION_MAX)]
        self.memory = PlainMemory(memory_bytes)
        self.requested: list[tuple[int, int]] = []
        self.probes: list[tuple[int, int]] = []
        self.probe_kinds: list[ProbeKind] = []
        self.awaited_runs = 0
        self.chunks: set[int] = set()
        self.chunks_max = 0

    def await_runs(self) -> None:
        self.awaited_runs += 1

    def add_memory(self, chunks: Sequence[int]) -> None:
        assert self.chunks.isdisjoint(chunks)
        if len(self.chunks) + len(chunks) > self.chunks_max:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        self.chunks.update(chunks)

    def remove_memory(self, chunks: Iterable[int]) -> None:
        self.chunks.difference_update(chunks)

    def request_tx(self, qp_index: int, packets: int) -> None:
        self.requested.append((qp_index, packets))

    def send_probes(self, targets: list[tuple[int, int]], kind: ProbeKind = ProbeKind.EV) -> None:
        self.probes += targets
        self.probe_kinds.append(kind)

    def command(self, command: Command, qp_index: int, *arguments: int) -> bool:
        """Changes of state alone, as the kernel makes them."""
        qp = self.qps.read(qp_index)
        if command in _EV_STATES:
            ev = qp.evs[arguments[0]]
            if command == Command.ALLOW and ev.state != EvState.DENIED:
                return False
            ev.state = _EV_STATES[command]
            self.qps.write(qp_index, qp)
            return True
        if command in {Command.TRACK, Command.PENALTY}:
            qp.tracked_psns = arguments[0] if command == Command.TRACK else qp.tracked_psns
            qp.penalty = arguments[0] if command == Command.PENALTY else qp.penalty
            self.qps.write(qp_index, qp)
            return True
        if command == Command.REPLACE:
            qp.evs[arguments[0]].entropy, qp.evs[arguments[0]].path = arguments[1:]
            self.qps.write(qp_index, qp)
            return True
        if command == Command.RTS and qp.state == QpState.RTR:
            qp.state, (qp.mpr_psns, qp.max_wimm, qp.next_psn) = QpState.RTS, arguments
        elif command == Command.ERROR and qp.state not in {QpState.RESET, QpState.ERROR}:
            qp.state = QpState.ERROR
        else:
            return False
        self.qps.write(qp_index, qp)
        return True

    def counters(self) -> dict[str, int]:
        return {counter.name.lower(): 0 for counter in NicCounter if counter != NicCounter.COUNT}

    def posted(self, qp_index: int) -> list[int]:
        """Ids of the work in a QP's ring, oldest first."""
        ring = self.work[qp_index]
        first = max(0, ring.tail - Limit.WORK_RING)
        return [ring.entries[place % Limit.WORK_RING].id for place in range(first, ring.tail)]
