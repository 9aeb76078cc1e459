"""Reductions of libmrc_coll between ranks of one process: slices come in any order, bits are gloo's."""

import random
from collections import defaultdict, deque
from itertools import permutations, product

import numpy as np
import pytest

from mrc_agents.collectives.rank_collectives import RankCollectives, load_library
from tests.gloo_order import in_ring_order

KINDS = (np.float32, np.float64, np.float16)
"""By their numbers in enum mrc_coll_type."""
SUM = 0
LENGTHS = (0, 1, 2, 3, 5, 8, 53, 54, 1001, 4096, 16_377, 40_001)


class Ranks:
    """Ranks that start the same reductions, each in its order, and what is on its way between them."""

    def __init__(self, size, lengths, seed):
        self.random = random.Random(seed)
        draw = np.random.default_rng(seed)
        library = load_library()
        self.ranks = [RankCollectives(library, rank) for rank in range(size)]
        self.under_way = defaultdict(deque)
        self.memory = {}
        for here, there in permutations(range(size), 2):
            self.memory[here, there] = np.empty(self.ranks[here].memory_bytes, np.uint8)
            self.ranks[here].add_peer(there, self.memory[here, there].ctypes.data)
        self.calls = list(product(("all_reduce", "reduce_scatter"), range(len(KINDS)), lengths))
        self.given = [
            draw.standard_normal((size, length * (size if operation == "reduce_scatter" else 1))).astype(
                KINDS[kind]
            )
            for operation, kind, length in self.calls
        ]
        self.data = [each.copy() for each in self.given]

    def start(self, *ranks):
        for rank in ranks:
            group = self.ranks[rank].group(range(len(self.ranks)), 1)
            for number in self.random.sample(range(len(self.calls)), len(self.calls)):
                operation, kind, length = self.calls[number]
                address = self.data[number][rank].ctypes.data
                self.ranks[rank].start(operation, group, number, number, address, length, kind, SUM)

    def move(self, most=None):
        """Let slices arrive, so many or until none is left; the number of those that did."""
        arrived = 0
        while arrived != most:
            for here, rank in enumerate(self.ranks):
                rank.advance()
                for write in rank.take_writes():
                    data = self.memory[here, write.peer][write.local : write.local + write.bytes].copy()
                    self.under_way[here, write.peer].append((write.remote, data, write.immediate))
            if not any(self.under_way.values()):
                break
            here, there = self.random.choice([way for way, writes in self.under_way.items() if writes])
            remote, data, immediate = self.under_way[here, there].popleft()
            self.memory[there, here][remote : remote + len(data)] = data
            self.ranks[there].arrive(here, immediate)
            arrived += 1
        return arrived

    def end(self):
        """Compare what has ended well with gloo's sums; returns how many operations failed."""
        ended = [(rank, *end) for rank, each in enumerate(self.ranks) for end in each.take_ended()]
        assert len({end[:2] for end in ended}) == len(self.ranks) * len(self.calls)
        for rank, number, error in ended:
            operation, _, length = self.calls[number]
            own = slice(rank * length, (rank + 1) * length) if operation == "reduce_scatter" else slice(None)
            if length and not error:
                wanted = in_ring_order(list(self.given[number]), np.add)[own]
                assert np.array_equal(self.data[number][rank][own], wanted), (rank, self.calls[number])
        for each in self.ranks:
            each.close()
        return sum(error is not None for *_, error in ended)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8])
def test_sums_are_made_in_the_order_of_gloo(size):
    ranks = Ranks(size, LENGTHS if size > 4 else (*LENGTHS, 700_001), size)
    ranks.start(*range(1, size))
    ranks.move()
    assert all(rank.awaited(size) for rank in ranks.ranks[1:]), "for rank 0, or one that waits for it"
    ranks.start(0)
    ranks.move()
    assert not any(rank.awaited(size) for rank in ranks.ranks)
    assert ranks.end() == 0


def test_an_operation_that_is_cut_short_does_not_succeed():
    failed, whole = [], None
    for cut in range(30):
        ranks = Ranks(4, (1, 53, 40_001), cut)
        ranks.start(*range(4))
        arrived = ranks.move(whole and whole * (cut - 1) // 30)
        whole = whole or arrived
        for rank in ranks.ranks:
            rank.fail("cut")
            rank.advance()
        failed.append(ranks.end())
    assert failed[:2] == [0, 4 * 18]
    assert len(set(failed)) > 10
