"""The conditions that hold in every universe, whatever it was made of, and the observations they need."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final

from pydantic import Field

from mrc_agents.abi import IcrcMode, LosslessLink, QpState, QueuePool
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_agents.nic.device import NicDevice
from mrc_testbed.faults.effects import AgentDead, Drained, Effect, Frozen, IcrcChecked, Loaded, RoutesGone
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.measure.verdict import Ending
from mrc_testbed.scenario.spec.plan import Plan, PlannedWorkload
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import VirtualLab
from mrc_testbed.workloads.engine import NOT_COMPLETED
from mrc_testbed.workloads.flow import Flow

Qp = tuple[str, int]
"""Host and number."""

_CONTROL_MAPS = ("port_table", "port_fault", "lossless_settings", "fib")
"""Written by the control plane alone: with the last fault they are as before the first."""


class Witness:
    """A connection to every agent, beside those of the run; to those only that live all the time."""

    def __init__(self, lab: VirtualLab) -> None:
        self._lab = lab
        lab.is_watched = True
        self._first = {agent.host: agent.reactions for agent in lab.agents}
        self._connections = {host: VirtualConnection(lab, host) for host in self._first}
        for connection in self._connections.values():
            connection.subscribe("completion", "receive")
        # by QP, ids of completed work requests, in the order of their events
        self.completed: defaultdict[Qp, list[int]] = defaultdict(list)
        # by QP, numbers of WRITEs with immediate that have arrived
        self.arrived: defaultdict[Qp, list[int]] = defaultdict(list)
        # rows of `list_qps`, each with its `host`, and in `posted` the work requests that have not completed;
        # none when the run did not get to its end
        self.qps: list[dict[str, Any]] = []

    def look(self) -> None:
        """Takes what has happened, and notes QPs as they are now."""
        self.qps.clear()
        for agent in self._lab.agents:
            host, reactions = agent.host, self._first[agent.host]
            if reactions is None or agent.reactions is not reactions:
                continue  # it was killed, and all of its QPs with it
            for event in self._connections[host].drain_events():
                if event["event"] == "completion":
                    self.completed[host, event["qpn"]].append(event["work_id"])
                elif event["event"] == "receive":
                    self.arrived[host, event["qpn"]].append(event["number"])
            for row in self._connections[host].list_qps():
                posted = reactions.verbs.posted(row["qpn"])
                self.qps.append(row | {"host": host, "posted": posted})

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def in_flight(row: dict[str, Any]) -> dict[str, int | None]:
    """Packets and bytes that a QP has under way, where not zero, by their names in `list_qps`."""
    return {key: row[key] for key in ("inflight", "lost_waiting", "inflight_bytes") if row.get(key)}


def control_plane(lab: VirtualLab) -> dict[str, bytes]:
    """The state that faults change and have to restore, by name."""
    found = {name: bytes(lab.fabric_pins.map_fd(name).memory) for name in _CONTROL_MAPS}
    for host in lab.clos.hosts():
        found[f"nic_config of {host.name}"] = bytes(lab.node_pins(host.name).map_fd("nic_config").memory)
    return found


STALL_NS: Final = 2_000_000_000
"""Longer than a QP of MRC may be without progress while one of its planes is untouched: some time-outs."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An invariant that does not hold."""

    # its name; a shrunk plan fails by the same, and it is a part of a file's name
    invariant: Annotated[str, Field(pattern=r"^\w{1,64}$")]
    text: str  # what was found

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}"


# ---- the run


def is_at_rest(witness: Witness, reach: "Reach") -> bool:
    """Return True if at the last look no QP had work or packets under way, but of a dead agent."""
    return not any(row["posted"] or in_flight(row) for row in witness.qps if not reach.awaits_dead(row))


def judge_run(plan: Plan, recording: Recording, ending: Ending | None, witness: Witness) -> list[Failure]:
    """Invariants of workloads and QPs."""
    reach = Reach(plan)
    return [
        *_ending(plan, ending, reach),
        *_bytes(recording),
        *_errors(plan, recording, reach),
        *_counts(plan, recording),
        *_exactly_once(witness),
        *_nothing_in_flight(witness, reach),
        *_stalls(plan, recording, reach),
    ]


class Reach:
    """Whom the faults of a plan can hurt."""

    def __init__(self, plan: Plan) -> None:
        self._clos = resolve_topology(plan.topology)
        effects = [effect for fault in plan.faults for effect in fault.effects]
        self.killed = {effect.host for effect in effects if isinstance(effect, AgentDead)}
        self.hosts = self.killed | {effect.host for effect in effects if isinstance(effect, Frozen)}
        self.planes = set(_planes(self._clos, effects))
        self.is_mrc = plan.transport.kind == "mrc"

    def loses_qp(self, *hosts: str) -> bool:
        """Return True if a QP between hosts may fail; an RC QP gives up after fifty time-outs."""
        return not self.killed.isdisjoint(hosts) or (not self.is_mrc and bool(self.planes | self.hosts))

    def awaits_dead(self, row: Mapping[str, Any]) -> bool:
        """Return True if a QP, as `list_qps` has it, lost an agent: it may try again for ever."""
        return not self.killed.isdisjoint((row["host"], f"h{row['peer_host']}"))

    def leaves_path(self, flow: Flow) -> bool:
        """Return True if a plane and both hosts of a flow are untouched, all the time."""
        is_whole = len(self.planes) < self._clos.spec.planes
        return self.is_mrc and is_whole and self.hosts.isdisjoint((flow.source, flow.target))


def _planes(clos: Clos, effects: Iterable[Effect]) -> Iterator[int]:
    for effect in effects:
        match effect:
            case AgentDead() | Frozen() | IcrcChecked():
                continue
            case RoutesGone(switch=switch):
                yield next(clos.ports_of(clos.node(switch))).plane
            case Drained(link_id=link_id):
                yield clos.link(link_id).plane
            case Loaded(load=load):
                yield clos.port(load.port_id).plane
            case _:
                yield clos.port(effect.port_id).plane


def _ending(plan: Plan, ending: Ending | None, reach: Reach) -> Iterator[Failure]:
    if ending is None:
        return
    for workload in plan.workloads:
        is_late = f"workload {workload.name} had not finished" in ending.reason
        if is_late and not all(reach.leaves_path(flow) for flow in workload.flows):
            return
    yield Failure("ending", f"{ending.status}: {ending.reason}")


def _bytes(recording: Recording) -> Iterator[Failure]:
    for outcome in recording.outcomes:
        if outcome.wrong_bytes:
            yield Failure("bytes", f"{_name(outcome.flow)}: {outcome.wrong_bytes} are wrong")


def _errors(plan: Plan, recording: Recording, reach: Reach) -> Iterator[Failure]:
    """A workload that goes hand in hand fails as a whole."""
    for workload in plan.workloads:
        ends = {host for flow in workload.flows for host in (flow.source, flow.target)}
        for outcome in recording.outcomes:
            flow = outcome.flow
            hosts = ends if workload.collective is not None else {flow.source, flow.target}
            if flow.workload == workload.name and outcome.error and not reach.loses_qp(*hosts):
                is_stuck = outcome.error == NOT_COMPLETED
                yield Failure("stuck" if is_stuck else "qp", f"{_name(flow)}: {outcome.error}")


def _counts(plan: Plan, recording: Recording) -> Iterator[Failure]:
    """Check that a workload asked for so many messages or operations gets so many."""
    for workload in plan.workloads:
        outcomes = [outcome for outcome in recording.outcomes if outcome.flow.workload == workload.name]
        if workload.iterations is None or any(outcome.error for outcome in outcomes):
            continue
        done = _done(workload, recording)
        if outcomes and done != {workload.iterations}:
            yield Failure("count", f"{workload.name}: {sorted(done)} done, asked for {workload.iterations}")


def _done(workload: PlannedWorkload, recording: Recording) -> set[int]:
    if workload.collective is not None:
        return {len(recording.operations[workload.name])}
    return {outcome.messages for outcome in recording.outcomes if outcome.flow.workload == workload.name}


def _exactly_once(witness: Witness) -> Iterator[Failure]:
    for (host, qpn), ids in witness.completed.items():
        if len(set(ids)) != len(ids):
            yield Failure("completion", f"QP {qpn} of {host}: a work request completed twice: {ids}")
    for (host, qpn), numbers in witness.arrived.items():
        if sorted(numbers) != list(range(1, len(numbers) + 1)):
            yield Failure("arrival", f"QP {qpn} of {host}: arrivals {numbers}")


def _nothing_in_flight(witness: Witness, reach: Reach) -> Iterator[Failure]:
    """All work is done, but of QPs that lost their peer."""
    for row in witness.qps:
        name = f"QP {row['qpn']} of {row['host']}"
        if reach.loses_qp(row["host"], f"h{row['peer_host']}"):
            continue
        if row["state"] == QpState.ERROR.name:
            yield Failure("qp", f"{name}: {row['status']}")
            continue
        if row["posted"]:
            yield Failure("completion", f"{name}: none of work requests {row['posted']}")
        if left := in_flight(row):
            yield Failure("window", f"{name}: {left} with nothing to do")


def _stalls(plan: Plan, recording: Recording, reach: Reach) -> Iterator[Failure]:
    """Until the workload is stopped: then nobody reads how far a flow is."""
    alone = {workload.name for workload in plan.workloads if workload.collective is None}
    for outcome in recording.outcomes:
        flow = outcome.flow
        if flow.workload not in alone or outcome.error or not reach.leaves_path(flow):
            continue
        end_ns = min(outcome.end_ns, recording.workload_ends[flow.workload])
        moved = [(outcome.start_ns, 0)]
        for reading in recording.flow_readings:
            count = reading.acknowledged_bytes.get(flow, 0)
            if outcome.start_ns <= reading.time_ns <= end_ns and count > moved[-1][1]:
                moved.append((reading.time_ns, count))
        moved.append((end_ns, 0))
        longest_ns = max(after - before for (before, _), (after, _) in pairwise(moved))
        if longest_ns > STALL_NS:
            yield Failure("stall", f"{_name(flow)}: no progress for {longest_ns} ns while a path lives")


# ---- the fabric, when all has come to rest


def judge_fabric(lab: VirtualLab, before: dict[str, bytes]) -> list[Failure]:
    """Invariants of what is left though nobody sends, and of faults that are over."""
    return [*_rates(lab), *_frames(lab), *_lossless(lab), *_given_back(lab, before)]


def _rates(lab: VirtualLab) -> Iterator[Failure]:
    early = lab.runtime.totals().early_frames
    if early:
        yield Failure("rates", f"{early} frames crossed a link sooner than its port's rate allows")


def _frames(lab: VirtualLab) -> Iterator[Failure]:
    pool = ArrayMap(lab.fabric_pins.map_fd("queue_pool"), QueuePool).read(0)
    if pool.used:
        yield Failure("frames", f"{pool.used} did not come back to the pool")


def _lossless(lab: VirtualLab) -> Iterator[Failure]:
    has_credits = lab.clos.spec.flow_control == "credits"
    for port_id, link in enumerate(MappedArray(lab.fabric_pins.map_fd("lossless_links"), LosslessLink)):
        # an idle sender takes note of credit that has come back when it sends again
        places = range(link.update_head, link.update_tail)
        returned = sum(link.updates[place % len(link.updates)].value for place in places)
        name = lab.clos.port(port_id).name
        if has_credits and link.used_bytes != returned:
            yield Failure("credits", f"{name}: {link.used_bytes} bytes used, {returned} given back")
        if link.buffered_bytes:
            yield Failure("buffer", f"{name}: {link.buffered_bytes} bytes behind it with nothing waiting")
        if link.is_pause_sent:
            yield Failure("pause", f"{name}: paused with nothing waiting")


def _given_back(lab: VirtualLab, before: dict[str, bytes]) -> Iterator[Failure]:
    for name, now in control_plane(lab).items():
        if now != before[name]:
            yield Failure("fault", f"{name} is not as it was")
    ports_up = (1 << lab.clos.spec.planes) - 1
    for agent in lab.agents:
        if not agent.is_alive or agent.is_frozen:
            yield Failure("fault", f"the agent of {agent.host} does not run")
            continue
        control = NicDevice(lab.node_pins(agent.host)).control
        if control.port_up_mask != ports_up:
            yield Failure("fault", f"{agent.host} takes the ports {control.port_up_mask:b} for up")
        if IcrcMode(control.icrc_mode).name.lower() != lab.clos.spec.nic.icrc:
            yield Failure("fault", f"{agent.host} goes on with iCRC mode {control.icrc_mode}")
        connection = VirtualConnection(lab, agent.host)
        if connection.denied_paths():
            yield Failure("fault", f"{agent.host} denies paths")
        connection.close()
    if not all(lab.carriers):
        yield Failure("fault", "a port has no carrier")


def _name(flow: Flow) -> str:
    return f"{flow.workload} {flow.source} > {flow.target}"
