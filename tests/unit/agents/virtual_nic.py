"""A NIC in virtual time: its maps and programs are the real ones, an agent's verbs are the test's."""

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

from mrc_agents.abi import Limit, ProbeKind
from mrc_agents.bpf.virtual import VirtualFolder
from mrc_agents.nic.device import NicDevice
from mrc_testbed.topology.clos import Clos
from mrc_testbed.virtual.lab import virtual_lab


class VirtualNic(NicDevice):
    """Notes what it is asked for."""

    def __init__(self, pins: VirtualFolder) -> None:
        super().__init__(pins)
        self.requested: list[tuple[int, int]] = []  # (QP index, packets) of each request to transmit
        self.probes: list[tuple[int, int]] = []  # (QP index, EV index) of each probe
        self.awaited_runs = 0  # how often somebody waited for programs
        # of memory, that were added: chunks_max at most; virtual time has none
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
        super().request_tx(qp_index, packets)

    def send_probes(self, targets: list[tuple[int, int]], kind: ProbeKind = ProbeKind.EV) -> None:
        self.probes += targets
        super().send_probes(targets, kind)

    def posted(self, qp_index: int) -> list[int]:
        """Ids of the work in a QP's ring, oldest first."""
        ring = self.work[qp_index]
        first = max(0, ring.tail - Limit.WORK_RING)
        return [ring.entries[place % Limit.WORK_RING].id for place in range(first, ring.tail)]


@contextmanager
def virtual_nic(
    clos: Clos, host: int = 0, *, qp_count: int = 3, memory_bytes: int = 1 << 20
) -> Iterator[VirtualNic]:
    """The NIC of a host of a fabric, without an agent; it has few QPs, and little memory."""
    nic = clos.spec.nic.model_copy(update={"qps_max": qp_count, "memory": memory_bytes})
    spec = clos.spec.model_copy(update={"nic": nic, "port_rate": 100_000_000})
    with virtual_lab(Clos(spec), seed=1) as lab:
        lab.agents[host].kill()
        with closing(VirtualNic(lab.node_pins(lab.agents[host].host))) as device:
            yield device
