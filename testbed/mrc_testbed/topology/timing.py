"""Times in an idle fabric by theory: store-and-forward serialisation plus propagation."""

from functools import lru_cache
from typing import Final

from mrc_agents.abi import Limit
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import link_delays_ns, port_rates_bps

DATA_OVERHEAD_BYTES: Final = 142
"""Frame bytes of a data packet around its payload: Ethernet 14, outer and inner IPv6 80, UDP 8, BTH 12,
METH 4, TSETH 4, RETH 16, iCRC 4."""

SACK_FRAME_BYTES: Final = 154
"""Frame bytes of a SACK: Ethernet 14, outer and inner IPv6 80, UDP 8, BTH 12, SETH 28, CC_STATE 8, iCRC 4."""

TUNNEL_BYTES: Final = 40
"""The outer IPv6 header among them, which only the SRv6 mode has."""


LATENESS_NS: Final = 2_000_000
"""Lateness of a timer or a packet while the machine does something else; 0 in a simulation."""


def serialisation_ns(frame_bytes: int, rate_bps: int) -> int:
    """Time a frame of that length occupies a port of that rate, rounded to the nearest nanosecond."""
    return (frame_bytes * 8 * 10**9 + rate_bps // 2) // rate_bps


def full_frame_bytes(clos: Clos) -> int:
    """Length of the frame of a data packet with a full payload."""
    return clos.spec.nic.path_mtu + DATA_OVERHEAD_BYTES - _bytes_saved(clos)


def control_frame_bytes(clos: Clos) -> int:
    """Length of the frame of a SACK."""
    return SACK_FRAME_BYTES - _bytes_saved(clos)


@lru_cache(maxsize=4)  # of a large fabric it looks at all links
def base_rtt_ns(clos: Clos) -> int:
    """Idle RTT of a full packet over the longest path of the fabric; 0 if unshaped.

    Where ports have different rates, or links different delays, each link of the path is taken as the slowest
    of its tier in that direction.
    """
    idle, number = IdleFabric(clos), clos.numbering
    tiers = [number.links_at(level) for level in range(number.diameter + 1)]
    if idle.are_alike:
        return 2 * len(tiers) * idle.there_and_back_ns(0)
    return sum(
        max(idle.there_and_back_ns(2 * link + end) for link in links) for links in tiers for end in (0, 1)
    )


def pace_ns(clos: Clos, lateness_ns: int) -> int:
    """Pace of the protocol's clocks: an idle RTT and the lateness of the machine, 1 ms at most."""
    return min(Limit.PACE_FULL_NS, base_rtt_ns(clos) + lateness_ns)


def paced_ns(time_ns: int, clos: Clos, lateness_ns: int) -> int:
    """A time that is given for RTTs of 1 ms or more: shorter in proportion to the pace, as `paced_ns` of
    fabric_config.h is.
    """
    return time_ns * pace_ns(clos, lateness_ns) // Limit.PACE_FULL_NS


def byte_time_ps(clos: Clos, distance: int) -> int:
    """Time in ps that one more byte of a frame takes to a host at that distance, over all links of the path.

    Where ports have different rates, each link is taken as the slowest of its tier in that direction. 0 if
    unshaped.
    """
    number, ports_bps = clos.numbering, port_rates_bps(clos)
    tiers = [number.links_at(level) for level in range(distance + 1)]
    rates_bps = (
        min((ports_bps[2 * link + end] for link in links), default=0) for links in tiers for end in (0, 1)
    )
    return sum(serialisation_ns(1000, rate_bps) for rate_bps in rates_bps if rate_bps)


class IdleFabric:
    """Times in an idle fabric for frames of two lengths; keeps what pairs of hosts have in common.

    Args:
        data_frame_bytes: of a data packet, the whole frame; None: that of a full one.
        sack_frame_bytes: of a SACK, the whole frame; None: what it has by default.
    """

    def __init__(
        self, clos: Clos, data_frame_bytes: int | None = None, sack_frame_bytes: int | None = None
    ) -> None:
        self._clos, self._numbering = clos, clos.numbering
        self._data_bytes = data_frame_bytes or full_frame_bytes(clos)
        self._sack_bytes = sack_frame_bytes or control_frame_bytes(clos)
        self._rates_bps, self._delays_ns = port_rates_bps(clos), link_delays_ns(clos)
        self._between_rows_ns: dict[tuple[int, ...], int] = {}
        # whether all links take the same time
        self.are_alike = len(set(self._delays_ns)) == len(set(self._rates_bps)) == 1

    def rtt_ns(self, source: int, destination: int) -> int:
        """RTT in ns of a data packet and its SACK: on each link of the path, frame and delay of both.

        Where ports have different rates, or links different delays, it is that of the slowest path.

        A frame is received whole before it is sent on. An unshaped fabric has neither rate nor delay: the
        answer is 0, and what is measured is the software alone.
        """
        distance = self._clos.distance(source, destination)
        if self.are_alike:
            return 2 * (distance + 1) * self.there_and_back_ns(0)
        number = self._numbering
        rows = number.row(source), number.row(destination)
        return max(
            self.there_and_back_ns(2 * number.host_link_id(source, plane))
            + (self._between_rows(plane, *rows) if distance else 0)
            + self.there_and_back_ns(2 * number.host_link_id(destination, plane) + 1)
            for plane in range(self._clos.spec.planes)
        )

    def there_and_back_ns(self, port_id: int) -> int:
        """Time of a data packet by that port to the far end of its link, and of the SACK back from there."""
        there_bps, back_bps = self._rates_bps[port_id], self._rates_bps[port_id ^ 1]
        if not there_bps:
            return 0
        data_ns = serialisation_ns(self._data_bytes, there_bps)
        return data_ns + serialisation_ns(self._sack_bytes, back_bps) + 2 * self._delays_ns[port_id // 2]

    def _between_rows(self, plane: int, row: int, far_row: int) -> int:
        """Time by the slowest way from one T0 to another and back, for all hosts that hang on them."""
        key = plane, row, far_row
        if key not in self._between_rows_ns:
            number = self._numbering
            ways = range(number.way_count(number.row_distance(row, far_row)))
            self._between_rows_ns[key] = max(self._of_way_ns(plane, row, far_row, way) for way in ways)
        return self._between_rows_ns[key]

    def _of_way_ns(self, plane: int, row: int, far_row: int, way: int) -> int:
        links = self._numbering.links_of_way(plane, row, far_row, way)
        up, down = links[: len(links) // 2], links[len(links) // 2 :]
        return sum(self._across_ns(2 * link) for link in up) + sum(
            self._across_ns(2 * link + 1) for link in down
        )

    def _across_ns(self, port_id: int) -> int:
        """There and back by a port between switches; where lanes are hashed, by the slowest of its lanes."""
        if self._clos.spec.forwarding != "ecmp":
            return self.there_and_back_ns(port_id)
        level, _, _, uplink = self._numbering.link_place(port_id // 2)
        lanes = self._numbering.tiers[level].lanes
        first = port_id - 2 * (uplink % lanes)
        return max(self.there_and_back_ns(port_id) for port_id in range(first, first + 2 * lanes, 2))


def _bytes_saved(clos: Clos) -> int:
    return 0 if clos.spec.forwarding == "srv6" else TUNNEL_BYTES
