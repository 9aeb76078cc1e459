"""After any storm every descriptor is free again, exactly once."""

import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from line_traffic import random_frames, receive
from shaped_line import TO_FAR, TO_NEAR, LineFactory, LinkShape, ShapedLine

from agents.bpf.maps import ArrayMap, MappedArray
from agents.wire_abi import PortCounter, QueueDescriptors, QueuePort

pytestmark = pytest.mark.root

MBIT = 10**6
DROPS = (PortCounter.DROP_QUEUE_FULL, PortCounter.DROP_POOL_EMPTY)


def free_ids(line: ShapedLine) -> list[int]:
    """Ids on the pool's free list, newest first; one that runs in a circle is cut after twice its length."""
    descriptors = MappedArray(line.switch.map_fd("queue_descriptors"), QueueDescriptors)[0]
    pool = line.pool.read(0)
    ids: list[int] = []
    next_id = pool.free
    while next_id and len(ids) <= 2 * pool.fresh:
        ids.append(next_id)
        next_id = descriptors.entry[next_id - 1].next
    return ids


def assert_nothing_is_lost(line: ShapedLine) -> None:
    pool = line.pool.read(0)
    assert pool.used == 0
    assert sorted(free_ids(line)) == list(range(1, pool.fresh + 1))
    ports = ArrayMap(line.switch.map_fd("queue_ports"), QueuePort, locked=True)
    for port_id in range(line.port_count):
        port = ports.read(port_id)
        assert (list(port.head), port.wire_head, port.is_scheduled) == ([0, 0], 0, 0)
        assert list(line.state[port_id].depth_bytes) == [0, 0]


def flood(outlet: socket.socket, frames: list[bytes], cpu: int) -> None:
    """Sends *frames* from one CPU as fast as it can."""
    os.sched_setaffinity(0, {cpu})
    for frame in frames:
        outlet.send(frame)


def until_drained(line: ShapedLine, wait: Callable[[float], object]) -> bool:
    """Whether the pool ran empty within some seconds."""
    for _ in range(2000):
        if line.pool.read(0).used == 0:
            return True
        wait(0.005)
    return False


KILLS_MAX = 5
BETWEEN_KILLS_SECONDS = 0.2


@pytest.mark.parametrize("pool_frames", [48, 4096])
def test_storm_from_both_ends_loses_no_descriptor(make_line: LineFactory, pool_frames: int) -> None:
    """Two CPUs, overflowing buffers, an empty pool, and a drainer that is killed on the way."""
    shape = LinkShape(300 * MBIT, delay_ns=50_000, data_buffer_bytes=30_000, control_buffer_bytes=3_000)
    line = make_line([shape] * 3, pool_frames=pool_frames)
    cpus = sorted(os.sched_getaffinity(0))
    there = [frame.encode() for frame in random_frames(6000, TO_FAR, seed=6)]
    back = [frame.encode() for frame in random_frames(6000, TO_NEAR, seed=7)]
    line.start_drainer()
    with line.socket_at(0) as near, line.socket_at(5) as far, ThreadPoolExecutor(2) as threads:
        storms = [threads.submit(flood, near, there, cpus[0]), threads.submit(flood, far, back, cpus[-1])]
        kills = 0
        while kills < KILLS_MAX and not all(storm.done() for storm in storms):
            receive(far, 20, deadline_seconds=BETWEEN_KILLS_SECONDS)  # a small pool may lose all of a storm
            line.stop_drainer(signal.SIGKILL)
            line.start_drainer()
            kills += 1
        assert kills > 0
        for storm in storms:
            storm.result()
        assert until_drained(line, Event().wait)
    assert_nothing_is_lost(line)
    entered = len(there) + len(back)
    dropped = sum(line.counter(port_id, drop) for port_id in range(6) for drop in DROPS)
    left = line.counter(4, PortCounter.TX_PACKETS) + line.counter(1, PortCounter.TX_PACKETS)
    assert dropped > 0
    assert left > 0
    assert left + dropped == entered
