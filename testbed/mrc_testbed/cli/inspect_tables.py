"""Tables of `inspect`, for people and programs alike."""

from collections.abc import Iterable
from dataclasses import replace
from operator import mul

from mrc_testbed.drawing.graph import switches_crossed
from mrc_testbed.shown import format_rate, format_share, format_size, format_time
from mrc_testbed.topology import addressing, timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.forwarding import FIB_LOCAL, fib_entries, usid_ranges
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.path import Path, explain_ev
from mrc_testbed.topology.port_queue import data_buffer_bytes, port_queues
from mrc_testbed.topology.port_selection import (
    other_rates,
    overrides_by_port,
    overriding_delays_ns,
    port_rates_bps,
)
from mrc_testbed.topology.usid import INDEX_COUNT, PLANE_SHIFT, Role, Usid
from mrc_testbed.units import format_size_bytes

Rows = list[dict[str, str | int | None]]
"""Rows of a table for people and programs alike, with None where there is nothing to say."""


def summary_rows(clos: Clos) -> Rows:
    """Sizes, capacities and theory of a fabric, in two columns."""
    spec, number = clos.spec, clos.numbering
    paths = number.way_count(number.diameter)
    groups, between = ("pods", "links between switches") if number.diameter > 1 else ("T0s", "T0-T1 links")
    out_of_group = map(mul, number.group_sizes, number.uplinks[:-1])
    rows: list[tuple[str, str | int]] = [
        ("planes", spec.planes),
        ("switches", f"{number.switch_count} ({number.switches_by_tier} per plane)"),
        ("hosts", f"{number.host_count} ({number.hosts_per_t0} per T0, one port to each plane)"),
        ("links", f"{number.link_count} ({number.host_link_count} to hosts)"),
        *(
            row
            for level, uplinks in enumerate(number.uplinks[:-1])
            for row in (
                (
                    f"uplinks per T{level}",
                    f"{uplinks} ({number.tiers[level + 1].lanes} to each T{level + 1})",
                ),
                (f"downlinks to uplinks of a T{level}", f"{number.downlinks[level]}:{uplinks}"),
            )
        ),
        (f"paths between two {groups}", f"{spec.planes * paths} ({paths} per plane)"),
        *(
            (
                f"one T{level}-T{level + 1} link is",
                f"{format_share(1 / (spec.planes * count))} of the way out of a {group}",
            )
            for level, (count, group) in enumerate(zip(out_of_group, ("T0 row", "pod"), strict=False))
        ),
        ("one host link is", f"{format_share(1 / spec.planes)} of a host's capacity"),
        (
            "EVs of a QP",
            f"{spec.evs} ({spec.active_evs_per_plane} active + {spec.backup_evs_per_plane} backup per plane)",
        ),
        ("NIC memory", format_size_bytes(spec.nic.memory)),
        ("path MTU", format_size_bytes(spec.nic.path_mtu)),
    ]
    if spec.port_rate is None:
        rows.append(("port rate", "unshaped"))
    else:
        rows += [
            ("port rate", format_rate(spec.port_rate) + other_rates(clos)),
            ("link delay", format_time(spec.link_delay) + _but(len(overriding_delays_ns(clos)), "link")),
            *([("NIC delay", format_time(spec.nic.delay))] if spec.nic.delay else []),
            ("buffer per port", f"{format_size(data_buffer_bytes(clos))} for data"),
            (between, _thresholds(clos) + _but(len(overrides_by_port(clos)), "port")),
            ("idle RTT in theory", format_time(timing.base_rtt_ns(clos))),
        ]
    return [{"property": name, "value": value} for name, value in rows]


def _but(count: int, what: str) -> str:
    """Describe the number of exceptions."""
    return f", but for {count} {what}{'s' if count > 1 else ''}" if count else ""


def _thresholds(clos: Clos) -> str:
    """Describe what a queue towards a T1 does with too much data."""
    queue = port_queues(clos)[2 * clos.numbering.host_link_count]
    parts = ["drop when full"]
    if queue.trim_bytes:
        parts = [f"trim above {format_size(queue.trim_bytes)}"]
    if queue.ecn_max_bytes:
        least, most = (format_size(n) for n in (queue.ecn_min_bytes, queue.ecn_max_bytes))
        parts.insert(0, f"mark above {least}, all above {most}")
    return "; ".join(parts)


def node_rows(clos: Clos) -> Rows:
    """All switches and hosts; a switch with the uSIDs it owns, a host with the T0 index of its row."""
    return [
        {
            "id": node.id,
            "name": node.name,
            "tier": node.tier.value,
            "plane": node.plane,
            "row": None if node.is_switch else clos.numbering.row(node.index),
            "ports": node.port_count,
            "usids": _own_usids(clos, node),
        }
        for node in clos.nodes()
    ]


def link_rows(clos: Clos) -> Rows:
    return [
        {
            "id": link.id,
            "name": link.name,
            "plane": link.plane,
            "lower_node": link.lower.node.name,
            "lower_interface": link.lower.interface,
            "upper_node": link.upper.node.name,
            "upper_interface": link.upper.interface,
        }
        for link in clos.links()
    ]


def port_rows(clos: Clos, node: Node) -> Rows:
    """The ports of one node, with their addresses, what is at the other end, and their rate."""
    rates_bps = port_rates_bps(clos)
    return [
        {
            "port": port.index,
            "interface": port.interface,
            "id": port.id,
            "ifindex": addressing.ifindex(port.id),
            "mac": port.mac,
            "link_local": str(addressing.link_local(port.id)),
            "inner_address": None if node.is_switch else str(clos.inner_address(node.index, port.plane)),
            "peer": clos.peer(port).name,
            "rate_bps": rates_bps[port.id] or None,
        }
        for port in clos.ports_of(node)
    ]


def forwarding_rows(clos: Clos, switch: Node) -> Rows:
    rows: Rows = []
    for key, value in fib_entries(clos, switch):
        role = Role(key >> PLANE_SHIFT)
        if role is Role.DOWNLINK and switch.tier is not Tier.T0:
            role = Role.T2
        usid = Usid(role, switch.plane or 0, key % INDEX_COUNT)
        port = None if value == FIB_LOCAL else clos.port(value - 1)
        rows.append(
            {
                "usid": f"{usid.value:04x}",
                "meaning": str(usid),
                "action": "uN shift" if port is None else "forward",
                "interface": None if port is None else port.interface,
                "next_node": None if port is None else clos.peer(port).node.name,
            }
        )
    return rows


def describe_path(path: Path) -> str:
    """Its ends, plane and uSIDs."""
    usids = " ".join(f"{usid.value:04x}={usid}" for usid in path.usids)
    ends = f"{path.source.name} to {path.destination.name} through plane {path.plane}"
    return ends + (f": {usids}" if usids else "")


def path_rows(path: Path) -> Rows:
    """A path hop by hop: what each node does with the packet, and over which link it leaves."""
    return [
        {
            "node": hop.node.name,
            "action": hop.action.value,
            "arrives_as": None if hop.arrival is None else str(hop.arrival),
            "leaves_as": None if hop.departure is None else str(hop.departure),
            "link": None if link is None else link.name,
            "why": hop.reason,
        }
        for hop, link in zip(path.hops, (*path.links, None), strict=True)
    ]


def ev_rows(clos: Clos, source: int, destination: int, evs: Iterable[int]) -> Rows:
    """EVs with the path each takes between two hosts."""
    rows: Rows = []
    for entropy in evs:
        ev = decode_ev(entropy)
        path = explain_ev(clos, entropy, source, destination)
        rows.append(
            {
                "ev": f"{entropy:#010x}",
                "plane": ev.plane,
                "uplink": path.uplink,
                "copy": ev.copy,
                **switches_crossed(clos, path),
                "carrier": None if path.carrier is None else str(path.carrier),
            }
        )
    return rows


def _own_usids(clos: Clos, node: Node) -> str | None:
    if node.plane is None:
        return None
    owned = (
        (replace(usids.first, plane=node.plane).value, usids.size)
        for usids in usid_ranges(clos.numbering, node.tier, node.index)
        if usids.port_index is None
    )
    return ", ".join(
        f"{first:04x}" if size == 1 else f"{first:04x}-{first + size - 1:04x}" for first, size in owned
    )
