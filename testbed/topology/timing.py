"""What theory says about times in an idle fabric: store-and-forward serialisation plus propagation."""

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

    Where links have different delays, it is that of the slowest path.

    A frame is received whole before it is sent on, and NIC ports have the rate of the others. An unshaped
    fabric has neither rate nor delay: the answer is 0, and what is measured is the software alone.

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
    link_count = 2 if is_local else 4
    data_bytes = data_frame_bytes or full_frame_bytes(clos)
    rtt_ns = _round_trip_ns(clos, link_count, data_bytes, sack_frame_bytes or control_frame_bytes(clos))
    delays_ns = overriding_delays_ns(clos)
    if not delays_ns:
        return rtt_ns + 2 * link_count * clos.spec.link_delay
    uplinks = range(1 if is_local else clos.numbering.uplink_count)
    return rtt_ns + 2 * max(
        sum(
            delays_ns.get(link.id, clos.spec.link_delay)
            for link in clos.links_of_path(source, destination, plane, uplink)
        )
        for plane in range(clos.spec.planes)
        for uplink in uplinks
    )


def full_frame_bytes(clos: "Clos") -> int:
    """Length of the frame of a data packet with a full payload."""
    return clos.spec.nic.path_mtu + DATA_OVERHEAD_BYTES - _bytes_saved(clos)


def control_frame_bytes(clos: "Clos") -> int:
    """Length of the frame of a SACK."""
    return SACK_FRAME_BYTES - _bytes_saved(clos)


def base_rtt_ns(clos: "Clos") -> int:
    """Idle RTT of a full packet over the longest path, across a T1 if there are two T0s; 0 if unshaped.

    Where links have different delays, each of the path's is taken as the longest of its tier.
    """
    link_count = 4 if clos.spec.t0 > 1 else 2
    rtt_ns = _round_trip_ns(clos, link_count, full_frame_bytes(clos), control_frame_bytes(clos))
    delays_ns = overriding_delays_ns(clos)
    if not delays_ns:
        return rtt_ns + 2 * link_count * clos.spec.link_delay
    host_links = range(clos.numbering.host_link_count)
    fabric_links = range(clos.numbering.host_link_count, clos.numbering.link_count)
    for links in (host_links, fabric_links) if clos.spec.t0 > 1 else (host_links,):
        rtt_ns += 4 * max(delays_ns.get(link, clos.spec.link_delay) for link in links)
    return rtt_ns


def _bytes_saved(clos: "Clos") -> int:
    return 0 if clos.spec.forwarding == "srv6" else TUNNEL_BYTES


def _round_trip_ns(clos: "Clos", link_count: int, data_frame_bytes: int, sack_frame_bytes: int) -> int:
    """Time on transmitters; 0 if unshaped."""
    rate_bps = clos.spec.port_rate
    if rate_bps is None:
        return 0
    there_ns = serialisation_ns(data_frame_bytes, rate_bps)
    back_ns = serialisation_ns(sack_frame_bytes, rate_bps)
    return link_count * (there_ns + back_ns)
