"""A trace of a job on a transport: each rank goes through its graph as nodes of it end.

Steps lie between the marks that all ranks have in common; without one, the whole trace is one. Received data
is compared, which is no part of a node's time in virtual time.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import QpError, QueuePair
from mrc_testbed.errors import TestbedError
from mrc_testbed.traces.graph import Compute, GroupCall, Message, StepMark
from mrc_testbed.traces.walk import Walk
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.payload import Payload, build_payload
from mrc_testbed.workloads.rank_network import RankNetwork
from mrc_testbed.workloads.running import BookedWorkload
from mrc_testbed.workloads.trace import JobTrace
from mrc_testbed.workloads.transport import Event, Transport


@dataclass(frozen=True, slots=True)
class _Mark:
    """A rank's state at the begin of a step."""

    time_ns: int
    # until then
    computed_ns: int
    compared_bytes: int
    wrong_bytes: int


@dataclass(slots=True)
class _RankRun:
    """A rank on its way."""

    walk: Walk
    iteration: int = 0
    # by stream, nodes that wait for its computing; the first one computes
    streams: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    computing: int = 0  # streams
    computing_since_ns: int = 0
    computed_ns: int = 0
    compared_bytes: int = 0
    wrong_bytes: int = 0
    marks: list[_Mark] = field(default_factory=list)
    marked: int = 0  # in this iteration
    is_over: bool = False

    def change_computing(self, by: int, now_ns: int) -> None:
        """Note that a stream begins or ends to compute."""
        if self.computing:
            self.computed_ns += now_ns - self.computing_since_ns
        self.computing, self.computing_since_ns = self.computing + by, now_ns

    def mark(self, now_ns: int) -> None:
        self.change_computing(0, now_ns)
        self.marks.append(_Mark(now_ns, self.computed_ns, self.compared_bytes, self.wrong_bytes))


class RunningTrace(BookedWorkload):
    """A trace workload; its flows are the pairs of ranks that communicate, in both directions."""

    def __init__(
        self,
        load: Load,
        trace: JobTrace,
        transport: Transport,
        seed: int,
        on_operation: OperationPublisher | None = None,
    ) -> None:
        super().__init__(load, trace, on_operation)
        self._trace = trace
        self._job = trace.load()
        rank_of = {host: rank for rank, host in enumerate(trace.hosts)}
        self._ends = {flow: (rank_of[flow.source], rank_of[flow.target]) for flow in load.flows}
        self._network = RankNetwork(trace.hosts, transport, seed, self._job.pairs())
        self._steps = self._job.marked_steps()
        self._in_group = Counter(each.group for each in set(self._job.operations.values()))
        self._ranks: list[_RankRun] = []
        self._timers: list[tuple[int, int, str]] = []  # when a stream of a rank has computed its first node
        self._open: dict[int, tuple[int, int, Payload]] = {}  # rank, place
        self._ids = count(1)
        self._begin_ns = self._end_ns = 0
        self._left = load.iterations or 1
        self._error: str | None = None
        self._failed: QueuePair | None = None
        self._is_over = False

    # ---- what it is

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def is_under_way(self) -> bool:
        return self._begin_ns > 0 and not self._is_over

    @property
    def deadline_ns(self) -> int | None:
        """When the next node has computed."""
        return self._timers[0][0] if self._timers and self.is_under_way else None

    def prepare(self) -> None:
        """Connect the ranks that communicate."""
        self._network.open()

    def qps(self) -> Iterable[QueuePair]:
        return self._network.qps()

    def senders(self) -> Mapping[Flow, QueuePair]:
        return {flow: self._network.sending_end(*ends) for flow, ends in self._ends.items()}

    def close(self) -> list[TestbedError]:
        return self._network.close()

    # ---- what the engine asks

    def start(self) -> None:
        self._begin_ns = self._end_ns = monotonic_ns()
        for graph in self._job.graphs:
            run = _RankRun(Walk(graph))
            self._ranks.append(run)
            self._begin_iteration(run)
        for rank in range(len(self._ranks)):
            self._go_on(rank)
        self.advance(self._begin_ns)

    def stop(self) -> None:
        """Begin no further iteration."""
        self._left = 0

    def give_up(self, reason: str) -> None:
        """Fail it if it is under way."""
        if self.is_under_way:
            self._fail(reason)

    def take(self, event: Event) -> None:
        """Take an arrival, or the failure of a connection."""
        if self.is_under_way:
            if isinstance(event, QpError):
                self._failed = event.qp
            self._network.take(event)

    def lose(self, host: str, reason: str) -> None:
        """Fail if one of its ranks is on that host."""
        if self.is_under_way:
            self._network.lose(host, reason)

    def advance(self, now_ns: int) -> None:
        """Go on with what has ended by now."""
        while self.is_under_way:
            has_moved = False
            while self._timers and self._timers[0][0] <= now_ns:
                _, rank, stream = heapq.heappop(self._timers)
                self._computed(rank, stream, now_ns)
                has_moved = True
            self._network.advance()
            if self._network.failure is not None:
                self._fail(self._network.failure)
                return
            for rank, number, _ in self._network.take_ended():
                self._end_operation(rank, number)
                has_moved = True
            if not has_moved:
                break
        if self.is_under_way and not self._timers and not self._network.under_way:
            waiting = ", ".join(self._job.describe((rank, place)) for rank, place, _ in self._open.values())
            self._fail(f"the ranks wait for each other: {waiting}")

    # ---- results

    def outcomes(self) -> list[FlowOutcome]:
        """Return one for each direction of each pair; a rank's compared data counts for its first sender."""
        first_of = {flow.target: flow for flow in reversed(self.load.flows)}
        failed = next((flow for flow, qp in self.senders().items() if qp is self._failed), self.load.flows[0])
        outcomes = []
        for flow, (source, target) in self._ends.items():
            messages, payload_bytes = self._network.carried(source, target)
            run = self._ranks[target] if self._ranks and first_of[flow.target] is flow else None
            outcomes.append(
                FlowOutcome(
                    flow=flow,
                    qpn=self._network.sending_end(source, target).qpn,
                    start_ns=self._begin_ns,
                    end_ns=self._end_ns,
                    messages=messages,
                    payload_bytes=payload_bytes,
                    compared_bytes=0 if run is None else run.compared_bytes,
                    wrong_bytes=0 if run is None else run.wrong_bytes,
                    error=self._error if flow is failed else None,
                )
            )
        return outcomes

    # ---- a rank

    def _begin_iteration(self, run: _RankRun) -> None:
        run.marked = 0
        if not self._steps:
            run.mark(monotonic_ns())

    def _go_on(self, rank: int) -> None:
        """Start all nodes that may start, and those that may start as they end at once."""
        run = self._ranks[rank]
        while not run.is_over:
            while (place := run.walk.take_ready()) is not None:
                self._start_node(rank, place)
            if not run.walk.is_over:
                return
            run.iteration += 1
            if run.iteration < self._left:
                run.walk = Walk(self._job.graphs[rank])
                self._begin_iteration(run)
                continue
            run.mark(monotonic_ns())
            run.is_over = True
        self._note_steps()
        if all(each.is_over for each in self._ranks):
            self._end()

    def _start_node(self, rank: int, place: int) -> None:
        run, node = self._ranks[rank], self._job.graphs[rank].trace.nodes[place]
        match node.work:
            case Compute(stream=stream) if self._trace.duration_ns(node.duration_ns):
                run.streams[stream].append(place)
                if len(run.streams[stream]) == 1:
                    self._compute(rank, stream)
                return
            case StepMark() if run.marked < self._steps:
                run.marked += 1
                run.mark(monotonic_ns())
                self._note_steps()
            case GroupCall() | Message():
                if len(self._job.operations[rank, place].ranks) > 1:
                    self._post(rank, place)
                    return
        run.walk.end(place)

    def _compute(self, rank: int, stream: str) -> None:
        """Begin with the first node of a stream."""
        now_ns, run = monotonic_ns(), self._ranks[rank]
        run.change_computing(1, now_ns)
        node = self._job.graphs[rank].trace.nodes[run.streams[stream][0]]
        heapq.heappush(self._timers, (now_ns + self._trace.duration_ns(node.duration_ns), rank, stream))

    def _computed(self, rank: int, stream: str, now_ns: int) -> None:
        run = self._ranks[rank]
        run.change_computing(-1, now_ns)
        place = run.streams[stream].popleft()
        if run.streams[stream]:
            self._compute(rank, stream)
        run.walk.end(place)
        self._go_on(rank)

    def _post(self, rank: int, place: int) -> None:
        operation = self._job.operations[rank, place]
        index = operation.ranks.index(rank)
        work = operation.works[index]
        kind, root = (work.kind, work.root) if isinstance(work, GroupCall) else (None, None)
        number = operation.number + self._ranks[rank].iteration * self._in_group[operation.group]
        payload = build_payload(
            kind,
            [self._trace.size_bytes(each.size_bytes) for each in operation.works],
            index,
            0 if root is None else operation.ranks.index(root),
            number,
        )
        ended_as = next(self._ids)
        self._open[ended_as] = rank, place, payload
        self._network.start(
            rank,
            payload.function,
            operation.ranks,
            operation.group + 1,
            number,
            *payload.arguments,
            ended_as=ended_as,
        )

    def _end_operation(self, rank: int, number: int) -> None:
        _, place, payload = self._open.pop(number)
        run = self._ranks[rank]
        compared_bytes, wrong_bytes = payload.compare()
        run.compared_bytes += compared_bytes
        run.wrong_bytes += wrong_bytes
        run.walk.end(place)
        self._go_on(rank)

    # ---- the job

    def _note_steps(self) -> None:
        """Book the steps that all ranks have behind them."""
        while all(len(run.marks) > len(self._records) + 1 for run in self._ranks):
            at = len(self._records)
            begins, ends = ([run.marks[each] for run in self._ranks] for each in (at, at + 1))
            latest = max(range(len(ends)), key=lambda rank: ends[rank].time_ns)
            begin_ns = min(each.time_ns for each in begins)
            spans = list(zip(begins, ends, strict=True))
            self._book(
                [
                    OperationRecord(
                        step_begin_ns=begin_ns,
                        begin_ns=begin_ns,
                        end_ns=ends[latest].time_ns,
                        reaction_ns=0,
                        compared_bytes=sum(end.compared_bytes - begin.compared_bytes for begin, end in spans),
                        wrong_bytes=sum(end.wrong_bytes - begin.wrong_bytes for begin, end in spans),
                        last_rank=self._trace.hosts[latest],
                        computed_ns=tuple(end.computed_ns - begin.computed_ns for begin, end in spans),
                    )
                ]
            )

    def _fail(self, reason: str) -> None:
        self._error = reason
        self._network.fail(reason)
        self._end()

    def _end(self) -> None:
        self._end_ns = monotonic_ns()
        self._is_over = True
        self._open.clear()
        self._publish_end()
