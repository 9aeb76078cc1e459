"""The sampler on real maps that change under it."""

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from map_filling import PinnedLab, filling
from waiting import DEADLINE_S

from mrc_testbed.errors import FabricError
from mrc_testbed.metrics.histogram import merge
from mrc_testbed.metrics.lab_watch import open_reader
from mrc_testbed.metrics.reader import LabReader
from mrc_testbed.metrics.sampler import Sampler
from mrc_testbed.metrics.series import Reading

INTERVAL_NS = 10_000_000


class Collected:
    """Readings as they come, and an event when there are enough."""

    def __init__(self, wanted: int) -> None:
        self.readings: list[Reading] = []
        self.enough = threading.Event()
        self._wanted = wanted

    def add(self, reading: Reading) -> None:
        self.readings.append(reading)
        if len(self.readings) >= self._wanted:
            self.enough.set()


@pytest.fixture
def reader(pinned_lab: PinnedLab) -> Iterator[LabReader]:
    reader = open_reader(pinned_lab.paths.lab)
    yield reader
    reader.close()


def test_intervals_add_up_to_the_whole(pinned_lab: PinnedLab, reader: LabReader, twin_object: Path) -> None:
    collected = Collected(wanted=5)
    sent = 0
    with filling(twin_object, pinned_lab.paths.node_pins("h0") / "rtt_histogram") as rtt:
        sampler = Sampler(reader, INTERVAL_NS, collected.add)
        sampler.start()
        while not collected.enough.is_set():
            rtt.add(10_000 + sent % 5000, key=sent % 2)
            sent += 1
        readings = sampler.stop()
    assert readings == collected.readings
    intervals = [later.since(earlier) for earlier, later in pairwise(readings)]
    assert sum(merge(interval.packet_rtt).count for interval in intervals) == sent
    whole = readings[-1].since(readings[0])
    assert merge(whole.packet_rtt).count == sent
    latency = whole.packet_rtt_overall()
    assert latency is not None
    assert 10_000 <= latency.p50_ns <= latency.p999_ns <= latency.max_ns <= 15_000


def test_readings_keep_to_a_schedule_that_does_not_drift(reader: LabReader) -> None:
    collected = Collected(wanted=10)
    sampler = Sampler(reader, INTERVAL_NS, collected.add)
    with sampler:
        assert collected.enough.wait(DEADLINE_S)
    start_ns = sampler.readings[0].time_ns
    due = [round((reading.time_ns - start_ns) // INTERVAL_NS) for reading in sampler.readings]
    # each is taken in a slot of its own; slots are missing only where readings were skipped
    assert due == sorted(set(due))
    assert due[-1] - (len(due) - 1) <= sampler.skipped
    assert sampler.cpu_ns > 0


def test_a_lab_that_cannot_be_read_any_more_ends_the_sampling(reader: LabReader) -> None:
    collected = Collected(wanted=2)
    sampler = Sampler(reader, INTERVAL_NS, collected.add)
    sampler.start()
    assert collected.enough.wait(DEADLINE_S)
    reader.close()
    sampler._thread.join(DEADLINE_S)
    with pytest.raises(FabricError, match="cannot read map"):
        sampler.stop()
    assert len(sampler.readings) >= 2
