"""A node writes anything into the maps of its own NIC: the views of the lab show the others as ever."""

import contextlib
import ctypes
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from map_filling import PinnedLab, filling, opened, write_per_cpu
from prometheus_client.parser import text_string_to_metric_families
from scribbling import scribble

from mrc_agents.abi import NicCounter, NicCounters
from mrc_agents.bpf.libbpf import library
from mrc_agents.bpf.maps import map_info
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.live.feed import Feed, Update
from mrc_testbed.live.page_data import update_document
from mrc_testbed.metrics.exporter import Exporter

ROUNDS = 12
ELEMENTS = 8


@contextmanager
def watching(lab: PinnedLab) -> Iterator[Callable[[], Update]]:
    """The live view after each of its steps, which the test takes in place of its thread."""
    feed = Feed(lab.paths.lab)

    def step() -> Update:
        feed._take()
        assert feed.latest.problem is None
        return feed.latest

    try:
        step()
        yield step
    finally:
        feed._close()


@pytest.fixture
def lab(pinned_lab: PinnedLab) -> PinnedLab:
    Ledger(pinned_lab.paths.faults).create()
    return pinned_lab


def test_the_live_view_and_the_exporter_show_the_other_hosts(lab: PinnedLab) -> None:
    chance = random.Random(7)
    exporter = Exporter([lab.paths.lab])
    pin = lab.paths.node_pins("h1") / "nic_counters"
    with watching(lab) as step, contextlib.closing(exporter):
        for goodput_bytes in range(1000, 1000 * ROUNDS + 1, 1000):
            assert scribble(lab.paths.node_pins("h0"), chance, elements=ELEMENTS) > 2 * ELEMENTS
            write_per_cpu(pin, NicCounters, 0, {NicCounter.RX_PLACED_BYTES: [goodput_bytes]})
            update = step()
            assert update.snapshot is not None
            assert update_document(update, 0, with_history=True)
            shown = {host.name: host for host in update.snapshot.hosts}["h1"]
            assert round(shown.goodput_bps * update.snapshot.interval_ns / 8e9) == 1000
            page = {
                (sample.name, sample.labels.get("node")): sample.value
                for family in text_string_to_metric_families(exporter.page().decode())
                for sample in family.samples
            }
            assert page["mrc_testbed_lab_up", None] == 1
            assert page["mrc_goodput_bytes_total", "h1"] == goodput_bytes


def test_a_plane_s_times_are_those_of_the_hosts_that_count(lab: PinnedLab, twin_object: Path) -> None:
    names = [lab.paths.node_pins(host) / "rtt_histogram" for host in ("h0", "h1")]
    with opened(names[0]) as descriptor:
        value = b"\xff" * (map_info(descriptor).value_size * int(library().libbpf_num_possible_cpus()))
        key = ctypes.c_uint32(0)
        assert library().bpf_map_update_elem(descriptor, ctypes.byref(key), value, 0) == 0
    with filling(twin_object, names[1]) as rtt, watching(lab) as step:
        rtt.add(1000, key=0)
        seen = step().snapshot
        assert seen is not None
        assert seen.rtt is not None
        assert seen.rtt.count == 1
        assert 960 < seen.rtt.p50_ns < 1040
