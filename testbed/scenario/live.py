"""A real lab behind the runner's protocols: thin adapters, no decisions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from typing import Any

from agents.nic.client import AgentClient
from agents.wire_abi import EvState, QpState
from testbed.errors import AgentError
from testbed.fabric.live import Lab
from testbed.faults.injector import FaultEvent
from testbed.faults.occurrence import FaultOccurrence
from testbed.faults.session import FaultSession
from testbed.metrics.reader import LabReader
from testbed.metrics.run_info import RunInfo, announce_run
from testbed.metrics.sampler import take_reading
from testbed.metrics.series import Reading
from testbed.scenario.event import EvTransition, FaultChange, NicEvent, PortTransition, QpTransition
from testbed.scenario.plan import PlannedTransport, PlannedWorkload
from testbed.scenario.protocols import Clock
from testbed.scenario.runner import World
from testbed.topology.clos import Clos
from testbed.workloads.engine import QpShape, WorkloadEngine
from testbed.workloads.load import Load
from testbed.workloads.outcome import FlowOutcome


@contextmanager
def live_world(lab: Lab, clock: Clock) -> Iterator[World]:
    """What a run works on, in a lab that is up; given back when the context ends, faults reverted first.

    Raises:
        TestbedError: the lab cannot be read or changed, or a NIC agent does not answer.
    """
    with ExitStack() as stack:
        reader = LabReader(lab.name, lab.clos, lab.paths.fabric_pins, lab.paths.pins / "nodes")
        stack.callback(reader.close)
        listeners = {}
        for host in lab.clos.hosts():
            listeners[host.name] = stack.enter_context(AgentClient(lab.paths.agent_socket(host.name)))
            listeners[host.name].subscribe()
        session = stack.enter_context(FaultSession(lab.name))
        engine = WorkloadEngine(lab.clos, lambda host: AgentClient(lab.paths.agent_socket(host)))
        workloads = stack.enter_context(closing(LiveWorkloads(engine)))
        yield World(clock, LiveInjector(session), workloads, LiveSampler(reader, listeners))


class LiveLab:
    """What the results say about a lab, and what the lab shows about the run."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    @property
    def name(self) -> str:
        """Name of the lab."""
        return self._lab.name

    @property
    def runtime(self) -> str:
        """`docker` or `netns`."""
        return str(self._lab.runtime)

    def announced(self, scenario: str, run_id: str, seed: int) -> AbstractContextManager[None]:
        """While the context lasts, metrics name the run as the one that uses the lab."""
        return announce_run(self._lab.state_dir, RunInfo(scenario, run_id, seed))


class LiveInjector:
    """Faults of this process in a lab; the lab's keeper reverts them should it die."""

    def __init__(self, session: FaultSession) -> None:
        self._session = session
        self._index_of: dict[str, int] = {}

    def apply(self, occurrence: FaultOccurrence) -> FaultChange:
        """Puts the occurrence in force."""
        event = self._session.apply(occurrence)
        self._index_of[occurrence.fault_id] = occurrence.index
        return self._change(event)

    def clear(self, occurrence: FaultOccurrence) -> FaultChange:
        """Ends the occurrence."""
        return self._change(self._session.clear(occurrence.fault_id))

    def clear_all(self) -> Sequence[FaultChange]:
        """Ends whatever this process has in force."""
        return [self._change(event) for event in self._session.clear_all()]

    def _change(self, event: FaultEvent) -> FaultChange:
        last_ns = max((drops.last_ns for drops in event.drops if drops.data_count), default=None)
        return FaultChange(
            action=event.action,
            fault_id=event.fault_id,
            occurrence=self._index_of[event.fault_id],
            before_ns=event.before_ns,
            after_ns=event.after_ns,
            lost_packets=sum(drops.data_count for drops in event.drops),
            last_lost_ns=last_ns,
        )


class LiveWorkloads:
    """The workloads of a plan on the NIC agents of a lab."""

    def __init__(self, engine: WorkloadEngine) -> None:
        self._engine = engine
        self.start: Callable[[str], None] = engine.start
        self.stop: Callable[[str], None] = engine.stop
        self.is_finished: Callable[[str], bool] = engine.is_finished
        self._is_closed = False

    def prepare(self, workloads: Sequence[PlannedWorkload], transport: PlannedTransport, seed: int) -> None:
        """Registers and fills memory, creates and connects QPs."""
        loads = [
            Load(
                name=workload.name,
                size_bytes=workload.size_bytes,
                depth=workload.depth,
                iterations=workload.iterations,
                flows=workload.flows,
            )
            for workload in workloads
        ]
        self._engine.prepare(loads, QpShape(transport.evs, transport.window_packets), seed)

    def collect(self, deadline_ns: int) -> Sequence[FlowOutcome]:
        """Waits for messages under way, compares received memory, returns every flow."""
        return self._engine.collect(deadline_ns)

    def close(self) -> None:
        """Destroys QPs and deregisters memory, once."""
        if not self._is_closed:
            self._is_closed = True
            self._engine.close()


class LiveSampler:
    """Counters from the pinned maps, events from the NIC agents."""

    def __init__(self, reader: LabReader, listeners: Mapping[str, AgentClient]) -> None:
        self._reader = reader
        self._listeners = listeners

    def read(self) -> Reading:
        """The readings of now."""
        return take_reading(self._reader)

    def drain_events(self) -> Sequence[NicEvent]:
        """What the NICs reported since the last call."""
        events = [
            parsed
            for host in self._listeners
            for message in self._messages(host)
            if (parsed := parse_nic_event(self._reader.clos, message)) is not None
        ]
        return sorted(events, key=lambda event: event.time_ns)

    def _messages(self, host: str) -> list[dict[str, Any]]:
        try:
            return list(self._listeners[host].drain_events())
        except AgentError as error:
            hint = "mrc-testbed status says which nodes still work"
            raise AgentError(f"the NIC agent of {host} is lost: {error.message}", hint=hint) from error


def parse_nic_event(clos: Clos, message: Mapping[str, Any]) -> NicEvent | None:
    """What a NIC agent's event says; None for kinds that a run does not look at."""
    match message["event"]:
        case "ev_state":
            return EvTransition(
                time_ns=message["time_ns"],
                host=message["host"],
                peer=clos.host(message["peer_host"]).name,
                qpn=message["qpn"],
                entropy=message["entropy"],
                before=EvState[message["from"]],
                after=EvState[message["to"]],
                reason=message["reason"],
            )
        case "qp_state":
            return QpTransition(
                time_ns=message["time_ns"],
                host=message["host"],
                qpn=message["qpn"],
                before=QpState[message["from"]],
                after=QpState[message["to"]],
                reason=message["status"],
            )
        case "port_state":
            return PortTransition(message["time_ns"], message["host"], message["plane"], message["is_up"])
    return None
