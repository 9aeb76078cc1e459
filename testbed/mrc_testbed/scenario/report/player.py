"""The run in the drawing of its fabric, frame by frame; assets/player.js plays it. Pure.

Of each drawn link and frame there is one byte: its use since the frame before in the upper four bits, what
waits at the end in the lower four, each of the busier direction.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from math import ceil, sqrt
from operator import sub
from typing import Final

from markupsafe import Markup

from mrc_agents.abi import EvState
from mrc_testbed.drawing.graph import drawn_port_ids
from mrc_testbed.metrics.series import Reading
from mrc_testbed.report.page import html, part
from mrc_testbed.scenario.measure.recording import Recording, Span, nearest
from mrc_testbed.shown import format_time
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_queue import port_queues
from mrc_testbed.topology.port_selection import port_rates_bps

FRAMES_MAX: Final = 200
_BYTES_MAX: Final = 64_000
"""A fabric of many links has fewer frames."""

_LEVELS: Final = 15
_SEEN_SHARE: Final = 0.1
"""A fault is in a frame that has this share of it, or of which it has this share."""


def fabric_player(recording: Recording, clos: Clos) -> Markup:
    """Controls and data for the drawing of the fabric; nothing where ports were not read twice."""
    links = [clos.link(port // 2) for port in drawn_port_ids(clos)[::2]]
    kept = kept_readings(recording, min(FRAMES_MAX, _BYTES_MAX // len(links)))
    if len(kept) < 2:
        return Markup()
    names = {link.name: None for link in links}
    faults = recording.plan.faults
    data = {
        "links": list(names),
        "faults": [[*filter(names.__contains__, fault.links), *fault.nodes] for fault in faults],
        "frames": _frames(recording, kept),
        "levels": b64encode(link_levels(clos, kept)).decode(),
    }
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    planes = sorted({link.plane for link in links})
    return part("player", len(kept) - 2, planes, clos.spec.is_shaped, html(text))


def kept_readings(recording: Recording, frames_max: int) -> list[Reading]:
    """Readings between which frames are: at edges of faults, and others as evenly as they were taken."""
    found = {each.time_ns: each for each in recording.readings if each.drawn_tx_bytes}
    readings = list(found.values())
    edges = {nearest(readings, change.after_ns).time_ns for change in recording.fault_changes if found}
    kept = set(_spread(sorted(edges), frames_max // 2))
    kept.update(_spread(list(found), frames_max + 1 - len(kept)))
    return [found[time_ns] for time_ns in sorted(kept)]


def _spread(times: Sequence[int], count: int) -> Sequence[int]:
    """At most *count* of the times, first and last among them."""
    if len(times) <= count:
        return times
    return [times[place * (len(times) - 1) // (count - 1)] for place in range(count)]


def link_levels(clos: Clos, kept: Sequence[Reading]) -> bytes:
    """Bytes of each link, frame by frame; use is of a link's rate, or without that of the busiest one now."""
    ports, rates, queues = drawn_port_ids(clos), port_rates_bps(clos), port_queues(clos)
    found = bytearray()
    for earlier, later in pairwise(kept):
        length_s = (later.time_ns - earlier.time_ns) / 1e9
        sent = list(map(sub, later.drawn_tx_bytes, earlier.drawn_tx_bytes))
        full = [rates[port] * length_s / 8 or max(*sent, 1) for port in ports]
        uses = [_level(count / most) for count, most in zip(sent, full, strict=True)]
        waiting = zip(ports, later.drawn_queue_bytes or [0] * len(ports), strict=True)
        fills = [_level(sqrt(depth / (queues[port].data_buffer_bytes or 1))) for port, depth in waiting]
        ups_and_downs = zip(uses[::2], uses[1::2], fills[::2], fills[1::2], strict=True)
        found += bytes(max(up, down) << 4 | max(ups, downs) for up, down, ups, downs in ups_and_downs)
    return bytes(found)


def _level(share: float) -> int:
    """From 0 for nothing to 15 for all; anything is at least 1."""
    return min(_LEVELS, ceil(_LEVELS * share))


def _frames(recording: Recording, kept: Sequence[Reading]) -> list[tuple[str, list[int]]]:
    """Each frame in words, and the places in the plan of the faults that act in it."""
    faults, end_ns, found = recording.plan.faults, kept[-1].time_ns, []
    periods = [
        (place, Span(each.applied.before_ns, each.cleared.after_ns if each.cleared else end_ns))
        for place, fault in enumerate(faults)
        for each in recording.occurrences(fault.fault_id)
    ]
    for earlier, later in pairwise(kept):
        frame = Span(earlier.time_ns, later.time_ns)
        acting = list(dict.fromkeys(place for place, period in periods if _is_seen(period, frame)))
        names = ", ".join(f"{faults[place].fault_id} ({faults[place].kind})" for place in acting)
        text = f"{format_time(recording.relative_ns(later.time_ns))}: {names or 'no fault'}"
        if later.ev_states:
            out = [0] * recording.plan.topology.planes
            for (plane, state), count in later.ev_states.items():
                out[plane] += count if state is not EvState.GOOD else 0
            text += f"; EVs out of use by plane: {', '.join(map(str, out))}"
        found.append((text, acting))
    return found


def _is_seen(period: Span, frame: Span) -> bool:
    common_ns = min(frame.end_ns, period.end_ns) - max(frame.start_ns, period.start_ns)
    return common_ns > _SEEN_SHARE * min(frame.length_ns, period.length_ns)
