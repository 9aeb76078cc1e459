"""After any storm every descriptor is free again, exactly once."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from line_traffic import random_frames, receive
from shaped_line import TO_FAR, TO_NEAR, LineFactory, LinkShape
from soak import DROPS, Soaked, assert_nothing_is_lost, soak_round
from waiting import poll_until

from mrc_agents.abi import PortCounter

MBIT = 10**6


def flood(egress: socket.socket, frames: list[bytes], cpu: int) -> None:
    """Sends *frames* from one CPU as fast as it can."""
    os.sched_setaffinity(0, {cpu})
    for frame in frames:
        egress.send(frame)


KILLS_MAX = 5
BETWEEN_KILLS_SECONDS = 0.2


@pytest.mark.parametrize(
    ("pool_frames", "trim_bytes", "drainer_count", "is_direct"),
    [
        (48, 0, 1, False),
        (48, 0, 2, True),
        (4096, 0, 1, False),
        (4096, 10_000, 1, True),
        (4096, 10_000, 2, False),
    ],
)
def test_storm_from_both_ends_loses_no_descriptor(
    make_line: LineFactory, pool_frames: int, trim_bytes: int, drainer_count: int, is_direct: bool
) -> None:
    """Two CPUs, overflowing buffers, trims, an empty pool, and drainers that are killed on the way."""
    shape = LinkShape(300 * MBIT, delay_ns=50_000, data_buffer_bytes=30_000, control_buffer_bytes=3_000)
    line = make_line([shape] * 3, pool_frames=pool_frames, drainer_count=drainer_count, is_direct=is_direct)
    for settings in line.settings:
        settings.trim_bytes = trim_bytes
    cpus = sorted(os.sched_getaffinity(0))
    there = [frame.encode() for frame in random_frames(6000, TO_FAR, seed=6)]
    back = [frame.encode() for frame in random_frames(6000, TO_NEAR, seed=7)]
    line.start_drainer()
    with line.socket_at(0) as near, line.socket_at(5) as far, ThreadPoolExecutor(2) as threads:
        storms = [threads.submit(flood, near, there, cpus[0]), threads.submit(flood, far, back, cpus[-1])]
        for _ in range(KILLS_MAX):  # on a busy machine some of them come behind the storm
            receive(far, 20, deadline_seconds=BETWEEN_KILLS_SECONDS)  # a small pool may lose all of a storm
            line.stop_drainer(signal.SIGKILL)
            line.start_drainer()
        for storm in storms:
            storm.result()
        poll_until(lambda: line.pool.read(0).used == 0, what="an empty pool")
    assert_nothing_is_lost(line)
    entered = len(there) + len(back)
    dropped = sum(line.counter(port_id, drop) for port_id in range(6) for drop in DROPS)
    left = line.counter(4, PortCounter.TX_PACKETS) + line.counter(1, PortCounter.TX_PACKETS)
    assert dropped > 0
    assert left > 0
    assert (sum(line.counter(port_id, PortCounter.TRIMS) for port_id in range(6)) > 0) == bool(trim_bytes)
    assert left + dropped + line.ring_drops() == entered


@pytest.mark.parametrize("drainer_count", [1, 2])
def test_a_soak_loses_no_descriptor_and_no_byte(make_line: LineFactory, drainer_count: int) -> None:
    """The short version of `python -m benchmarks queue_soak`."""
    shape = LinkShape(200 * MBIT, delay_ns=20_000, data_buffer_bytes=40_000, control_buffer_bytes=10_000)
    line = make_line([shape] * 3, pool_frames=512, drainer_count=drainer_count)
    line.start_drainer()
    total = Soaked()
    with line.socket_at(0) as near, line.socket_at(5) as far:
        for seed in range(12):
            soak_round(line, (near, far), seed, total)
    assert total.wrong == 0
    assert min(total.received, total.dropped, total.trimmed) > 0
