"""What theory says about times in an idle fabric: store-and-forward serialisation plus propagation."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from testbed.topology.port_selection import overriding_delays_ns

if TYPE_CHECKING:
    from testbed.topology.clos import Clos

DATA_OVERHEAD_BYTES: Final = 142
"""Frame bytes of a data packet around its payload: Ethernet 14, outer and inner IPv6 80, UDP 8, BTH 12,
METH 4, TSETH 4, RETH 16, iCRC 4."""

SACK_FRAME_BYTES: Final = 154
"""Frame bytes of a SACK: Ethernet 14, outer and inner IPv6 80, UDP 8, BTH 12, SETH 28, CC_STATE 8, iCRC 4."""

TUNNEL_BYTES: Final = 40
"""The outer IPv6 header among them, which only the SRv6 mode has."""


def serialisation_ns(frame_bytes: int, rate_bps: int) -> int:
    """Time a frame of that length occupies a port of that rate, rounded to the nearest nanosecond."""
    return (frame_bytes * 8 * 10**9 + rate_bps // 2) // rate_bps


def expected_rtt_ns(
    clos: "Clos",
    source: int,
    destination: int,
    *,
    data_frame_bytes: int | None = None,
    sack_frame_bytes: int | None = None,
) -> int:
    """RTT in ns of a data packet and its SACK: every link of the path twice, each time a frame and a delay.

    Where ports have different rates, or links different delays, it is that of the slowest path.

    A frame is received whole before it is sent on. An unshaped fabric has neither rate nor delay: the answer
    is 0, and what is measured is the software alone.

    Args:
        clos: the fabric.
        source: host number.
        destination: host number.
        data_frame_bytes: whole frame; that of a full packet by default.
        sack_frame_bytes: whole frame; what a SACK has by default.

    Raises:
        UsageError: no such hosts, or they are the same.
    """
    is_local = clos.is_local(source, destination)
    crossings = _Crossings(clos, data_frame_bytes, sack_frame_bytes)
    if crossings.are_alike:
        return (2 if is_local else 4) * crossings.there_and_back_ns(0)
    return max(
        sum(map(crossings.there_and_back_ns, _sending_port_ids(clos, source, destination, plane, uplink)))
        for plane in range(clos.spec.planes)
        for uplink in range(1 if is_local else clos.numbering.uplink_count)
    )


def full_frame_bytes(clos: "Clos") -> int:
    """Length of the frame of a data packet with a full payload."""
    return clos.spec.nic.path_mtu + DATA_OVERHEAD_BYTES - _bytes_saved(clos)


def control_frame_bytes(clos: "Clos") -> int:
    """Length of the frame of a SACK."""
    return SACK_FRAME_BYTES - _bytes_saved(clos)


def base_rtt_ns(clos: "Clos") -> int:
    """Idle RTT of a full packet over the longest path, across a T1 if there are two T0s; 0 if unshaped.

    Where ports have different rates, or links different delays, each link of the path is taken as the slowest
    of its tier in that direction.
    """
    crossings, number = _Crossings(clos), clos.numbering
    host_links = range(number.host_link_count)
    fabric_links = range(number.host_link_count, number.link_count)
    tiers = (host_links, fabric_links) if clos.spec.t0 > 1 else (host_links,)
    if crossings.are_alike:
        return 2 * len(tiers) * crossings.there_and_back_ns(0)
    return sum(
        max(crossings.there_and_back_ns(2 * link + end) for link in links)
        for links in tiers
        for end in (0, 1)
    )


class _Crossings:
    """What it takes to cross the links of a fabric.

    Attributes:
        are_alike: whether it is the same for all.
    """

    def __init__(
        self, clos: "Clos", data_frame_bytes: int | None = None, sack_frame_bytes: int | None = None
    ) -> None:
        self._data_bytes = data_frame_bytes or full_frame_bytes(clos)
        self._sack_bytes = sack_frame_bytes or control_frame_bytes(clos)
        self._rates_bps, self._delays_ns = clos.port_rates_bps, overriding_delays_ns(clos)
        self._usual_delay_ns = clos.spec.link_delay
        self.are_alike = not self._delays_ns and len(set(self._rates_bps)) == 1

    def there_and_back_ns(self, port_id: int) -> int:
        """Time of a data packet by that port to the far end of its link, and of the SACK back from there."""
        there_bps, back_bps = self._rates_bps[port_id], self._rates_bps[port_id ^ 1]
        if not there_bps:
            return 0
        delay_ns = self._delays_ns.get(port_id // 2, self._usual_delay_ns)
        data_ns = serialisation_ns(self._data_bytes, there_bps)
        return data_ns + serialisation_ns(self._sack_bytes, back_bps) + 2 * delay_ns


def _sending_port_ids(clos: "Clos", source: int, destination: int, plane: int, uplink: int) -> Iterator[int]:
    """The ports by which a data packet leaves the nodes of a path: upwards, then downwards."""
    links = clos.links_of_path(source, destination, plane, uplink)
    for place, link in enumerate(links):
        yield (link.lower if place < len(links) // 2 else link.upper).id


def _bytes_saved(clos: "Clos") -> int:
    return 0 if clos.spec.forwarding == "srv6" else TUNNEL_BYTES
