"""When a flapping link is down."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from testbed.faults.flap import Flap

MS = 1_000_000


def test_without_jitter_outages_come_every_period():
    flap = Flap(every_ns=1000 * MS, down_ns=200 * MS, jitter_ratio=0.0, seed=1)
    assert list(flap.outages(2500 * MS)) == [
        (0, 200 * MS),
        (1000 * MS, 1200 * MS),
        (2000 * MS, 2200 * MS),
    ]


def test_the_last_outage_ends_with_the_fault():
    flap = Flap(every_ns=1000 * MS, down_ns=200 * MS, jitter_ratio=0.0, seed=1)
    assert list(flap.outages(1100 * MS))[-1] == (1000 * MS, 1100 * MS)


def test_without_an_end_outages_never_stop():
    flap = Flap(every_ns=10, down_ns=1, jitter_ratio=0.0, seed=1)
    assert list(itertools.islice(flap.outages(None), 10_000))[-1] == (99_990, 99_991)


@given(st.integers(0, 2**64 - 1), st.floats(0, 0.5))
def test_jitter_delays_each_start_by_its_share_at_most_and_keeps_the_length(seed, jitter):
    flap = Flap(every_ns=1000, down_ns=400, jitter_ratio=jitter, seed=seed)
    outages = list(itertools.islice(flap.outages(None), 20))
    for index, (start, end) in enumerate(outages):
        assert index * 1000 <= start <= index * 1000 + jitter * 1000
        assert end - start == 400
    for (_, end), (start, _) in itertools.pairwise(outages):
        assert end <= start


def test_a_seed_repeats_its_times_and_another_does_not():
    def starts(seed):
        return list(itertools.islice(Flap(1_000_000, 1, 0.5, seed).outages(None), 10))

    assert starts(7) == starts(7)
    assert starts(7) != starts(8)
