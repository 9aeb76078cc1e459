"""The NICs of a lab in virtual time: real agents, memory and programs, and engines that work with them."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from stopped_clock import StoppedClock

from mrc_agents.abi import Qp, Region, WorkRing
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.engine import VirtualEngine, VirtualTransport
from mrc_testbed.virtual.lab import VirtualLab, virtual_lab
from mrc_testbed.workloads.connectors import MrcConnector
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.transport import Transport

MS = 1_000_000
MEMORY_BYTES = 1 << 20


def fabric(**sizes: int) -> Clos:
    """Ports of 100 Mbit/s, and NICs with little memory."""
    usual = {"planes": 2, "t0": 2, "t1": 1, "hosts_per_t0": 1, "port_rate": 10**8}
    spec = TopologySpec.model_validate(usual | sizes)
    return Clos(spec.model_copy(update={"nic": spec.nic.model_copy(update={"memory": MEMORY_BYTES})}))


def in_ms(ms: int) -> int:
    return monotonic_ns() + ms * MS


class PostingTransport(VirtualTransport):
    """Posts messages of collectives from Python, as in a live lab."""

    sending_of = Transport.sending_of


class Nics:
    """All NICs of a lab."""

    def __init__(self, lab: VirtualLab) -> None:
        self.lab = lab

    def transport(self, connector: MrcConnector | None = None) -> VirtualTransport:
        return VirtualTransport(connector or MrcConnector(self.lab.clos), self.lab)

    @contextmanager
    def engine(
        self,
        connector: MrcConnector | None = None,
        listener: OperationPublisher | None = None,
        is_killed: Callable[[str], bool] = lambda _: False,
        *,
        posts: bool = False,
    ) -> Iterator[VirtualEngine]:
        kind = PostingTransport if posts else VirtualTransport
        transport = kind(connector or MrcConnector(self.lab.clos), self.lab)
        with closing(
            VirtualEngine(self.lab, transport, listener, is_killed, machine=StoppedClock())
        ) as engine:
            yield engine

    def agent(self, host: str) -> VirtualConnection:
        """A connection to an agent of a program beside."""
        return VirtualConnection(self.lab, host)

    def regions(self, host: str) -> list[Region]:
        """Memory that is registered."""
        entries = MappedArray(self.lab.node_pins(host).map_fd("regions"), Region)
        return [entry for entry in entries if entry.r_key]

    def ring(self, host: str, qpn: int) -> WorkRing:
        """The work ring of a QP."""
        return MappedArray(self.lab.node_pins(host).map_fd("work_ring"), WorkRing)[qp_index(qpn)]

    def order_of_evs(self, host: str, qpn: int) -> list[int]:
        """The EVs of a QP by their places, as they are first used."""
        return list(
            ArrayMap(self.lab.node_pins(host).map_fd("qps"), Qp, locked=True).read(qp_index(qpn)).evs.order
        )

    def left(self) -> list[Any]:
        """QPs and regions that there are."""
        hosts = [agent.host for agent in self.lab.agents if agent.is_alive]
        return [each for host in hosts for each in (*self.agent(host).list_qps(), *self.regions(host))]


@contextmanager
def virtual_nics(clos: Clos) -> Iterator[Nics]:
    with virtual_lab(clos, seed=1) as lab:
        yield Nics(lab)
