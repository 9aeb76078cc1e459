"""A NIC without a kernel: the agent's maps are plain memory, and frames that it lends are only noted."""

import ctypes

from agents.wire_abi import Command, Limit, NicConfig, NicCounter, ProbeKind, Qp, QpState, Region, WorkRing
from testbed.topology.clos import Clos
from testbed.topology.usid import BLOCK


class PlainQps:
    """The map of QPs."""

    def __init__(self, count: int) -> None:
        self._values = [Qp() for _ in range(count)]

    def read(self, index: int) -> Qp:
        return Qp.from_buffer_copy(self._values[index])

    def write(self, index: int, value: Qp) -> None:
        self._values[index] = Qp.from_buffer_copy(value)


class PlainMemory:
    """The NIC's memory."""

    def __init__(self, length_bytes: int) -> None:
        self._buffer = ctypes.create_string_buffer(length_bytes)
        self.length_bytes = length_bytes
        self.address = ctypes.addressof(self._buffer)
        self.view = memoryview(self._buffer).cast("B")


class PlainDevice:
    """Stands in for agents.nic.device.NicDevice.

    Attributes:
        lent: (QP index, packets) of each time frames were lent.
        probes: (QP index, EV index) of each probe.
        probe_kinds: of each call that sent some.
    """

    def __init__(self, clos: Clos, host: int, *, qp_count: int = 3, memory_bytes: int = 1 << 20) -> None:
        spec = clos.spec
        self.config = NicConfig(
            host_index=host,
            plane_count=spec.planes,
            hosts_per_t0=spec.hosts_per_t0,
            uplinks_per_pair=spec.uplinks_per_pair,
            srv6_block=BLOCK,
            port_up_mask=0b0101,
        )
        self.qp_count = qp_count
        self.qps = PlainQps(qp_count)
        self.work = [WorkRing() for _ in range(qp_count)]
        self.regions = [Region() for _ in range(64)]
        self.memory = PlainMemory(memory_bytes)
        self.lent: list[tuple[int, int]] = []
        self.probes: list[tuple[int, int]] = []
        self.probe_kinds: list[ProbeKind] = []

    def lend_frames(self, qp_index: int, packets: int) -> None:
        self.lent.append((qp_index, packets))

    def send_probes(self, targets: list[tuple[int, int]], kind: ProbeKind = ProbeKind.EV) -> None:
        self.probes += targets
        self.probe_kinds.append(kind)

    def command(self, command: Command, qp_index: int, *arguments: int) -> bool:
        """Changes of state alone, as the kernel makes them."""
        qp = self.qps.read(qp_index)
        if command == Command.RTS and qp.state == QpState.RTR:
            qp.state, (qp.mpr_psns, qp.max_wimm) = QpState.RTS, arguments
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
