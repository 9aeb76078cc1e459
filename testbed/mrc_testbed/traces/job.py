"""The ranks of a trace together: which nodes are one operation, and whether all of them can end. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, zip_longest
from typing import Final, TypeVar

from mrc_testbed.errors import UsageError
from mrc_testbed.traces.graph import NODES_MAX, GroupCall, Message, RankTrace, StepMark
from mrc_testbed.traces.walk import RankGraph, Walk

PEERS_MAX: Final = 64
"""Other ranks that one communicates with: PEERS_MAX of mrc_agents/collectives."""

_UNEVEN: Final = ("all-to-all", "all-gather")
"""Collectives whose ranks may give different sizes."""

Part = tuple[int, int]
"""Rank, and place of its node."""

WorkT = TypeVar("WorkT", GroupCall, Message)


@dataclass(frozen=True, slots=True)
class JointOperation:
    """A collective or a message, with a node of each of its ranks."""

    group: int  # names the ranks and, of messages, the tag; from 0
    number: int  # in the group, from 0
    parts: tuple[Part, ...]  # in the order of the group; of a message, the sender's first
    works: tuple[GroupCall | Message, ...]  # of the parts
    is_message: bool

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rank for rank, _ in self.parts)


class TraceJob:
    """The ranks of a trace.

    Args:
        ranks: graph of each rank; several may be the same.
        sources: names the file and rank of each in messages.

    Attributes:
        operations: by each of their parts.

    Raises:
        UsageError: the ranks do not fit together, or can never end; it names both ends.
    """

    def __init__(self, ranks: Sequence[RankTrace], sources: Sequence[str]) -> None:
        if sum(len(each.nodes) for each in ranks) > NODES_MAX:
            raise UsageError(f"{sources[0]}: the ranks together have more than {NODES_MAX} nodes")
        known = {id(trace): (trace, source) for trace, source in zip(ranks, sources, strict=True)}
        made = {key: RankGraph(*each) for key, each in known.items()}
        self.graphs = [made[id(trace)] for trace in ranks]
        self.operations: dict[Part, JointOperation] = {}
        self._sources = sources
        self._groups = 0
        self._join_calls()
        self._join_messages()
        self._require_end()

    def pairs(self) -> list[tuple[int, int]]:
        """Source and target of each connection, in order."""
        groups = {operation.ranks for operation in self.operations.values()}
        return sorted({pair for ranks in groups for pair in permutations(ranks, 2)})

    def marked_steps(self) -> int:
        """Return the number of steps that every rank marks."""
        return min(sum(isinstance(node.work, StepMark) for node in each.trace.nodes) for each in self.graphs)

    def describe(self, part: Part) -> str:
        """File and rank of a node, its id and its name."""
        rank, place = part
        node = self.graphs[rank].trace.nodes[place]
        return f"{self._sources[rank]}: node {node.id}" + (f" ({node.name[:40]!r})" if node.name else "")

    # ---- operations

    def _works(self, kind: type[WorkT]) -> Iterator[tuple[Part, WorkT]]:
        for rank, graph in enumerate(self.graphs):
            for place, node in enumerate(graph.trace.nodes):
                if isinstance(node.work, kind):
                    yield (rank, place), node.work

    def _join_calls(self) -> None:
        everybody = tuple(range(len(self.graphs)))
        callers: dict[str, dict[int, None]] = defaultdict(dict)  # of each name, the ranks that call it
        for (rank, _), work in self._works(GroupCall):
            callers[work.group][rank] = None
        calls: dict[tuple[str, tuple[int, ...]], dict[int, list[tuple[Part, GroupCall]]]] = {}
        for part, work in self._works(GroupCall):
            declared = self.graphs[part[0]].trace.groups.get(work.group)
            ranks = declared or (tuple(callers[work.group]) if work.group else everybody)
            if part[0] not in ranks or not set(ranks) <= set(everybody) or len(set(ranks)) < len(ranks):
                raise UsageError(
                    f"{self.describe(part)}: group {work.group!r} has ranks {', '.join(map(str, ranks))}; "
                    f"this is rank {part[0]} of {len(everybody)}"
                )
            calls.setdefault((work.group, ranks), {rank: [] for rank in ranks})[part[0]].append((part, work))
        for (group, _), of_ranks in calls.items():
            for number, row in enumerate(zip_longest(*of_ranks.values())):
                self._require_agreement(
                    f"operation {number} of {f'group {group!r}' if group else 'all ranks'}",
                    of_ranks.keys(),
                    row,
                )
                self._add(number, row)
            self._groups += 1

    def _require_agreement(
        self, what: str, ranks: Iterable[int], row: Sequence[tuple[Part, GroupCall] | None]
    ) -> None:
        first, work = next(each for each in row if each is not None)
        for rank, each in zip(ranks, row, strict=True):
            if each is None:
                raise UsageError(f"{self.describe(first)}: it is {what}, which {self._sources[rank]} has not")
            part, other = each
            agrees = (work.kind, work.root) == (other.kind, other.root)
            if not agrees or (work.size_bytes != other.size_bytes and work.kind not in _UNEVEN):
                raise UsageError(
                    f"{self.describe(first)} and {self.describe(part)} disagree: {what} is "
                    f"{_called(work)} and {_called(other)}"
                )
        if work.root is not None and work.root not in ranks:
            raise UsageError(f"{self.describe(first)}: root_rank {work.root} is not in its group")

    def _join_messages(self) -> None:
        ends: dict[tuple[int, int, int], tuple[list[tuple[Part, Message]], ...]] = {}
        for part, work in self._works(Message):
            rank, peer = part[0], work.peer
            if peer == rank or not 0 <= peer < len(self.graphs):
                raise UsageError(
                    f"{self.describe(part)}: its peer is rank {peer}; "
                    f"this is rank {rank} of {len(self.graphs)}"
                )
            key = (rank, peer, work.tag) if work.is_sent else (peer, rank, work.tag)
            ends.setdefault(key, ([], []))[0 if work.is_sent else 1].append((part, work))
        for (source, target, tag), (sends, receives) in ends.items():
            for number, (sent, received) in enumerate(zip_longest(sends, receives)):
                if sent is None or received is None:
                    rank, lacks = (source, "send") if sent is None else (target, "receive")
                    lonely, _ = sent or received
                    raise UsageError(
                        f"{self.describe(lonely)}: {self._sources[rank]} has no {lacks} for it, tag {tag}"
                    )
                sizes_bytes = [work.size_bytes for _, work in (sent, received)]
                if sizes_bytes[0] != sizes_bytes[1]:
                    raise UsageError(
                        f"{self.describe(sent[0])} sends {sizes_bytes[0]} bytes, of which "
                        f"{self.describe(received[0])} receives {sizes_bytes[1]}"
                    )
                self._add(number, (sent, received), is_message=True)
            self._groups += 1

    def _add(
        self, number: int, row: Sequence[tuple[Part, GroupCall | Message]], *, is_message: bool = False
    ) -> None:
        parts, works = zip(*row, strict=True)
        operation = JointOperation(self._groups, number, parts, works, is_message)
        self.operations |= dict.fromkeys(parts, operation)

    # ---- their end

    def _require_end(self) -> None:
        """Walk through all graphs at once, without time."""
        walks = [Walk(graph) for graph in self.graphs]
        started: set[Part] = set()
        ended: set[Part] = set()
        arrived: dict[tuple[int, int], int] = defaultdict(int)
        moving = list(range(len(walks)))
        while moving:
            rank = moving.pop()
            while (place := walks[rank].take_ready()) is not None:
                part = rank, place
                started.add(part)
                operation = self.operations.get(part)
                parts: tuple[Part, ...] = (part,)
                if operation is not None:
                    key = operation.group, operation.number
                    arrived[key] += 1
                    parts = operation.parts if arrived[key] == len(operation.parts) else ()
                    if operation.is_message:  # whose send ends by itself
                        parts = ((part,) if part == operation.parts[0] else ()) + parts[1:]
                for each in parts:
                    ended.add(each)
                    walks[each[0]].end(each[1])
                    moving.append(each[0])
        stuck = next((rank for rank, walk in enumerate(walks) if not walk.is_over), None)
        if stuck is None:
            return
        nodes = range(len(self.graphs[stuck].trace.nodes))
        seen: dict[Part, None] = {}
        part = next((stuck, place) for place in nodes if (stuck, place) not in ended)
        while part not in seen:
            seen[part] = None
            part = self._awaited(part, started, ended)
        loop = list(seen)[list(seen).index(part) :]
        other = next((each for each in loop if each[0] != part[0]), loop[len(loop) // 2])
        raise UsageError(
            f"{self.describe(part)} and {self.describe(other)} wait for each other"
            if other != part
            else f"{self.describe(part)} waits for itself"
        )

    def _awaited(self, part: Part, started: set[Part], ended: set[Part]) -> Part:
        """A node that a node which cannot end waits for."""
        if part in started:
            return next(each for each in self.operations[part].parts if each not in started)
        rank, place = part
        graph = self.graphs[rank]
        node = graph.trace.nodes[place]
        places = graph.place_of
        waited = [(places[each], ended) for each in node.after if each in places]
        waited += [(places[each], started) for each in node.after_start if each in places]
        return next((rank, each) for each, done in waited if (rank, each) not in done)


def _called(work: GroupCall) -> str:
    root = "" if work.root is None else f" from rank {work.root}"
    return f"{work.kind} of {work.size_bytes} bytes{root}"
