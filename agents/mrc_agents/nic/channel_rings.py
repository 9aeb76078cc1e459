"""Rings of completion channels: the NIC's programs wake by them who sleeps there, without the agent."""

import logging
import os
from ctypes import c_uint32

from mrc_agents.abi import Limit
from mrc_agents.bpf.maps import create_ring, map_update
from mrc_agents.errors import FabricError, UsageError

_log = logging.getLogger(__name__)


class ChannelRings:
    """Rings of channels by number, from 1. One that is given back is kept: to take it away takes 10 ms.

    Args:
        channels: descriptor of the array of maps in which the NIC's programs find them.
    """

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._rings: list[int | None] = []
        self._free: list[int] = []

    def take(self) -> int:
        """A number that nobody has; 0: all are taken."""
        if self._free:
            return self._free.pop()
        if len(self._rings) == Limit.CHANNELS:
            return 0
        self._rings.append(self._make_ring(len(self._rings)))
        return len(self._rings)

    def _make_ring(self, place: int) -> int | None:
        """A ring, which the NIC's programs find; None in a container, where no map can be made."""
        try:
            ring = create_ring("channel", Limit.PAGE_BYTES)
        except FabricError as error:
            _log.info("the agent wakes the programs of a channel: %s", error)
            return None
        map_update(self._channels, c_uint32(place), c_uint32(ring))
        return ring

    def has_ring(self, number: int) -> bool:
        return number > 0 and self._rings[number - 1] is not None

    def descriptor(self, number: int) -> int:
        """A descriptor of a ring, for its owner to close."""
        ring = self._rings[number - 1] if number else None
        if ring is None:
            raise UsageError(f"channel {number} has no ring")
        return os.dup(ring)

    def give_back(self, number: int) -> None:
        if number:
            self._free.append(number)

    def close(self) -> None:
        for ring in filter(None, self._rings):
            os.close(ring)
        self._rings.clear()
        self._free.clear()
