"""Rounds of pairs: nobody takes part twice, and all pairs there is room for come once."""

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.check.measuring import ROUNDS_MIN, disjoint_rounds, ordered_rounds, rounds


def assert_disjoint(found):
    for pairs in found:
        hosts = [host for pair in pairs for host in pair]
        assert len(hosts) == len(set(hosts))


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8, 16])
def test_each_host_meets_each_other_once(count):
    found = rounds(count)
    assert_disjoint(found)
    pairs = sorted(tuple(sorted(pair)) for each in found for pair in each)
    assert pairs == sorted(combinations(range(count), 2))


@pytest.mark.parametrize("count", [2, 3, 8])
def test_with_room_every_ordered_pair_is_measured(count):
    found = ordered_rounds(count, count * count)
    assert_disjoint(found)
    assert sorted(pair for pairs in found for pair in pairs) == sorted(permutations(range(count), 2))


@given(st.integers(2, 100), st.integers(2, 1000))
def test_without_room_each_host_still_meets_several(count, pairs_max):
    found = ordered_rounds(count, pairs_max)
    pairs = [pair for each in found for pair in each]
    assert len(set(pairs)) == len(pairs)
    least = 2 * ROUNDS_MIN * (count // 2)
    assert len(pairs) <= max(pairs_max, least)
    if count > 3:
        assert {a for a, _ in pairs} == {b for _, b in pairs} == set(range(count))


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1])))
def test_any_pairs_come_in_disjoint_rounds(pairs):
    found = disjoint_rounds(sorted(pairs))
    assert_disjoint(found)
    assert sorted(pair for each in found for pair in each) == sorted(pairs)
