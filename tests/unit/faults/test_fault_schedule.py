"""When a fault acts, and when a flapping link is down."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.faults.schedule import Flap, Schedule

MS = 1_000_000


def test_without_jitter_outages_come_every_period():
    flap = Flap(every_ns=1000 * MS, down_ns=200 * MS, jitter_ratio=0.0, seed=1)
    assert list(flap.outages(2500 * MS)) == [(0, 200 * MS), (1000 * MS, 1200 * MS), (2000 * MS, 2200 * MS)]


def test_the_last_outage_ends_with_the_fault():
    flap = Flap(every_ns=1000 * MS, down_ns=200 * MS, jitter_ratio=0.0, seed=1)
    assert list(flap.outages(1100 * MS))[-1] == (1000 * MS, 1100 * MS)


def test_without_an_end_outages_never_stop():
    flap = Flap(every_ns=10, down_ns=1, jitter_ratio=0.0, seed=1)
    assert list(itertools.islice(flap.outages(None), 10_000))[-1] == (99_990, 99_991)


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.5))
def test_jitter_delays_each_start_by_its_share_at_most_and_keeps_the_length(seed, jitter):
    flap = Flap(every_ns=1000, down_ns=400, jitter_ratio=jitter, seed=seed)
    outages = list(itertools.islice(flap.outages(None), 20))
    for index, (start, end) in enumerate(outages):
        assert index * 1000 <= start <= index * 1000 + round(jitter * 1000)
        assert end - start == 400
    for (_, end), (start, _) in itertools.pairwise(outages):
        assert end <= start


def test_a_seed_repeats_its_times_and_another_does_not():
    def starts(seed):
        return list(itertools.islice(Flap(1_000_000, 1, 0.5, seed).outages(None), 10))

    assert starts(7) == starts(7)
    assert starts(7) != starts(8)


@given(st.integers(0, 2**32 - 1), st.integers(0, 50_000))
def test_a_flap_is_down_in_its_outages_and_at_no_other_time(seed, age):
    flap = Flap(every_ns=10_000, down_ns=4_000, jitter_ratio=0.5, seed=seed)
    outages = itertools.takewhile(lambda outage: outage[0] <= age, flap.outages(None))
    assert flap.is_down(age) == any(start <= age < end for start, end in outages)


def test_a_schedule_acts_until_its_end_and_a_flap_in_its_outages_until_then():
    flap = Flap(every_ns=100, down_ns=40, jitter_ratio=0.0, seed=1)
    always, flapping = Schedule(1000, 1150), Schedule(1000, 1120, flap)
    assert [always.is_acting(now) for now in (1000, 1149, 1150)] == [True, True, False]
    assert [flapping.is_acting(now) for now in (1000, 1040, 1100, 1119, 1120)] == [
        True,
        False,
        True,
        True,
        False,
    ]
    assert Schedule(1000).is_acting(10**18)
    assert (Schedule(1000).left_ns(5), always.left_ns(1100), always.left_ns(2000)) == (None, 50, 0)
