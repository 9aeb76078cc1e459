"""The reason why an operation of a run took as long as it did.

The run is repeated twice: up to the operation's end to learn which of its messages waited for which, then
with a trace of the QPs that carried those on its critical path.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mrc_agents.abi import TraceKind
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.explain.causes import Cause, FaultTimes, Segment
from mrc_testbed.explain.critical_path import KINDS, CriticalPath, Pair
from mrc_testbed.explain.trace import QpPlace, Records, Tracer, repeat
from mrc_testbed.scenario.spec.plan import Plan, PlannedWorkload
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective operation, a training step, or a message of a flow; times are of the lab's clock."""

    workload: str
    word: str  # operation, step or message
    number: int  # from 0; of a message, that of its QP
    begin_ns: int  # computing included
    end_ns: int  # of a message that was never completed, when its QP failed
    posted_ns: int  # when its first message was posted; without computing, its begin
    pair: Pair | None = None  # of a message, its QPs
    is_complete: bool = True

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.begin_ns

    @property
    def name(self) -> str:
        return f"{self.workload} {self.word} {self.number}"


class Leg(NamedTuple):
    """A message that others waited for; times are of the lab's clock."""

    pair: Pair
    begin_ns: int  # when it was posted
    end_ns: int  # when it had arrived


@dataclass(frozen=True, slots=True)
class Explanation:
    """All time of an operation, by cause."""

    operation: Operation
    zero_ns: int  # end of warm-up by the lab's clock
    messages: tuple[tuple[str, int], ...]  # of a collective, the earliest first: from whom to whom, and ns
    segments: tuple[Segment, ...]  # the earliest first: together they last as long as the operation
    acting: tuple[str, ...]  # faults in force meanwhile: id, kind and place


def explain(plan: Plan, folder: Path, zero_ns: int, wanted: str | None) -> Explanation:
    """Explain an operation of a finished run in virtual time.

    Args:
        folder: of its results.
        zero_ns: end of its warm-up by the lab's clock.
        wanted: as typed, such as `ring 7`, `job step 41` or `main`; None: the slowest.
    """
    clos = resolve_topology(plan.topology)
    workload, number = _parse(plan, wanted)
    if workload.shared_work is not None:
        operation = _choose(_operations(folder, workload, zero_ns), workload.name, number)
        chain = _chain(plan, workload, clos, operation)
    else:
        operation = _choose(_messages(plan, workload, clos), workload.name, number)
        chain = []
    return _explained(plan, clos, operation, chain, zero_ns)


def _parse(plan: Plan, wanted: str | None) -> tuple[PlannedWorkload, int | None]:
    """Workload and number that are meant."""
    if wanted is None:
        chosen = max(plan.workloads, key=lambda each: (each.collective is not None, each.program is None))
        number = None
    else:
        match = re.fullmatch(r"(\S+)(?:\s+(?:operation|step|message))?(?:\s+(\d+))?", wanted.strip())
        name, digits = match.groups() if match else (wanted, None)
        named = {each.kind: each for each in plan.workloads} | {each.name: each for each in plan.workloads}
        if name not in named:
            raise UsageError(
                f"there is no workload {name!r}{did_you_mean(name, named)}",
                hint=f"name one, and a number: {plan.workloads[0].name} 7",
            )
        chosen, number = named[name], None if digits is None else int(digits)
    if chosen.program is not None or chosen.trace is not None:
        raise UsageError(f"{chosen.name} is a {chosen.kind}: messages of a {chosen.kind} are not explained")
    if chosen.shared_work is None and plan.transport.kind != "mrc":
        raise UsageError(
            f"{chosen.name}: of flows only those of mrc are explained, not {plan.transport.kind}"
        )
    return chosen, number


def _choose(found: Sequence[Operation], workload: str, number: int | None) -> Operation:
    """The operation of that number, or the slowest: one that was never completed before all others."""
    if not found:
        raise UsageError(f"{workload}: the run has no operation of it")
    if number is None:
        return max(found, key=lambda each: (not each.is_complete, each.length_ns))
    chosen = [each for each in found if each.number == number]
    if not chosen:
        raise UsageError(f"{workload} has {found[0].word}s 0 to {found[-1].number}, not {number}")
    return max(chosen, key=lambda each: each.length_ns)


def _operations(folder: Path, workload: PlannedWorkload, zero_ns: int) -> list[Operation]:
    is_training = workload.collective is not None and workload.collective.is_training
    rows = csv.DictReader(io.StringIO(read_result(folder / "operations.csv").decode()))
    return [
        Operation(
            workload=workload.name,
            word="step" if is_training else "operation",
            number=int(row["operation"]),
            begin_ns=zero_ns + int(row["step_begin_ns"]),
            posted_ns=zero_ns + int(row["begin_ns"]),
            end_ns=zero_ns + int(row["end_ns"]),
        )
        for row in rows
        if row["workload"] == workload.name
    ]


def _messages(plan: Plan, workload: PlannedWorkload, clos: Clos) -> list[Operation]:
    """Messages of a workload's flows, those that were never completed because their QP failed among them."""
    tracer = Tracer((TraceKind.BEGUN, TraceKind.COMPLETED))
    recording = repeat(plan, tracer.begin, tracer.take)
    of_qp: defaultdict[QpPlace, list[Records]] = defaultdict(list)
    for each in tracer.records:
        of_qp[int(each["host"]), int(each["qp"])].append(each)
    found: list[Operation] = []
    for outcome in recording.outcomes:
        source = clos.node(outcome.flow.source).index, qp_index(outcome.qpn)
        records = of_qp[source]
        if outcome.flow.workload != workload.name or not records:
            continue
        begun = [int(each["time_ns"]) for each in records if each["kind"] == TraceKind.BEGUN]
        ended = [int(each["time_ns"]) for each in records if each["kind"] == TraceKind.COMPLETED]
        done = len(ended)
        if outcome.error is not None:  # what it had begun, or would have sent next
            begun.append(ended[-1] if ended else outcome.start_ns)
            ended.append(max(outcome.end_ns, recording.workload_ends.get(workload.name, 0), begun[done]))
        target = clos.node(outcome.flow.target).index, qp_index(int(records[0]["entropy"]))
        found += [
            Operation(
                workload.name, "message", number, begin, end, begin, Pair(source, target), number < done
            )
            for number, (begin, end) in enumerate(zip(begun, ended, strict=False))
        ]
    return found


def _chain(plan: Plan, workload: PlannedWorkload, clos: Clos, operation: Operation) -> list[Leg]:
    """The messages that followed one another to the operation's end, the last first."""
    tracer = Tracer((TraceKind.POSTED, TraceKind.ARRIVED), operation.posted_ns, operation.end_ns)
    repeat(plan, tracer.begin, tracer.take, operation.end_ns + 1)
    hosts = np.array([[clos.node(each).index for each in (f.source, f.target)] for f in workload.flows])
    records = tracer.records[tracer.records["entropy"] == operation.number]
    for schedule in np.unique(records["start_ns"]):
        own = records[records["start_ns"] == schedule]
        is_whole = own["time_ns"][0] == operation.posted_ns and own["time_ns"][-1] == operation.end_ns
        if is_whole and own["place"].max() < len(hosts):
            ends = np.stack((own["source"], own["host"]), axis=1)
            if np.array_equal(hosts[own["place"]], ends):
                break
    else:
        raise UsageError(
            f"{operation.name} does not repeat", hint="explain it with the version that the run was made with"
        )
    posted, arrived = (own[own["kind"] == kind] for kind in (TraceKind.POSTED, TraceKind.ARRIVED))
    posted = posted[np.argsort(posted["psn"])]
    transfer, end_ns = int(arrived[-1]["psn"]), int(arrived[-1]["time_ns"])
    chain = []
    while transfer >= 0:
        each = posted[np.searchsorted(posted["psn"], transfer)]
        pair = Pair((int(each["source"]), int(each["qp"])), (int(each["host"]), int(each["extra"])))
        chain.append(Leg(pair, int(each["time_ns"]), end_ns))
        transfer, end_ns = int(each["what"]) - 1, int(each["time_ns"])
    return chain


def _explained(
    plan: Plan, clos: Clos, operation: Operation, chain: Sequence[Leg], zero_ns: int
) -> Explanation:
    begin_ns, end_ns = operation.begin_ns, operation.end_ns
    own = [] if operation.pair is None else [Leg(operation.pair, begin_ns, end_ns)]
    windows: defaultdict[QpPlace, list[tuple[int, int]]] = defaultdict(list)
    for leg in (*own, *chain):
        for place in (leg.pair.source, leg.pair.target):
            # and as long before, when what it waited for left
            windows[place].append((max(0, 2 * leg.begin_ns - leg.end_ns), leg.end_ns))
    tracer = Tracer(KINDS, max(0, 2 * begin_ns - end_ns), end_ns, windows=windows)
    faults = FaultTimes(clos, repeat(plan, tracer.begin, tracer.take, end_ns + 1))
    path = CriticalPath(tracer.records, clos, faults, end_ns, zero_ns)
    for leg in own:
        path.acknowledgement(leg.pair, leg.begin_ns)
    for leg in chain:
        path.arrival(leg.pair, leg.begin_ns)
    path.spend(operation.posted_ns, begin_ns, Cause("not explained"))
    path.spend(begin_ns, begin_ns, Cause("computing"))
    names = [" > ".join(clos.host(host).name for host, _ in leg.pair) for leg in chain]
    messages = tuple(zip(names, (leg.end_ns - leg.begin_ns for leg in chain), strict=True))[::-1]
    return Explanation(operation, zero_ns, messages, tuple(path.segments), faults.acting(begin_ns, end_ns))
