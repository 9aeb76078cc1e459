"""The kernel's own TCP and MPTCP as a transport: sockets of the hosts, driven by their agents."""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from agents.nic.client import AgentClient
from testbed.fabric.kernel_stack import connect_kernels
from testbed.fabric.live import Lab
from testbed.topology.clos import Clos
from testbed.transport.kernel_tcp import KernelKind, TcpCongestion
from testbed.workloads.mrc_transport import MrcTransport, QpShape
from testbed.workloads.nic_access import NicConnection, NicMaps, NicView
from testbed.workloads.transport import End


class KernelTransport(MrcTransport):
    """The kernels of a lab's hosts.

    Args:
        clos: the lab's topology.
        connect: a new connection to the agent of a host.
        look: the maps of a host's NIC, whose memory the messages come from and go to.
        kind: `tcp` or `mptcp`.
        congestion: of every connection.
        ready: makes the kernels of hosts ready to send.
    """

    def __init__(
        self,
        clos: Clos,
        connect: Callable[[str], NicConnection],
        look: Callable[[str], NicView],
        kind: KernelKind,
        congestion: TcpCongestion,
        ready: Callable[[Sequence[str]], None],
    ) -> None:
        super().__init__(clos, connect, look, QpShape())
        self._kind = kind
        self._congestion = congestion
        self._ready = ready

    def open(self, hosts: Sequence[str]) -> None:
        """Connects to the agents of these hosts, and the hosts' kernels to the fabric."""
        self._ready(hosts)
        super().open(hosts)

    def connect(self, source: str, target: str, seed: int) -> tuple[End, End]:
        """Two ends of one connection, in a plane that the seed chooses; MPTCP's first subflow is there."""
        with ExitStack() as undone:
            near = self._end(source, self._create_stream(source, target))
            undone.callback(near.close)
            far = self._end(target, self._create_stream(target, source))
            undone.callback(far.close)
            self._nics[target].await_stream(far.number, near.number)
            plane = random.Random(seed).randrange(self._clos.spec.planes)
            self._nics[source].connect_stream(near.number, far.number, plane)
            undone.pop_all()
        return near, far

    def _create_stream(self, host: str, peer: str) -> int:
        algorithm = self._congestion.tcp_algorithm
        return self._nics[host].create_stream(self._clos.node(peer).index, self._kind, algorithm)


def open_kernel(lab: Lab, kind: KernelKind, congestion: TcpCongestion) -> KernelTransport:
    """The transport of a lab that is up."""
    return KernelTransport(
        lab.clos,
        lambda host: AgentClient(lab.paths.agent_socket(host)),
        lambda host: NicMaps(lab.paths.node_pins(host)),
        kind,
        congestion,
        lambda hosts: connect_kernels(lab, hosts),
    )
