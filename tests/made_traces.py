"""Traces that tests make: graphs of ranks, and their files."""

from collections.abc import Sequence
from pathlib import Path

from mrc_testbed.traces.chakra import encode
from mrc_testbed.traces.graph import Compute, GroupCall, Message, RankTrace, StepMark, TraceNode, Work

CPU = Compute("cpu")


def node(node_id: int, work: Work | None, *after: int, us: int = 0) -> TraceNode:
    """A node that takes so many microseconds."""
    name = "" if work is None else type(work).__name__
    if isinstance(work, StepMark):
        name = f"ProfilerStep#{work.step}"
    return TraceNode(node_id, name, work, after, duration_ns=us * 1000)


def call(kind: str = "all-reduce", size: int = 100, group: str = "", root: int | None = None) -> GroupCall:
    return GroupCall(kind, group, size, root)  # type: ignore[arg-type] # tests write the words


def send(peer: int, size: int = 100, tag: int = 0) -> Message:
    return Message(peer, tag, size, is_sent=True)


def receive(peer: int, size: int = 100, tag: int = 0) -> Message:
    return Message(peer, tag, size, is_sent=False)


def rank(*nodes: TraceNode, **groups: tuple[int, ...]) -> RankTrace:
    return RankTrace(nodes, groups)


def write(folder: Path, ranks: Sequence[RankTrace]) -> str:
    """Write the files of all ranks, and return what a scenario calls them."""
    for number, each in enumerate(ranks):
        (folder / f"rank.{number}.et").write_bytes(encode(each))
    return str(folder / "rank.{}.et")


def every_kind(number: int, ranks: int, steps: int) -> RankTrace:
    """A rank of a job whose steps have an operation of each kind, one beside computing."""
    nodes: list[TraceNode] = []
    ends: tuple[int, ...] = ()

    def add(work: Work, *after: int, us: int = 0) -> int:
        nodes.append(node(len(nodes), work, *after, us=us))
        return len(nodes) - 1

    for step in range(steps):
        begin = add(CPU, add(StepMark(step), *ends), us=1000)
        beside, last = add(call("all-reduce", 1 << 18), begin), add(CPU, begin, us=300)
        for kind, root in (
            *(("all-gather", None), ("reduce-scatter", None), ("all-to-all", None), ("barrier", None)),
            *(("broadcast", 2), ("scatter", 1), ("gather", 3), ("reduce", 0)),
        ):
            size = {"barrier": 0, "all-gather": 5001 + number, "all-to-all": 5001 * number}.get(kind, 5001)
            last = add(call(kind, size, root=root), last)
        sent, got = send((number + 1) % ranks, 3000, 7), receive((number - 1) % ranks, 3000, 7)
        ends = (beside, add(sent, last), add(got, last))
    return rank(*nodes)
