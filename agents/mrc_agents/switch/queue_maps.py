"""Sizes of the queue engine's maps.

The maps are declared in mrc_agents/queue/maps.h with one element each, all that an unshaped lab needs; a
shaped lab passes these sizes when it loads the switch program.
"""

from typing import Final

from mrc_agents.abi import QueueLimit

QUEUE_PORT_MAPS: Final = (
    "queue_ports",
    "queue_state",
    "queue_settings",
    "queue_delays",
    "lossless_settings",
    "lossless_links",
)
"""Maps with an element per port."""

QUEUE_DRAINER_MAPS: Final = ("queue_drainer", "queue_wakes", "queue_lateness")
"""Maps with an element per drainer."""

_FRAMES_PER_PORT = 128  # a 256 KiB buffer of full-sized data frames
_FRAMES_MIN = 4096  # small labs run large windows as well


def pool_frames(port_count: int) -> int:
    """Frames that a lab of *port_count* ports can hold at once, 3 KiB each."""
    return min(QueueLimit.FRAMES_MAX, max(_FRAMES_MIN, _FRAMES_PER_PORT * port_count))


def queue_map_entries(port_count: int, drainer_count: int = 1) -> dict[str, int]:
    """Elements per map of a shaped lab of so many ports and drainers; maps not named stay as declared."""
    entries = dict.fromkeys(QUEUE_PORT_MAPS, port_count)
    entries |= dict.fromkeys(QUEUE_DRAINER_MAPS, drainer_count)
    return entries | {"queue_frames": pool_frames(port_count)}
