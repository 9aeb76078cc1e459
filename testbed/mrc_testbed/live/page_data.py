"""JSON values for the page. Pure."""

from dataclasses import asdict
from typing import Any, Final

from mrc_testbed.drawing.graph import headline, plane_colour, plane_is_dashed, switches_crossed
from mrc_testbed.drawing.svg import graph_svg
from mrc_testbed.live.feed import Update
from mrc_testbed.live.jobs import JobView
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.path import build_path
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.timing import base_rtt_ns
from mrc_testbed.workloads.job import slowest_of_each

_PATHS_PER_PLANE: Final = 16
_OVERLAP_INTERVALS: Final = 3
_STEPS_SENT_MAX: Final = 600


def fabric_document(lab: str, clos: Clos, interval_ns: int) -> dict[str, Any]:
    """The fabric itself, which does not change while a lab is up; rate and RTT are 0 if unshaped."""
    rates_bps = port_rates_bps(clos)
    return {
        "lab": lab,
        "headline": headline(clos),
        "svg": graph_svg(clos),
        "interval_ns": interval_ns,
        "hosts": [host.name for host in clos.hosts()],
        "switches": [node.name for node in clos.nodes() if node.tier is not Tier.HOST],
        "line_rate_bps": sum(
            rates_bps[port.id] or 0 for host in clos.hosts() for port in clos.ports_of(host)
        ),
        "idle_rtt_ns": base_rtt_ns(clos),
        "links": [link.name for link in clos.links()],
        "planes": [
            {"plane": plane, "colour": plane_colour(plane), "dashed": plane_is_dashed(plane)}
            for plane in range(clos.spec.planes)
        ],
    }


def update_document(update: Update, now_ns: int, *, with_history: bool) -> dict[str, Any]:
    """An update; its plots whole, or the last point only.

    Args:
        now_ns: CLOCK_MONOTONIC, which the page does not have: it gets how old the latest reading is.
    """
    shown = update.snapshot
    changes = {"changes": [change.text for change in shown.changes]} if shown else {}
    return {
        "number": update.number,
        "age_ns": update.age_ns(now_ns),
        "problem": update.problem,
        "snapshot": asdict(shown) | changes if shown else None,
        "points": [asdict(point) for point in (update.points if with_history else update.points[-1:])],
        "windows": [asdict(window) for window in update.windows],
        "tail": [asdict(line) for line in update.tail],
        "jobs": [_job(job, update, with_history=with_history) for job in update.jobs],
    }


def _job(job: JobView, update: Update, *, with_history: bool) -> dict[str, Any]:
    """A job; of its steps those since the update before, or all that were kept, the slowest of each few."""
    since_ns = 0 if with_history else (update.read_ns or 0) - _OVERLAP_INTERVALS * update.interval_ns
    steps = [step for step in job.steps if step[0] > since_ns]
    return {**asdict(job), "steps": slowest_of_each(steps, _STEPS_SENT_MAX, lambda step: step[1])}


def paths_document(clos: Clos, source: str, target: str) -> dict[str, Any]:
    """The paths between two hosts, at most 16 in each plane."""
    near, far = clos.node(source), clos.node(target)
    count = clos.numbering.way_count(clos.distance(near.index, far.index))
    paths = [
        build_path(clos, near.index, far.index, plane, uplink)
        for plane in range(clos.spec.planes)
        for uplink in range(min(count, _PATHS_PER_PLANE))
    ]
    return {
        "from": near.name,
        "to": far.name,
        "left_out": clos.spec.planes * count - len(paths),
        "paths": [
            {
                "plane": path.plane,
                "uplink": path.uplink,
                **switches_crossed(clos, path),
                "carrier": None if path.carrier is None else str(path.carrier),
                "links": [link.name for link in path.links],
                "hops": [{"node": hop.node.name, "why": hop.reason} for hop in path.hops],
            }
            for path in paths
        ],
    }
