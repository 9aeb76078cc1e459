"""GOAL, the text form: the schedules of all ranks in one file, for LogGOPSim, HTSIM and ATLAHS. Pure.

Times of `calc` are ns. `requires` waits for the end of an operation, `irequires` for its start; `cpu K` names
the stream of a calc, and `nic K` is passed over. Source: the grammar of LogGOPSim's schedules.
"""

import re
from dataclasses import replace
from typing import Final

from mrc_testbed.errors import UsageError
from mrc_testbed.traces.graph import Compute, Message, RankTrace, TraceNode

_RANKS: Final = re.compile(r"\s*num_ranks\s+(\d{1,6})\s")
_RANK: Final = re.compile(r"rank\s+(\d{1,6})\s*\{([^}]*)\}")
_OPERATION: Final = re.compile(
    r"(?:(\w+) ?: ?)?(?:calc (\d{1,18})|(send|recv) (\d{1,18})b (?:to|from) (\d{1,6}))"
    r"(?: tag (\d{1,10}))?(?: cpu (\d+))?(?: nic \d+)?"
)
_ORDER: Final = re.compile(r"(\w+) (i?)requires (\w+)")
_COMMENT: Final = re.compile(r"//.*|#.*|;")


def parse(text: str, source: str) -> tuple[RankTrace, ...]:
    """Parse the graphs of all ranks, in their order.

    Args:
        source: names the file in messages.

    Raises:
        UsageError: names the file and the line at fault.
    """
    plain = _COMMENT.sub("", text)
    head = _RANKS.match(plain)
    if head is None:
        raise UsageError(f"{source}:1: expected num_ranks and a number, as GOAL's text form begins")
    found = {int(each[1]): each for each in _RANK.finditer(plain)}
    rest = _RANK.sub("", plain[head.end() :]).split()
    for rank in range(int(head[1])):
        if rank not in found:
            raise UsageError(f"{source}: rank {rank} of {head[1]} is not there, or its end is missing")
    if rest or len(found) > int(head[1]):
        raise UsageError(f"{source}: expected {head[1]} ranks, each as `rank N {{ ... }}`; got more")
    return tuple(
        _rank(found[rank][2], source, plain.count("\n", 0, found[rank].start(2)) + 1)
        for rank in range(int(head[1]))
    )


def _rank(body: str, source: str, first_line: int) -> RankTrace:
    nodes: dict[str, TraceNode] = {}
    for number, written in enumerate(body.split("\n"), start=first_line):
        line = " ".join(written.split())
        if order := _ORDER.fullmatch(line):
            for label in (order[1], order[3]):
                if label not in nodes:
                    raise UsageError(f"{source}:{number}: there is no operation {label!r} above")
            node, first = nodes[order[1]], nodes[order[3]].id
            nodes[node.name] = (
                replace(node, after_start=(*node.after_start, first))
                if order[2]
                else replace(node, after=(*node.after, first))
            )
        elif operation := _OPERATION.fullmatch(line):
            node = _node(len(nodes), number, operation)
            if node.name in nodes:
                raise UsageError(f"{source}:{number}: there are two operations {node.name!r}")
            nodes[node.name] = node
        elif line:
            raise UsageError(
                f"{source}:{number}: expected calc, send, recv, requires or irequires, got {line[:80]!r}"
            )
    return RankTrace(tuple(nodes.values()))


def _node(node_id: int, line: int, found: re.Match[str]) -> TraceNode:
    label, calc, verb, size, peer, tag, cpu = found.groups()
    name = label or f"line {line}"
    if calc is not None:
        return TraceNode(node_id, name, Compute(cpu or ""), duration_ns=int(calc))
    return TraceNode(node_id, name, Message(int(peer), int(tag or 0), int(size), is_sent=verb == "send"))
