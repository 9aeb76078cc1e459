"""A real lab behind the runner's protocols: thin adapters, no decisions."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from mrc_agents.abi import EvState, QpState
from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.client import AgentClient
from mrc_testbed.fabric.doorbell import ring_drops
from mrc_testbed.fabric.link_probes import LinkProbeCounts
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.ranks import Rank, Write, placed_ranks
from mrc_testbed.fabric.rdma import RdmaTransport
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.fault import FaultEvent, ScheduledFault
from mrc_testbed.faults.interactive import FaultSession
from mrc_testbed.metrics.measured import RecoveryTime, write_recovery
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.run_info import RunInfo, announce_run
from mrc_testbed.metrics.series import Reading
from mrc_testbed.metrics.take_reading import take_reading
from mrc_testbed.observe.run_reports import record_run
from mrc_testbed.probing.localisation import LinkWatch
from mrc_testbed.scenario.measure.event import (
    EvTransition,
    FaultChange,
    NicEvent,
    PortTransition,
    QpTransition,
)
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.run.nic_listeners import NicListeners
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.run.runner import World
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.topology.clos import Clos
from mrc_testbed.workloads.connectors import open_transport
from mrc_testbed.workloads.engine import WorkloadEngine
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.program import Program

_LOG: Final = logging.getLogger(__name__)


@contextmanager
def live_world(
    lab: Lab, plan: Plan, clock: Clock, *, show: Write = lambda *_: None, agents_may_fail: bool = False
) -> Iterator[World]:
    """The world of one run of a plan, in a lab that is up; faults are reverted when the context ends.

    Args:
        agents_may_fail: whether the run goes on if NIC agents die that its faults do not kill.
    """
    with ExitStack() as stack:
        reader = LabReader(lab.name, lab.clos, lab.paths.fabric_pins, lab.paths.pins / "nodes")
        stack.callback(reader.close)
        nics = stack.enter_context(
            closing(
                NicListeners(
                    lab.clos, lambda host: AgentClient(lab.paths.agent_socket(host)), may_fail=agents_may_fail
                )
            )
        )
        session = stack.enter_context(FaultSession(lab.name, is_idle=not plan.faults))
        shown = stack.enter_context(closing(OperationPublisher(lab.state_dir)))

        def place(program: Program) -> AbstractContextManager[list[Rank]]:
            kind = RdmaTransport(plan.transport.kind)
            return placed_ranks(lab, program.hosts, program.command, program.variables, kind)

        opened = open_transport(lab, plan.transport.kind, plan.transport.congestion, evs=plan.transport.evs)
        engine = stack.enter_context(closing(WorkloadEngine(opened, shown, nics.is_killed, place, show)))
        probes = None
        if lab.spec.probing is not None:
            probes = stack.enter_context(LinkProbeCounts(lab.paths, lab.clos))
        sampler = LiveSampler(partial(take_reading, reader), lab.clos, nics, probes, partial(ring_drops, lab))
        yield World(clock, RunFaults(session, nics), engine, sampler)


class LiveLab:
    """The lab as the results describe it, and its view of the run."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.name = lab.name
        self.runtime = str(lab.runtime)  # `docker` or `netns`

    def announced(self, plan: Plan, folder: Path) -> AbstractContextManager[None]:
        """While the context lasts, metrics name the run as the one that uses the lab.

        The exporter finds the report in *folder* from then on.
        """
        try:
            record_run(self._lab.paths.root, folder)
        except (OSError, ValueError) as error:  # no room, or a name that is no UTF-8
            _LOG.warning("the exporter will not show this run's report: %s", error)
        spans_ns = {
            fault.fault_id: end_ns - fault.periods[0][0]
            for fault in plan.faults
            if len(fault.periods) > 1 and (end_ns := fault.periods[-1][1]) is not None
        }
        info = RunInfo(plan.scenario, folder.name, plan.seed, spans_ns, monotonic_ns())
        return announce_run(self._lab.state_dir, info)

    def show_recovery(self, recoveries: Sequence[Recovery]) -> None:
        """Lets metrics show how the run recovered from its faults; replaces that of an earlier run."""
        times = [
            RecoveryTime(recovery.fault_id, name, phase.longest_ns)
            for recovery in recoveries
            for name, phase in zip(("detect", "avoid", "restore"), recovery.phases, strict=True)
            if phase.longest_ns is not None
        ]
        try:
            write_recovery(self._lab.state_dir, times)
        except OSError as error:
            _LOG.warning("metrics will not show this run's recovery: %s", error)


class RunFaults:
    """The faults of a run, as its report needs them."""

    def __init__(self, controller: FaultController, nics: NicListeners) -> None:
        self._controller = controller
        self._nics = nics
        self._index_of: dict[str, int] = {}
        self._killers: set[str] = set()

    def make_ready(self, faults: Sequence[ScheduledFault]) -> None:
        self._controller.make_ready(faults)

    def apply(self, fault: ScheduledFault, index: int) -> FaultChange:
        """Puts an occurrence of *fault* in force."""
        if fault.kills_agents:
            self._nics.expect_loss(fault.nodes)
            self._killers.add(fault.fault_id)
        event = self._controller.apply(fault)
        self._index_of[fault.fault_id] = index
        return self._change(event)

    def clear(self, fault: ScheduledFault) -> FaultChange:
        return self._change(self._controller.clear(fault.fault_id))

    def clear_all(self) -> Sequence[FaultChange]:
        """Ends whatever this process has in force."""
        return [self._change(event) for event in self._controller.clear_all()]

    def _change(self, event: FaultEvent) -> FaultChange:
        if event.fault_id in self._killers and event.action == "cleared":
            self._nics.connect_again(event.nodes)
        lost = [account for account in event.accounts if event.is_losing and account.data_count]
        return FaultChange(
            action=event.action,
            fault_id=event.fault_id,
            occurrence=self._index_of[event.fault_id],
            before_ns=event.before_ns,
            after_ns=event.after_ns,
            hit_packets=sum(account.count for account in event.accounts),
            lost_packets=sum(account.data_count for account in lost),
            last_lost_ns=max((account.last_ns for account in lost), default=None),
        )


class LiveSampler:
    """Counters from the maps, events from the NIC agents.

    Args:
        take: a reading of now.
        probes: counts of link probes; None without any.
        count_ring_drops: frames that receive rings have lost.
    """

    def __init__(
        self,
        take: Callable[[], Reading],
        clos: Clos,
        nics: NicListeners,
        probes: LinkProbeCounts | None,
        count_ring_drops: Callable[[], int],
    ) -> None:
        self._take = take
        self._clos = clos
        self._nics = nics
        self._probes = probes
        self._count_ring_drops = count_ring_drops
        self._watch = LinkWatch(clos)

    def read(self) -> Reading:
        reading = self._take()
        if self._probes is None:
            return reading
        diagnosis = self._watch.add(reading.time_ns, self._probes.read())
        return replace(reading, suspects=diagnosis.suspect_names)

    def ring_drops(self) -> int:
        """Frames that receive rings of links have lost since the lab was made."""
        return self._count_ring_drops()

    def drain_events(self) -> Sequence[NicEvent]:
        """Events of the NICs since the last call."""
        events = [
            parsed
            for message in self._nics.messages()
            if (parsed := parse_nic_event(self._clos, message)) is not None
        ]
        return sorted(events, key=lambda event: event.time_ns)


def parse_nic_event(clos: Clos, message: Mapping[str, Any]) -> NicEvent | None:
    """The event of a NIC agent's message; None for kinds that a run does not use."""
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
