"""The graph of a rank from the rows that it reported. Pure.

The program of a rank is one chain of nodes: it computes until it starts an operation, begins to wait or ends
a step. An operation follows the chain, and the chain follows those that it waits for. What follows an
operation in a callback, and what another thread does, are chains of their own.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeAlias

from mrc_testbed.traces.graph import Compute, GroupCall, Message, RankTrace, StepMark, TraceNode, Work
from mrc_testbed.traces.rows import COLLECTIVES, Row

Thread: TypeAlias = int | None
"""The operation that it follows; None: the program; below 0: another."""


@dataclass(slots=True)
class _Chain:
    now_ns: int  # end of its latest event
    after: tuple[int, ...]  # what its next node follows
    nodes: list[TraceNode] = field(default_factory=list)


def begin_ns(ranks: Sequence[Sequence[Row]]) -> int:
    """Time 0 of a trace, which is the least time that a rank reports; 0 if none does."""
    return min((rows[0][1] for rows in ranks if rows), default=0)


def recorded_ranks(ranks: Sequence[Sequence[Row]]) -> list[RankTrace]:
    """The graphs of all ranks; times are from that of the first that began."""
    members: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for rows in ranks:
        for row in rows:
            if row[0] == "group":
                members[row[1]].add(row[2])
    reused = {name for name, found in members.items() if len(found) > 1}
    zero_ns = begin_ns(ranks)
    return [_Recorder(rows, zero_ns, reused).trace() for rows in ranks]


class _Recorder:
    """Makes the nodes of one rank.

    Args:
        zero_ns: time 0 of the trace.
        reused: names that several groups have had.
    """

    def __init__(self, rows: Sequence[Row], zero_ns: int, reused: AbstractSet[str]) -> None:
        self._rows = rows
        self._zero_ns = zero_ns
        self._reused = reused
        self._groups: dict[str, tuple[int, ...]] = {}
        self._names: dict[str, str] = {}
        self._count = 0
        self._after: dict[int, tuple[int, ...]] = {}  # by node
        self._nodes: dict[int, int] = {}  # by operation
        self._operations: dict[int, int] = {}  # by node
        self._ends_ns = {row[1]: row[2] for row in rows if row[0] == "end"}
        self._by_end = sorted((at_ns, operation) for operation, at_ns in self._ends_ns.items())
        self._chains: dict[Thread, _Chain] = {None: _Chain(zero_ns, ())}

    def trace(self) -> RankTrace:
        if not self._rows:
            return RankTrace(())
        program = self._chains[None]
        steps = iter([row[1] for row in self._rows if row[0] == "step"])
        program.after = (self._add(program, "", StepMark(next(steps, 0)), 0),)
        for row in self._rows:
            match row:
                case "group", name, ranks:
                    self._names[name] = f"{name} {[*ranks]}" if name in self._reused else name
                    self._groups[self._names[name]] = ranks
                case "start", *_:
                    self._start(row)
                case "wait", thread, operations, began_ns, ended_ns:
                    chain = self._chain(thread)
                    self._compute(chain, began_ns)
                    self._wait(chain, {*self._awaited(operations, began_ns, ended_ns)})
                    chain.now_ns = max(chain.now_ns, ended_ns)
                case "step", _, ended_ns:
                    self._compute(program, ended_ns)
                    if (step := next(steps, None)) is not None:
                        program.after = (self._add(program, "", StepMark(step), 0),)
        return RankTrace(tuple(self._ordered()), self._groups)

    def _start(self, row: Row) -> None:
        _, thread, operation, at_ns, kind, group, size_bytes, peer, tag = row
        chain = self._chain(thread)
        self._compute(chain, at_ns)
        if kind in COLLECTIVES:
            work: Work = GroupCall(COLLECTIVES[kind], self._names[group], size_bytes, peer)
        else:
            work = Message(peer, tag, size_bytes, is_sent=kind == "send")
        node = self._add(chain, kind, work, max(0, self._ends_ns.get(operation, at_ns) - at_ns))
        self._nodes[operation], self._operations[node] = node, operation

    def _compute(self, chain: _Chain, until_ns: int) -> None:
        if until_ns > chain.now_ns:
            chain.after = (self._add(chain, "compute", Compute("cpu"), until_ns - chain.now_ns),)
            chain.now_ns = until_ns

    def _wait(self, chain: _Chain, awaited: set[int]) -> None:
        """Let a chain follow nodes, and no longer those that these follow themselves."""
        behind = {each for node in awaited for each in self._after[node]}
        chain.after = tuple(sorted(awaited.union(chain.after) - behind))

    def _add(self, chain: _Chain, name: str, work: Work, duration_ns: int) -> int:
        """Add a node behind those of a chain, and return its id."""
        self._count += 1
        start_ns = chain.now_ns - self._zero_ns
        node = TraceNode(self._count, name, work, chain.after, start_ns=start_ns, duration_ns=duration_ns)
        chain.nodes.append(node)
        self._after[node.id] = node.after
        return node.id

    def _chain(self, thread: Thread) -> _Chain:
        """The chain of a thread; one that begins follows an operation, or goes on from the program's."""
        if thread not in self._chains:
            program = self._chains[None]
            self._chains[thread] = _Chain(program.now_ns, program.after)
            if thread in self._nodes:
                ended_ns = self._ends_ns.get(thread, program.now_ns)
                self._chains[thread] = _Chain(ended_ns, (self._nodes[thread],))
        return self._chains[thread]

    def _awaited(self, operations: Sequence[int], began_ns: int, ended_ns: int) -> Iterator[int]:
        """Nodes that a wait is for: operations, and the last of what has followed them in callbacks."""
        span = (bisect_left(self._by_end, (each + 1, 0)) for each in (began_ns, ended_ns))
        for operation in operations or [operation for _, operation in self._by_end[slice(*span)]]:
            if operation in self._nodes:
                yield self._nodes[operation]
                if operation in self._chains:
                    yield from self._chains[operation].after

    def _ordered(self) -> Iterator[TraceNode]:
        """All nodes; what follows an operation is behind it, which is one order for all ranks."""
        roots = [chain for thread, chain in self._chains.items() if thread is None or thread < 0]
        left = [node for chain in reversed(roots) for node in reversed(chain.nodes)]
        while left:
            node = left.pop()
            yield node
            operation = self._operations.get(node.id)
            if operation is not None and operation in self._chains:
                left += reversed(self._chains[operation].nodes)
