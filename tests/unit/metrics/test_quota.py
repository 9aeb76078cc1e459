"""Places for many sources, of which none gets them all."""

from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.metrics.local_server import SourceQuota


def test_one_source_leaves_room_for_others() -> None:
    quota = SourceQuota(total=5, per_source=3)
    assert [quota.take(holder, "a") for holder in range(4)] == [True, True, True, False]
    assert [quota.take(holder, "b") for holder in range(10, 13)] == [True, True, False]
    quota.give_back(0)
    assert quota.take(20, "b")
    assert not quota.take(21, "a")  # all places are taken
    assert quota.source(20) == "b"
    assert len(quota) == 5


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.booleans()), max_size=60))
def test_the_limits_hold_whatever_comes_and_goes(steps: list[tuple[int, str, bool]]) -> None:
    quota = SourceQuota(total=4, per_source=2)
    held: dict[int, str] = {}
    for holder, source, comes in steps:
        if not comes:
            quota.give_back(holder)
            held.pop(holder, None)
        elif holder not in held:
            fits = len(held) < 4 and list(held.values()).count(source) < 2
            assert quota.take(holder, source) is fits
            if fits:
                held[holder] = source
        assert len(quota) == len(held)
