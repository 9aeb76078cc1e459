"""A lab that exists only as arithmetic: it fulfils the runner's protocols under a clock that never waits.

It is a fluid model, honest about what the runner relies on: time only moves when somebody waits or does
something that takes time; every EV whose path a fault hits leaves after a delay and returns after the
repair; counters are the integral of rates; no message is lost, no byte is wrong unless asked for.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from histograms import histogram_of

from mrc_testbed.agents.abi import EvState
from mrc_testbed.errors import FaultError
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.metrics.cpu_use import CpuReading, CpuTimes
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.series import HostCounts, Reading
from mrc_testbed.scenario.measure.event import EvTransition, FaultChange, NicEvent
from mrc_testbed.scenario.measure.recovery import Recovery
from mrc_testbed.scenario.run.runner import World
from mrc_testbed.scenario.spec.plan import Plan, PlannedTransport, PlannedWorkload
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import build_path
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.outcome import FlowOutcome
from mrc_testbed.workloads.program import Output, ProgramState

PACKET_BYTES = 2048
CALL_NS = 200_000
"""Time of each call into the lab."""

BOOT_NS = 5_000_000_000_000
_BEGUN = datetime(2026, 11, 21, 17, 0, tzinfo=UTC)


@dataclass
class SimulatedClock:
    """Time that moves when reported to."""

    time_ns: int = BOOT_NS
    interrupt_at_ns: int | None = None  # when a signal comes
    pause_at_ns: int | None = None  # when the machine stands still, for pause_ns
    pause_ns: int = 0
    set_at_ns: int | None = None  # when somebody sets the date, by set_by
    set_by: timedelta = timedelta()

    def now_ns(self) -> int:
        return self.time_ns

    def utc_now(self) -> datetime:
        is_set = self.set_at_ns is not None and self.time_ns >= self.set_at_ns
        since_boot = timedelta(microseconds=self.time_ns // 1000 - 5_000_000_000)
        return _BEGUN + since_boot + (self.set_by if is_set else timedelta())

    def wait_until_ns(self, deadline_ns: int) -> None:
        if self.interrupt_at_ns is not None and deadline_ns >= self.interrupt_at_ns:
            self.time_ns = max(self.time_ns, self.interrupt_at_ns)
            return
        self.time_ns = max(self.time_ns, deadline_ns)
        if self.pause_at_ns is not None and self.time_ns >= self.pause_at_ns:
            self.time_ns += self.pause_ns
            self.pause_at_ns = None

    def fileno(self) -> int:
        return -1

    def interruption(self) -> str | None:
        is_due = self.interrupt_at_ns is not None and self.time_ns >= self.interrupt_at_ns
        return "SIGINT" if is_due else None

    def take(self, duration_ns: int) -> None:
        self.time_ns += duration_ns


@dataclass
class SimulatedFlow:
    flow: Flow
    qpn: int
    evs: tuple[int, ...]
    rate_bps: float
    size_bytes: int
    iterations: int | None
    states: dict[int, EvState] = field(default_factory=dict)
    is_sending: bool = False
    start_ns: int = 0
    end_ns: int = 0
    acked_bytes: float = 0.0
    error: str | None = None

    @property
    def limit_bytes(self) -> float:
        return float("inf") if self.iterations is None else self.iterations * self.size_bytes


class SimulatedLab:
    """Injector, workload runner and sampler in one, as they share the state of the lab.

    Args:
        plan: whose fabric and workloads to simulate.
        rate_bps: of each flow while nothing is wrong.
        detect_ns, return_ns: longest delays until an EV leaves, and after the repair returns.
        plane_loss: a fault costs throughput in proportion to the paths it takes.

    Attributes:
        late_ns: lateness of the frames that leave their queues from one reading to the next; none: unshaped.
    """

    name = "simulated"
    runtime = "netns"

    def __init__(
        self,
        plan: Plan,
        *,
        rate_bps: float = 3.2e9,
        detect_ns: int = 260_000,
        return_ns: int = 60_000_000,
        plane_loss: bool = False,
    ) -> None:
        self.plan = plan
        self.clos = Clos(plan.topology)
        self.clock = SimulatedClock()
        self.world = World(self.clock, self, self, self)
        self.rate_bps = rate_bps
        self.detect_ns = detect_ns
        self.return_ns = return_ns
        self.plane_loss = plane_loss
        self.flows: list[SimulatedFlow] = []
        self.active: dict[str, tuple[ScheduledFault, int, int]] = {}
        self.calls: list[str] = []
        self.wrong_bytes = 0
        self.events_lost = 0
        self.late_ns: Sequence[int] = ()
        self.records: dict[str, list[OperationRecord]] = {}
        self.program_states: list[tuple[int, ProgramState]] = []
        self.fail: dict[str, BaseException] = {}
        self._random = random.Random(7)
        self._scheduled: list[EvTransition] = []
        self._events: list[NicEvent] = []
        self._advanced_ns = self.clock.time_ns
        self._retransmits: Counter[str] = Counter()
        self._messages: Counter[str] = Counter()
        self._fault_drops: Counter[str] = Counter()
        self._plane_bytes = [0.0] * plan.topology.planes
        self._rtt = [Histogram() for _ in range(plan.topology.planes)]
        self._message = Histogram()
        self._lateness = Histogram()
        self._cpu_ticks = [0, 0]
        self._paths: dict[tuple[str, str, int], frozenset[str]] = {}

    @contextmanager
    def announced(self, plan: Plan, folder: Path) -> Iterator[None]:
        self.calls.append(f"announce {plan.scenario}/{folder.name} {plan.seed}")
        yield
        self.calls.append("announcement over")

    def show_recovery(self, recoveries: Sequence[Recovery]) -> None:
        self.calls += [f"recovery {recovery.fault_id}" for recovery in recoveries]

    # ---- FaultInjector

    def make_ready(self, faults: Sequence[ScheduledFault]) -> None:
        assert tuple(faults) == self.plan.faults
        assert not self.active

    def apply(self, fault: ScheduledFault, index: int) -> FaultChange:
        self._called(f"apply {fault.fault_id}")
        before_ns = self.clock.now_ns()
        if fault.fault_id in self.active:
            raise FaultError(f"fault {fault.fault_id!r} is active already")
        self.active[fault.fault_id] = (fault, index, before_ns)
        for flow, entropy in self._hit(fault):
            lost = 1 + self._random.randrange(4)
            if fault.kind != "loss" or flow.is_sending:
                self._fault_drops["loss" if fault.kind == "loss" else "link_down"] += lost
                self._retransmits[flow.flow.source] += lost
            self._schedule(
                before_ns + self._random.randrange(60_000, self.detect_ns), flow, entropy, EvState.ASSUMED_BAD
            )
        self.clock.take(20_000)
        return FaultChange("applied", fault.fault_id, index, before_ns, self.clock.now_ns())

    def clear(self, fault: ScheduledFault) -> FaultChange:
        self._called(f"clear {fault.fault_id}")
        before_ns = self.clock.now_ns()
        _, index, applied_ns = self.active.pop(fault.fault_id)
        hit = list(self._hit(fault))
        for flow, entropy in hit:
            self._schedule(
                before_ns + self._random.randrange(5_000_000, self.return_ns), flow, entropy, EvState.GOOD
            )
        self.clock.take(20_000)
        return FaultChange(
            "cleared",
            fault.fault_id,
            index,
            before_ns,
            self.clock.now_ns(),
            lost_packets=2 * len(hit),
            last_lost_ns=applied_ns + self.detect_ns if hit else None,
        )

    def clear_all(self) -> Sequence[FaultChange]:
        self._called("clear_all")
        return [self.clear(fault) for fault, _, _ in list(self.active.values())]

    # ---- WorkloadRunner

    def prepare(
        self, workloads: Sequence[PlannedWorkload], transport: PlannedTransport, seed: int, output: Output
    ) -> None:
        self._called("prepare")
        for workload in workloads:
            if workload.program is not None:
                output(workload.name, b"[0] loading\n")
        for workload in workloads:
            for flow in workload.flows:
                source, target = self.clos.node(flow.source).index, self.clos.node(flow.target).index
                evs = build_ev_set(self.clos, source, target, transport.evs, seed)
                simulated = SimulatedFlow(
                    flow, 256 + len(self.flows), evs, self.rate_bps, workload.size_bytes, workload.iterations
                )
                simulated.states = dict.fromkeys(evs, EvState.GOOD)
                self.flows.append(simulated)

    def start(self, name: str) -> None:
        self._called(f"start {name}")
        for flow in self._of(name):
            flow.is_sending = True
            flow.start_ns = self.clock.now_ns()

    def stop(self, name: str) -> None:
        self._called(f"stop {name}")
        for flow in self._of(name):
            flow.is_sending = False
            flow.end_ns = self.clock.now_ns()

    def is_finished(self, name: str) -> bool:
        self._advance()
        state = self.program(name)
        is_running = state is not None and state.status is None and state.error is None
        return not is_running and not any(flow.is_sending for flow in self._of(name))

    def program(self, name: str) -> ProgramState | None:
        """The latest of those that the test has planned for a program."""
        if not any(each.name == name and each.program for each in self.plan.workloads):
            return None
        due = [state for at_ns, state in self.program_states if BOOT_NS + at_ns <= self.clock.now_ns()]
        return due[-1] if due else ProgramState(has_stepped=False, run_ns=0)

    def await_step(self, name: str, deadline_ns: int) -> None:  # noqa: ARG002 - there is one program
        """Let time pass until the state of a program changes."""
        changes = (
            BOOT_NS + at_ns for at_ns, state in self.program_states if state.has_stepped or state.error
        )
        later = [at_ns for at_ns in changes if at_ns > self.clock.now_ns()]
        self.clock.wait_until_ns(min([deadline_ns, *later]))

    def acknowledged_bytes(self) -> Mapping[Flow, int]:
        self._advance()
        return {flow.flow: int(flow.acked_bytes) for flow in self.flows}

    def operations(self, name: str) -> Sequence[OperationRecord]:
        return self.records.get(name, ())

    def collect(self, deadline_ns: int) -> Sequence[FlowOutcome]:
        self._called("collect")
        assert deadline_ns > self.clock.now_ns()
        return [
            FlowOutcome(
                flow=flow.flow,
                qpn=flow.qpn,
                start_ns=flow.start_ns,
                end_ns=flow.end_ns,
                messages=int(flow.acked_bytes // flow.size_bytes),
                payload_bytes=int(flow.acked_bytes // flow.size_bytes) * flow.size_bytes,
                compared_bytes=int(flow.acked_bytes),
                wrong_bytes=self.wrong_bytes if index == 0 else 0,
                error=flow.error,
            )
            for index, flow in enumerate(self.flows)
        ]

    def close(self) -> None:
        self.calls.append("close")
        self.flows.clear()
        if "close" in self.fail:
            raise self.fail.pop("close")

    # ---- Sampler

    def read(self) -> Reading:
        self._called("read")
        self._lateness += histogram_of(self.late_ns)
        hosts = {}
        for host in self.clos.hosts():
            acked = sum(int(flow.acked_bytes) for flow in self.flows if flow.flow.source == host.name)
            hosts[host.name] = HostCounts(
                acknowledged_bytes=acked,
                messages=self._messages[host.name],
                tx_data_packets=acked // PACKET_BYTES,
                retransmits_sack=self._retransmits[host.name],
                qp_errors=sum(1 for flow in self.flows if flow.error and flow.flow.source == host.name),
                events_lost=self.events_lost if host.name == "h0" else 0,
            )
        states = Counter(
            (decode_ev(entropy).plane, state) for flow in self.flows for entropy, state in flow.states.items()
        )
        ticks = self._cpu_ticks
        cpus = tuple(CpuTimes(str(cpu), 10_000 + ticks[0], 4_000 + ticks[1], 3_000, 0) for cpu in range(2))
        return Reading(
            time_ns=self.clock.now_ns(),
            queue_lateness=self._lateness if self.late_ns else None,
            hosts=hosts,
            packet_rtt=tuple(self._rtt),
            message_completion=self._message,
            ev_states=states,
            plane_tx_bytes=tuple(int(count) for count in self._plane_bytes),
            port_drops={
                "link_down": self._fault_drops["link_down"],
                "loss": self._fault_drops["loss"],
                "queue_full": 0,
                "pool_empty": 0,
                "malformed": 0,
                "no_route": 0,
            },
            cpus=CpuReading(self.clock.now_ns(), cpus),
        )

    def ring_drops(self) -> int:
        self._called("ring_drops")
        return 7 * self.calls.count("ring_drops")

    def drain_events(self) -> Sequence[NicEvent]:
        self._advance()
        drained, self._events = self._events, []
        return drained

    # ---- private

    def _called(self, what: str) -> None:
        self.calls.append(what)
        self.clock.take(CALL_NS)
        self._advance()
        if what in self.fail:
            raise self.fail.pop(what)

    def _of(self, name: str) -> list[SimulatedFlow]:
        return [flow for flow in self.flows if flow.flow.workload == name]

    def _hit(self, fault: ScheduledFault) -> list[tuple[SimulatedFlow, int]]:
        links = set(fault.links)
        return [
            (flow, entropy)
            for flow in self.flows
            for entropy in flow.evs
            if links & self._links(flow, entropy)
        ]

    def _links(self, flow: SimulatedFlow, entropy: int) -> frozenset[str]:
        ev = decode_ev(entropy)
        key = (flow.flow.source, flow.flow.target, entropy >> 16)
        if key not in self._paths:
            source, target = self.clos.node(flow.flow.source).index, self.clos.node(flow.flow.target).index
            path = build_path(self.clos, source, target, ev.plane, ev.uplink).links
            self._paths[key] = frozenset(link.name for link in path)
        return self._paths[key]

    def _schedule(self, time_ns: int, flow: SimulatedFlow, entropy: int, state: EvState) -> None:
        before = EvState.GOOD if state is EvState.ASSUMED_BAD else EvState.ASSUMED_BAD
        reason = "loss" if state is EvState.ASSUMED_BAD else "probe"
        event = EvTransition(
            time_ns, flow.flow.source, flow.flow.target, flow.qpn, entropy, before, state, reason
        )
        self._scheduled.append(event)

    def _advance(self) -> None:
        """Brings counters, EV states and events up to the clock."""
        now_ns = self.clock.now_ns()
        length_ns = now_ns - self._advanced_ns
        by_qpn = {flow.qpn: flow for flow in self.flows}
        due = sorted((e for e in self._scheduled if e.time_ns <= now_ns), key=lambda event: event.time_ns)
        self._scheduled = [event for event in self._scheduled if event.time_ns > now_ns]
        for event in due:
            flow = by_qpn.get(event.qpn)
            if flow is not None and flow.states[event.entropy] is not event.after:
                flow.states[event.entropy] = event.after
                self._events.append(event)
        if length_ns <= 0:
            return
        self._advanced_ns = now_ns
        self._cpu_ticks[0] += length_ns // 10_000_000
        self._cpu_ticks[1] += length_ns // 16_000_000
        for flow in self.flows:
            if flow.is_sending:
                self._send(flow, length_ns)
        if any(flow.is_sending for flow in self.flows):
            self._record_times(length_ns)

    def _send(self, flow: SimulatedFlow, length_ns: int) -> None:
        good = Counter(decode_ev(e).plane for e, state in flow.states.items() if state is EvState.GOOD)
        share = sum(good.values()) / len(flow.states)
        rate_bps = flow.rate_bps * self._random.uniform(0.985, 1.0) * (share if self.plane_loss else 1.0)
        sent = min(rate_bps * length_ns / 8e9, flow.limit_bytes - flow.acked_bytes)
        done = int(flow.acked_bytes // flow.size_bytes)
        flow.acked_bytes += sent
        self._messages[flow.flow.source] += int(flow.acked_bytes // flow.size_bytes) - done
        for plane, count in good.items():
            self._plane_bytes[plane] += sent * 1.07 * count / sum(good.values())
        if flow.acked_bytes >= flow.limit_bytes:
            flow.is_sending = False
            flow.end_ns = self.clock.now_ns()

    def _record_times(self, length_ns: int) -> None:
        weight = max(1, length_ns // 4_000_000)
        variant = self._random.randrange(8)
        hit_links = [link for fault, _, _ in self.active.values() for link in fault.links]
        for plane in range(len(self._rtt)):
            slow = 1.6 if any(f"p{plane}-" in link for link in hit_links) else 1.0
            self._rtt[plane] += _weighted(_times(int(38_000 * slow), 0.28, variant + plane), weight)
        self._message += _weighted(_times(2_600_000, 0.12, variant), weight)


@cache
def _times(median_ns: int, sigma: float, variant: int) -> Histogram:
    """Sixty times drawn from a log-normal distribution; a variant always gives the same ones."""
    drawn = random.Random(variant)
    return histogram_of(int(median_ns * drawn.lognormvariate(0, sigma)) for _ in range(60))


def _weighted(histogram: Histogram, weight: int) -> Histogram:
    return Histogram(histogram.lanes * weight, histogram.sum_ns * weight, histogram.max_ns)
