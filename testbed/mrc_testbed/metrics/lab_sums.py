"""The counts of all NICs of a lab together; in virtual time one call reads them. Changes nothing."""

from collections.abc import Mapping
from ctypes import addressof, c_uint64
from itertools import product
from typing import Final, NamedTuple

from mrc_agents.abi import EvState, Limit, NicCounter, NicCounters, VirtualSums
from mrc_agents.bpf.virtual import VirtualFolder
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.series import EV_STATES, EvStates, HostTable

_EV_PLACES: Final = tuple(product(range(Limit.PLANE_MAX), range(EvState.STATE_COUNT)))


class LabSums(NamedTuple):
    """Counts of all NICs since the lab was made: fields of a Reading."""

    hosts: HostTable
    packet_rtt: tuple[Histogram, ...]
    message_completion: Histogram
    ev_states: EvStates


class VirtualSource:
    """Reads a lab in virtual time, NICs named by *places*; a search for new QPs is as those of NicReader."""

    def __init__(
        self, folder: VirtualFolder, places: Mapping[str, int], plane_count: int, search_readings: int
    ) -> None:
        self._runtime, self._places = folder.runtime, places
        self._search_readings, self._readings = search_readings, 0
        self._counters = (NicCounters * len(places))()
        self._seen = (c_uint64 * (len(places) * self._runtime.map("qps", 0).count))()
        self._sums = VirtualSums(addressof(self._counters), addressof(self._seen), plane_count)

    def read(self) -> LabSums:
        sums = self._sums
        sums.searches = self._readings % self._search_readings == 0
        self._readings += 1
        self._runtime.read(sums)
        counters = memoryview(self._counters).cast("B").cast("Q")
        messages, *planes = (
            Histogram.from_map_values(bytes(each))
            for each in (sums.message_completion, *sums.packet_rtt[: sums.plane_count])
        )
        evs = zip(_EV_PLACES, sums.evs, strict=True)
        return LabSums(
            HostTable.of(self._places, [counters[at :: NicCounter.COUNT] for at in range(NicCounter.COUNT)]),
            tuple(planes),
            messages,
            {(plane, EvState(state)): count for (plane, state), count in evs if count and state in EV_STATES},
        )
