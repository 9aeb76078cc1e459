"""Flow control of links, hop by hop: the ingress buffer of each link.

Buffers are those of a switch's ingress, one per link that leads there. They count what waits in the switch,
whatever port it is to leave by. Left out, they follow from what a link holds while a message and its answer
cross it, and from the length of a full frame:

    PFC       0 ------- xon ------- xoff ------------------------- room
                 2 delays     4 frames    2 delays and 18 frames: headroom for what comes before
                 4 frames                 the pause arrives
    credits   0 ------------------- room: 2 delays and 8 frames

Source: docs/explanation/queue-engine.md, "Lossless modes"; IEEE 802.1Qbb for PFC.
"""

from dataclasses import dataclass
from typing import Final

from mrc_testbed.topology import timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import link_delays_ns, port_rates_bps

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
    spec = clos.spec
    ports = max(spec.hosts_per_t0 + clos.numbering.uplink_count, spec.t0 * spec.uplinks_per_pair)
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
