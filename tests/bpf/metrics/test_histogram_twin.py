"""The histogram of the data plane and its reading twin, on the same times."""

import ctypes
import random

from histograms import histogram_of
from map_filling import HistogramProgram

from mrc_agents.abi import MapHistogram
from mrc_agents.bpf.maps import WholeMap
from mrc_agents.nic.histogram import VALUE_BITS, bucket_index
from mrc_testbed.metrics.histogram import BUCKET_COUNT, VALUE_BYTES, Histogram, bucket_lower_ns


def interesting_times() -> list[int]:
    """Both sides of every bucket's edge, the ends of 64 bits, and random times of all magnitudes."""
    generator = random.Random(20)
    edges = [bucket_lower_ns(index) + step for index in range(1, BUCKET_COUNT + 1) for step in (-1, 0)]
    ends = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, *(1 << bit for bit in range(VALUE_BITS, 64))]
    return [*edges, *ends, *(generator.getrandbits(generator.randint(1, 64)) for _ in range(4000))]


def test_kernel_and_python_choose_the_same_bucket(histogram_program: HistogramProgram) -> None:
    for value_ns in interesting_times():
        assert histogram_program.add(value_ns) == bucket_index(value_ns), value_ns


def test_kernel_and_python_make_the_same_histogram(histogram_program: HistogramProgram) -> None:
    times_ns = [random.Random(7).getrandbits(40) for _ in range(50)] + list(range(0, 3_000_000, 9001))
    for value_ns in times_ns:
        histogram_program.add(value_ns)
    values = WholeMap(histogram_program.map_fd, MapHistogram).read()
    assert Histogram.from_map_values(values) == histogram_of(times_ns)


def test_the_map_value_has_the_layout_that_python_reads() -> None:
    assert ctypes.sizeof(MapHistogram) == VALUE_BYTES
    assert [name for name, *_ in MapHistogram._fields_] == ["sum_ns", "max_ns", "buckets"]
