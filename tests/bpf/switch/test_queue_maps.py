"""Sizes of the queue maps, and that the switch program has maps of those names."""

import pytest
from program_bench import OBJECTS
from switch_bench import FORWARD

from mrc_agents.abi import QueueLimit
from mrc_agents.bpf.libbpf import BpfObject
from mrc_testbed.fabric.data_plane import pool_frames, queue_map_entries


def test_switch_program_loads_with_the_sizes_of_a_shaped_lab() -> None:
    with BpfObject(OBJECTS / FORWARD, max_entries=queue_map_entries(96), programs=[]) as switch:
        assert queue_map_entries(96).keys() <= set(switch.map_names())


@pytest.mark.parametrize(
    ("port_count", "frames"),
    [(2, 4096), (32, 4096), (96, 12288), (256, 32768), (4096, QueueLimit.FRAMES_MAX)],
)
def test_pool_grows_with_the_ports_within_bounds(port_count: int, frames: int) -> None:
    assert pool_frames(port_count) == frames
