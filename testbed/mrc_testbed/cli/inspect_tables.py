"""Tables of `inspect`, for people and programs alike."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from mrc_testbed.shown import format_rate, format_share, format_size, format_time
from mrc_testbed.topology import addressing, timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.forwarding import FIB_LOCAL, fib_entries
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

Cell = str | int | None


@dataclass(frozen=True, slots=True)
class DataTable:
    """Rows under named columns."""

    title: str  # what the rows are
    columns: tuple[str, ...]  # names in snake case, with their unit where they have one
    rows: tuple[tuple[Cell, ...], ...]  # one cell per column; None where there is nothing to say

    def records(self) -> list[dict[str, Cell]]:
        """The rows as mappings from column to cell."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def summary_table(clos: Clos) -> DataTable:
    """Sizes, capacities and theory of a fabric, in two columns."""
    spec, number = clos.spec, clos.numbering
    paths = number.uplink_count if spec.t0 > 1 else 1
    share = Fraction(1, spec.planes * number.uplink_count)
    rows: list[tuple[Cell, ...]] = [
        ("planes", spec.planes),
        ("switches", f"{number.switch_count} ({spec.t0} T0 + {spec.t1} T1 per plane)"),
        ("hosts", f"{number.host_count} ({spec.hosts_per_t0} per T0, one port to each plane)"),
        ("links", f"{number.link_count} ({number.host_link_count} to hosts)"),
        ("uplinks per T0", f"{number.uplink_count} ({spec.uplinks_per_pair} to each T1)"),
        ("downlinks to uplinks of a T0", f"{spec.hosts_per_t0}:{number.uplink_count}"),
        ("paths between two T0s", f"{spec.planes * paths} ({paths} per plane)"),
        ("one T0-T1 link is", f"{format_share(float(share))} of the way out of a T0 row"),
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
            (
                "link delay",
                format_time(spec.link_delay) + _but(len(overriding_delays_ns(clos)), "link"),
            ),
            *([("NIC delay", format_time(spec.nic.delay))] if spec.nic.delay else []),
            ("buffer per port", f"{format_size(data_buffer_bytes(clos))} for data"),
            ("T0-T1 links", _thresholds(clos) + _but(len(overrides_by_port(clos)), "port")),
            ("idle RTT in theory", format_time(timing.base_rtt_ns(clos))),
        ]
    return DataTable("fabric", ("property", "value"), tuple(rows))


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


def node_table(clos: Clos) -> DataTable:
    """All switches and hosts; a switch with the uSIDs it owns, a host with the T0 index of its row."""
    rows = []
    for node in clos.nodes():
        row = clos.numbering.row(node.index) if not node.is_switch else None
        rows.append(
            (node.id, node.name, node.tier.value, node.plane, row, node.port_count, _own_usids(clos, node))
        )
    return DataTable("nodes", ("id", "name", "tier", "plane", "row", "ports", "usids"), tuple(rows))


def link_table(clos: Clos) -> DataTable:
    rows = tuple(
        (
            link.id,
            link.name,
            link.plane,
            link.lower.node.name,
            link.lower.interface,
            link.upper.node.name,
            link.upper.interface,
        )
        for link in clos.links()
    )
    columns = ("id", "name", "plane", "lower_node", "lower_interface", "upper_node", "upper_interface")
    return DataTable("links", columns, rows)


def port_table(clos: Clos, node: Node) -> DataTable:
    """The ports of one node, with their addresses, what is at the other end, and their rate."""
    rates_bps = port_rates_bps(clos)
    rows = tuple(
        (
            port.index,
            port.interface,
            port.id,
            addressing.ifindex(port.id),
            port.mac,
            str(addressing.link_local(port.id)),
            None if node.is_switch else str(clos.inner_address(node.index, port.plane)),
            clos.peer(port).name,
            rates_bps[port.id] or None,
        )
        for port in clos.ports_of(node)
    )
    columns = ("port", "interface", "id", "ifindex", "mac", "link_local", "inner_address", "peer", "rate_bps")
    return DataTable(f"ports of {node.name}", columns, rows)


def forwarding_table(clos: Clos, switch: Node) -> DataTable:
    """The forwarding table of one switch, decoded."""
    rows: list[tuple[Cell, ...]] = []
    for key, value in fib_entries(clos, switch):
        usid = Usid(Role(key >> PLANE_SHIFT), switch.plane or 0, key % INDEX_COUNT)
        is_own = value == FIB_LOCAL
        port = None if is_own else clos.port(value - 1)
        rows.append(
            (
                f"{usid.value:04x}",
                str(usid),
                "uN shift" if is_own else "forward",
                None if port is None else port.interface,
                None if port is None else clos.peer(port).node.name,
            )
        )
    return DataTable(
        f"forwarding of {switch.name}", ("usid", "meaning", "action", "interface", "next_node"), tuple(rows)
    )


def path_table(path: Path) -> DataTable:
    """A path hop by hop: what each node does with the packet, and over which link it leaves."""
    rows = tuple(
        (
            hop.node.name,
            hop.action.value,
            None if hop.arrival is None else str(hop.arrival),
            None if hop.departure is None else str(hop.departure),
            link.name if link is not None else None,
            hop.reason,
        )
        for hop, link in zip(path.hops, (*path.links, None), strict=True)
    )
    usids = " ".join(f"{usid.value:04x}={usid}" for usid in path.usids)
    title = f"{path.source.name} to {path.destination.name} through plane {path.plane}"
    title += f": {usids}" if usids else ""
    return DataTable(title, ("node", "action", "arrives_as", "leaves_as", "link", "why"), rows)


def ev_table(clos: Clos, source: int, destination: int, evs: Iterable[int]) -> DataTable:
    """EVs with the path each takes between two hosts."""
    rows: list[tuple[Cell, ...]] = []
    for entropy in evs:
        ev = decode_ev(entropy)
        path = explain_ev(clos, entropy, source, destination)
        t1 = None if path.t1 is None else path.t1.name
        carrier = None if path.carrier is None else str(path.carrier)
        rows.append((f"{entropy:#010x}", ev.plane, path.uplink, ev.copy, t1, carrier))
    title = f"EVs from h{source} to h{destination}"
    return DataTable(title, ("ev", "plane", "uplink", "copy", "t1", "carrier"), tuple(rows))


def _own_usids(clos: Clos, node: Node) -> str | None:
    if node.plane is None:
        return None
    lanes = clos.spec.uplinks_per_pair
    role = Role.T1 if node.tier is Tier.T1 else Role.T0
    first = Usid(role, node.plane, node.index * lanes).value
    return f"{first:04x}" if lanes == 1 else f"{first:04x}-{first + lanes - 1:04x}"
