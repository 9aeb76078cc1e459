"""The workload engine in virtual time: whoever waits for it lets time pass."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from mrc_agents.nic.context import Context, QueuePair
from mrc_agents.nic.nic_maps import NicMaps
from mrc_testbed.fabric.ranks import Write
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.spec.plan import PlannedTransport
from mrc_testbed.transport.reliable_connection import RcCongestion, rto_ns
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import VirtualLab
from mrc_testbed.virtual.simulated_program import SimulatedProgram
from mrc_testbed.workloads.connectors import choose_connector
from mrc_testbed.workloads.engine import Engine
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.program import Program
from mrc_testbed.workloads.running import RunningWorkload
from mrc_testbed.workloads.transport import Connector, Transport

_FOR_EVER_NS = (1 << 63) - 1


class VirtualEngine(Engine):
    """The workloads of one run in a lab in virtual time."""

    def __init__(
        self,
        lab: VirtualLab,
        transport: Transport,
        on_operation: OperationPublisher | None = None,
        is_killed: Callable[[str], bool] = lambda _: False,
        *,
        machine: Clock,
        show: Write = lambda *_: None,
    ) -> None:
        super().__init__(transport, on_operation, is_killed, show)
        self._lab = lab
        self._machine = machine
        self._turns = ExitStack()

    def await_step(self, name: str, deadline_ns: int) -> None:
        """Let time pass until a program has made its first step, or is over, but not beyond that time."""
        self._lab.run_until(deadline_ns, lambda: self._has_stepped(name))

    def wait(self, deadline_ns: int | None) -> bool:
        """Return True if all workloads that were started are over."""
        self._lab.run_until(_FOR_EVER_NS if deadline_ns is None else deadline_ns, self._is_over)
        return self._is_over()

    def _made_program(self, load: Load, program: Program, seed: int) -> RunningWorkload:
        return SimulatedProgram(load, program, self._transport, seed, self._machine, self._writer(load))

    def _begin(self) -> None:
        self._turns.enter_context(self._lab.taking_turns(self))

    def _end(self) -> None:
        self._turns.close()

    def _command(self, work: Callable[[], None]) -> None:
        work()


class VirtualTransport(Transport):
    """NICs that announce their events: however many there are, only those are looked at."""

    def __init__(self, connector: Connector, lab: VirtualLab) -> None:
        super().__init__(connector, self._open)
        self._lab = lab
        self._hosts: dict[str, None] = {}

    @property
    def has_events(self) -> bool:
        return bool(self._hosts)

    def _open(self, host: str) -> Context:
        def on_event() -> None:
            self._hosts[host] = None
            self._lab.notify()

        return Context(VirtualConnection(self._lab, host, on_event), NicMaps(self._lab.node_pins(host)))

    def sending_of(self, qp: QueuePair) -> tuple[int, int] | None:
        reactions = None if self._lab.is_watched else self._lab.agent(qp.host).reactions
        return None if reactions is None else reactions.verbs.sending_of(qp.qpn)

    def _attend(self, nic: Context) -> None:
        pass

    def _ready(self) -> list[Context]:
        hosts, self._hosts = self._hosts, {}
        return [self._attended[host] for host in hosts if host in self._attended]

    def _forget(self, nic: Context) -> None:
        pass


def virtual_transport(lab: VirtualLab, transport: PlannedTransport) -> Transport:
    """The transport of the messages of a plan."""
    congestion = transport.congestion
    if isinstance(congestion, RcCongestion):  # nothing is late here
        congestion = replace(congestion, rto_ns=rto_ns(lab.clos, congestion.window_packets, lateness_ns=0))
    connector = choose_connector(lab.clos, transport.kind, congestion, evs=transport.evs)
    return VirtualTransport(connector, lab)
