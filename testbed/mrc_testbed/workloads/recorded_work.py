"""Execution traces of collectives and flows that a run has carried: a rank is a host. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from mrc_testbed.traces.graph import Compute, GroupCall, Message, RankTrace, StepMark, TraceNode, Work
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.sender import BatchRecord


def collective_traces(collective: Collective, records: Sequence[OperationRecord]) -> list[RankTrace]:
    """The graph of each rank: it computes until an operation begins, and waits for that."""
    nodes = [
        TraceNode(number, name, work, (number - 1,) if number > 1 else (), (), start_ns, duration_ns)
        for number, (name, work, start_ns, duration_ns) in enumerate(_chain(collective, records), 1)
    ]
    groups = {"0": tuple(range(len(collective.ranks)))}
    return [RankTrace(tuple(nodes), groups)] * len(collective.ranks)


def _chain(
    collective: Collective, records: Sequence[OperationRecord]
) -> Iterator[tuple[str, Work, int, int]]:
    """Name, work, start and duration of each node."""
    is_gathered, is_rooted = collective.kind == "all-gather", collective.kind == "broadcast"
    size_bytes = collective.size_bytes // (len(collective.ranks) if is_gathered else 1)
    call = GroupCall(collective.kind, "0", size_bytes, collective.root if is_rooted else None)
    zero_ns = now_ns = records[0].step_begin_ns
    for step, record in enumerate(records):
        start_ns = now_ns - zero_ns
        yield "", StepMark(step), start_ns, 0
        if record.begin_ns > now_ns:
            yield "compute", Compute("cpu"), start_ns, record.begin_ns - now_ns
        yield collective.kind, call, record.begin_ns - zero_ns, record.duration_ns
        now_ns = record.end_ns


def flow_traces(batches: Mapping[Flow, Sequence[BatchRecord]], size_bytes: int) -> list[RankTrace]:
    """The graph of each host, in the order of the flows: batches of messages, in a row for each QP."""
    hosts = dict.fromkeys(host for flow in batches for host in (flow.source, flow.target))
    ranks = {host: rank for rank, host in enumerate(hosts)}
    zero_ns = min(records[0].begin_ns for records in batches.values() if records)
    nodes: list[list[TraceNode]] = [[] for _ in hosts]
    for flow, records in batches.items():
        ends = ranks[flow.source], ranks[flow.target]
        for (own, peer), name in zip((ends, ends[::-1]), ("send", "recv"), strict=True):
            after: tuple[int, ...] = ()
            for each in records:
                work = Message(peer, flow.qp_index, each.messages * size_bytes, is_sent=name == "send")
                times = each.begin_ns - zero_ns, each.end_ns - each.begin_ns
                nodes[own].append(TraceNode(len(nodes[own]) + 1, name, work, after, (), *times))
                after = (nodes[own][-1].id,)
    return [RankTrace(tuple(each)) for each in nodes]
