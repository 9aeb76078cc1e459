"""The explanation of failures: small, complete, and against no success."""

from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.check.judgement import Suspect, explain

PARTS = st.frozensets(st.sampled_from("abcdefg"), min_size=1)


def test_what_all_failures_share_is_suspected():
    assert explain([("a", "b"), ("b", "c")], [("a", "c")]) == [Suspect(("b",), (0, 1))]


def test_what_is_indistinguishable_is_suspected_together():
    assert explain([("a", "b"), ("a", "b")], []) == [Suspect(("a", "b"), (0, 1))]


def test_the_part_that_explains_most_comes_first():
    found = explain([("a", "b"), ("b",), ("b",), ("c",)], [])
    assert found == [Suspect(("b",), (0, 1, 2)), Suspect(("c",), (3,))]


def test_a_failure_all_of_whose_parts_work_elsewhere_is_not_explained():
    assert explain([("a", "b")], [("a",), ("b",)]) == []


@given(st.lists(PARTS, max_size=8), st.lists(PARTS, max_size=4))
def test_each_failure_that_can_be_explained_is_explained_once(failures, successes):
    innocent = frozenset().union(*successes)
    suspects = explain(failures, successes)
    explained = [place for suspect in suspects for place in suspect.failures]
    assert sorted(explained) == [place for place, parts in enumerate(failures) if parts - innocent]
    for suspect in suspects:
        assert not innocent & set(suspect.names)
        assert all(set(suspect.names) <= failures[place] for place in suspect.failures)
