"""The settings of a port's queues: buffers, marking, trimming; and of the ingress buffers of links.

Thresholds are shares of the bandwidth-delay product, the port's own rate times the idle RTT, as real switches
have them:

    0         0.2          0.8    1.0       1.5             5
    |----------|------------|------|---------|----------//---|   x BDP of waiting data
      no mark   some marked  all    trimmed   trimmed to      dropped, where nothing
                                    in fabric  hosts          is trimmed

A software fabric at a low rate has a product of a few packets, where a share of it would be less than one
packet; then it is taken as 16 packets.

Ingress buffers are for flow control, one per link that leads to a switch. They count what waits in the
switch, whatever port it is to leave by. Left out, they follow from what a link holds while a message and its
answer cross it, and from the length of a full frame:

    PFC       0 ------- xon ------- xoff ------------------------- room
                 2 delays     4 frames    2 delays and 18 frames: headroom for what comes before
                 4 frames                 the pause arrives
    credits   0 ------------------- room: 2 delays and 8 frames

Source: docs/reference/protocol.md, "Switch"; UEC 3.6.17 for the shares;
docs/explanation/queue-engine.md, "Lossless modes"; IEEE 802.1Qbb for PFC.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from mrc_agents.abi import PortKind
from mrc_testbed.topology import timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.port_selection import link_delays_ns, overrides_by_port, port_rates_bps
from mrc_testbed.topology.queue_spec import QueueOverride

TRANSIT_FRAMES: Final = 16
"""Frames that may be sent to a switch that has not looked at them yet; MRC_LOSSLESS_TRANSIT_MAX of the data
plane. The headroom has room for them."""

_WORKING_FRAMES: Final = 4
"""Waiting frames with which a switch resumes its sender: it is not to run dry before they come."""

_HYSTERESIS_FRAMES: Final = 4
_HEADROOM_FRAMES: Final = TRANSIT_FRAMES + 2
"""One that was being sent when the pause came, one that was when it was said."""

_CREDIT_FRAMES: Final = 8


@dataclass(frozen=True, slots=True)
class LinkBuffer:
    """The ingress buffer behind a link, for data."""

    xoff_bytes: int  # PFC: with so much waiting the sender is paused; 0 for credits
    xon_bytes: int  # PFC: with no more than this it goes on; 0 for credits
    room_bytes: int  # all of it


def link_buffers(clos: Clos) -> tuple[LinkBuffer, ...]:
    """The buffer at the far end of every port's link, by port id; empty without flow control."""
    if clos.spec.flow_control == "none":
        return ()
    delays_ns = link_delays_ns(clos)
    return tuple(
        _link_buffer(clos, rate_bps, delays_ns[port_id // 2])
        for port_id, rate_bps in enumerate(port_rates_bps(clos))
    )


def switch_room_bytes(clos: Clos) -> int:
    """Most data that can wait in one switch, hence at one of its ports; 0 without flow control."""
    buffers = link_buffers(clos)
    if not buffers:
        return 0
    ports = max(map(sum, zip(clos.numbering.downlinks, clos.numbering.uplinks, strict=True)))
    return ports * max(buffer.room_bytes for buffer in buffers)


def _link_buffer(clos: Clos, rate_bps: int, delay_ns: int) -> LinkBuffer:
    spec, frame_bytes = clos.spec, timing.full_frame_bytes(clos)
    held_bytes = rate_bps * 2 * delay_ns // (8 * 10**9)
    if spec.flow_control == "credits":
        return LinkBuffer(0, 0, spec.credits.buffer or held_bytes + _CREDIT_FRAMES * frame_bytes)
    pfc = spec.pfc
    xon_bytes = pfc.xon if pfc.xon is not None else held_bytes + _WORKING_FRAMES * frame_bytes
    xoff_bytes = pfc.xoff or xon_bytes + _HYSTERESIS_FRAMES * frame_bytes
    headroom_bytes = pfc.headroom if pfc.headroom is not None else held_bytes + _HEADROOM_FRAMES * frame_bytes
    return LinkBuffer(xoff_bytes, min(xon_bytes, xoff_bytes - 1), xoff_bytes + headroom_bytes)


_BUFFER_RTTS: Final = 5
_CONTROL_PACKETS: Final = 1024
_PRODUCT_PACKETS_MIN: Final = 16
_ECN_MIN_SHARE: Final = 0.2
_ECN_MAX_SHARE: Final = 0.8
_TRIM_SHARE: Final = 1.0
_TRIM_SHARE_LAST_HOP: Final = 1.5


@dataclass(frozen=True, slots=True)
class PortQueue:
    data_buffer_bytes: int  # what may wait of data
    control_buffer_bytes: int  # what may wait of control, trimmed packets among it
    trim_bytes: int = 0  # waiting data above which packets are trimmed; 0 for no trimming
    ecn_min_bytes: int = 0  # waiting data up to which nothing is marked
    ecn_max_bytes: int = 0  # waiting data from which all is marked; 0 for no marking
    ecn_probability: float = 0.0  # of a mark just below ecn_max_bytes, 0 to 1
    # where the far end is a switch, frames go on without crossing the link's interfaces
    is_direct: bool = False


@lru_cache(maxsize=4)
def port_queues(clos: Clos) -> tuple[PortQueue, ...]:
    """The settings of every port, by port id; all 0 in an unshaped fabric.

    A NIC's own port neither marks nor trims: what waits there has not been sent yet.
    """
    overrides = overrides_by_port(clos)
    found: dict[tuple[int, ...], PortQueue] = {}

    def of_port(port: Port) -> PortQueue:
        own = overrides.get(port.id, ())
        alike = (port.kind, *map(id, own))  # of thousands of ports few differ
        if alike not in found:
            found[alike] = _port_queue(clos, port.kind, own)
        return found[alike]

    return tuple(map(of_port, clos.ports()))


def _port_queue(clos: Clos, kind: PortKind, overrides: tuple[QueueOverride, ...]) -> PortQueue:
    given: dict[str, Any] = clos.spec.queue.settings()
    for override in overrides:
        given |= override.settings()
    control_bytes = given.get("control_buffer", control_buffer_bytes(clos))
    if kind is PortKind.NIC or not clos.spec.is_shaped:
        own = [override for override in overrides if override.data_buffer is not None]
        data_bytes = own[-1].data_buffer or 0 if own else nic_buffer_bytes(clos)
        return PortQueue(data_bytes, control_bytes, is_direct=given.get("links") == "direct")
    is_direct = given.get("links") == "direct"
    is_last_hop = kind is PortKind.T0_DOWN
    rate_bps = given.get("rate", clos.spec.port_rate)
    product_bytes = threshold_unit_bytes(clos, rate_bps)
    trim_bytes = 0
    if given.get("trim.enabled", is_lossy(clos)):
        share = _TRIM_SHARE_LAST_HOP if is_last_hop else _TRIM_SHARE
        trim_bytes = given.get("trim.threshold", round(share * product_bytes))
    data_bytes = max(given.get("data_buffer", data_buffer_bytes(clos, rate_bps)), trim_bytes)
    if clos.spec.flow_control != "none":
        data_bytes = data_buffer_bytes(clos)
    marks = given.get("ecn.enabled", is_lossy(clos)) and (not is_last_hop or given.get("ecn.last_hop", False))
    if not marks:
        return PortQueue(data_bytes, control_bytes, trim_bytes, is_direct=is_direct)
    min_bytes, max_bytes = _mark_thresholds(given.get("ecn.min"), given.get("ecn.max"), product_bytes)
    probability = given.get("ecn.probability", 1.0)
    return PortQueue(data_bytes, control_bytes, trim_bytes, min_bytes, max_bytes, probability, is_direct)


def _mark_thresholds(min_bytes: int | None, max_bytes: int | None, product_bytes: int) -> tuple[int, int]:
    """Fill in the missing threshold, which keeps its distance from the given one."""
    if max_bytes is None:
        max_bytes = max(round(_ECN_MAX_SHARE * product_bytes), 2 * (min_bytes or 0))
    if min_bytes is None:
        min_bytes = min(round(_ECN_MIN_SHARE * product_bytes), max_bytes // 2)
    return min_bytes, max_bytes


def drainer_of(clos: Clos, port: Port) -> int:
    """Index of the drainer that sends what leaves by *port*: planes are shared out, or else links."""
    count = clos.spec.queue.drainers
    return (port.plane if clos.spec.planes >= count else port.link_id) % count


def is_lossy(clos: Clos) -> bool:
    """Return True if switches mark and trim by default: not where flow control holds packets back."""
    return clos.spec.is_shaped and clos.spec.flow_control == "none"


def longest_wait_ns(clos: Clos) -> int:
    """Time that the fullest data queue of a switch port takes to empty at the port's rate; 0 if unshaped."""
    return _longest_wait_ns(clos, at_switches=True)


def longest_way_ns(clos: "Clos") -> int:
    """Time of a packet from NIC to NIC with the fullest queue at each port on its way; 0 if unshaped."""
    switches = 2 * len(clos.tiers) - 1
    at_switches_ns = switches * _longest_wait_ns(clos, at_switches=True)
    waits_ns = _longest_wait_ns(clos, at_switches=False) + at_switches_ns
    return waits_ns + timing.base_rtt_ns(clos)


def _longest_wait_ns(clos: "Clos", *, at_switches: bool) -> int:
    if not clos.spec.is_shaped:
        return 0
    rates_bps = port_rates_bps(clos)
    kinds = {
        (queue.data_buffer_bytes, rates_bps[port.id])
        for port, queue in zip(clos.ports(), port_queues(clos), strict=True)
        if port.node.is_switch == at_switches
    }
    return max(timing.serialisation_ns(*kind) for kind in kinds)


def threshold_unit_bytes(clos: Clos, rate_bps: int | None = None) -> int:
    """The bandwidth-delay product at that rate or port_rate, at least 16 full packets; 0 if unshaped."""
    if not clos.spec.is_shaped:
        return 0
    return max(_bandwidth_delay_bytes(clos, rate_bps), _PRODUCT_PACKETS_MIN * timing.full_frame_bytes(clos))


def _bandwidth_delay_bytes(clos: Clos, rate_bps: int | None) -> int:
    return (rate_bps or clos.spec.port_rate or 0) * timing.base_rtt_ns(clos) // (8 * 10**9)


def data_buffer_bytes(clos: Clos, rate_bps: int | None = None) -> int:
    """Room for data packets at a switch port of that rate or port_rate; 0 if unshaped.

    Under flow control what may wait is limited where it came in, and a port takes it all. Else by default 5
    bandwidth-delay products, the upper end of what is usual where packets are dropped and not
    trimmed, and at least a QP's window, which a lone QP with a fixed window can then never overflow.
    """
    if not clos.spec.is_shaped:
        return 0
    if clos.spec.flow_control != "none":
        return switch_room_bytes(clos)
    if clos.spec.queue.data_buffer is not None:
        return clos.spec.queue.data_buffer
    return max(
        _BUFFER_RTTS * _bandwidth_delay_bytes(clos, rate_bps),
        clos.spec.nic.window_packets * timing.full_frame_bytes(clos),
    )


def nic_buffer_bytes(clos: Clos) -> int:
    """Room for data packets at a NIC's own port; 0 if unshaped.

    A NIC does not lose what it sends itself: there is room for the windows of all its QPs.
    """
    if not clos.spec.is_shaped:
        return 0
    nic = clos.spec.nic
    return max(data_buffer_bytes(clos), nic.qps_max * nic.window_packets * timing.full_frame_bytes(clos))


def control_buffer_bytes(clos: Clos) -> int:
    """Room for SACKs, probes and trimmed packets at a port; 0 if unshaped."""
    if not clos.spec.is_shaped:
        return 0
    if clos.spec.queue.control_buffer is not None:
        return clos.spec.queue.control_buffer
    return _CONTROL_PACKETS * timing.control_frame_bytes(clos)
