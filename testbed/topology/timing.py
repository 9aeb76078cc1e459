"""What theory says about times in an idle fabric: store-and-forward serialisation plus propagation."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from testbed.topology.clos import Clos

DATA_OVERHEAD_BYTES: Final = 142
"""Frame bytes of a data packet around its payload: Ethernet 14, outer and inner IPv6 80, UDP 8, BTH 12,
METH 4, TSETH 4, RETH 16, iCRC 4."""

SACK_FRAME_BYTES: Final = 154
"""Frame bytes of a SACK: Ethernet 14, outer and inner IPv6 80, UDP 8, BTH 12, SETH 28, CC_STATE 8, iCRC 4."""

_BUFFER_RTTS: Final = 5
_CONTROL_PACKETS: Final = 1024


def serialisation_ns(frame_bytes: int, rate_bps: int) -> int:
    """Time a frame of that length occupies a port of that rate, rounded to the nearest nanosecond."""
    return (frame_bytes * 8 * 10**9 + rate_bps // 2) // rate_bps


def expected_rtt_ns(
    clos: "Clos",
    source: int,
    destination: int,
    *,
    data_frame_bytes: int | None = None,
    sack_frame_bytes: int = SACK_FRAME_BYTES,
) -> int:
    """RTT in ns of a data packet and its SACK: every link of the path twice, each time a frame and a delay.

    A frame is received whole before it is sent on, and NIC ports have the rate of the others. An unshaped
    fabric has neither rate nor delay: the answer is 0, and what is measured is the software alone.

    Args:
        clos: the fabric.
        source: host number.
        destination: host number.
        data_frame_bytes: whole frame; that of a full packet by default.
        sack_frame_bytes: whole frame.

    Raises:
        UsageError: no such hosts, or they are the same.
    """
    link_count = 2 if clos.is_local(source, destination) else 4
    return _round_trip_ns(clos, link_count, data_frame_bytes or full_frame_bytes(clos), sack_frame_bytes)


def full_frame_bytes(clos: "Clos") -> int:
    """Length of the frame of a data packet with a full payload."""
    return clos.spec.nic.path_mtu + DATA_OVERHEAD_BYTES


def base_rtt_ns(clos: "Clos") -> int:
    """Idle RTT of a full packet over the longest path, across a T1 if there are two T0s; 0 if unshaped."""
    return _round_trip_ns(clos, 4 if clos.spec.t0 > 1 else 2, full_frame_bytes(clos), SACK_FRAME_BYTES)


def data_buffer_bytes(clos: "Clos") -> int:
    """Room for data packets at a port; 0 if unshaped.

    By default 5 bandwidth-delay products of a plane, the upper end of what is usual where packets are dropped
    and not trimmed, and at least a QP's window, which a lone QP with a fixed window can then never overflow.
    """
    rate_bps = clos.spec.port_rate
    if rate_bps is None:
        return 0
    if clos.spec.queue.data_buffer is not None:
        return clos.spec.queue.data_buffer
    bdp_bytes = rate_bps * base_rtt_ns(clos) // (8 * 10**9)
    return max(_BUFFER_RTTS * bdp_bytes, clos.spec.nic.window_packets * full_frame_bytes(clos))


def nic_buffer_bytes(clos: "Clos") -> int:
    """Room for data packets at a NIC's own port; 0 if unshaped.

    A NIC does not lose what it sends itself: there is room for the windows of all its QPs.
    """
    if not clos.spec.is_shaped:
        return 0
    nic = clos.spec.nic
    return max(data_buffer_bytes(clos), nic.qps_max * nic.window_packets * full_frame_bytes(clos))


def control_buffer_bytes(clos: "Clos") -> int:
    """Room for SACKs, probes and trimmed packets at a port; 0 if unshaped."""
    if not clos.spec.is_shaped:
        return 0
    if clos.spec.queue.control_buffer is not None:
        return clos.spec.queue.control_buffer
    return _CONTROL_PACKETS * SACK_FRAME_BYTES


def _round_trip_ns(clos: "Clos", link_count: int, data_frame_bytes: int, sack_frame_bytes: int) -> int:
    rate_bps = clos.spec.port_rate
    if rate_bps is None:
        return 0
    there_ns = serialisation_ns(data_frame_bytes, rate_bps) + clos.spec.link_delay
    back_ns = serialisation_ns(sack_frame_bytes, rate_bps) + clos.spec.link_delay
    return link_count * (there_ns + back_ns)
