"""Pure: from a fault as written to what it means in one fabric: links, nodes, and what is done there."""

from collections.abc import Iterable

from testbed.errors import UsageError
from testbed.faults.binding import egress_ports
from testbed.faults.link_kinds import Congestion, NicPortDown, SlowLink
from testbed.faults.node_kinds import HOST_KINDS, PlaneDown
from testbed.faults.occurrence import FaultAction
from testbed.faults.spec import Fault
from testbed.faults.spec_base import LinkFault, NodeFault
from testbed.faults.traffic import RawLoad, plan_loads
from testbed.topology.clos import Clos
from testbed.topology.element import Link, Node
from testbed.topology.naming import Tier
from testbed.topology.selector import select_links, select_nodes, select_planes


class SelectionError(UsageError):
    """The selector of a fault matches nothing, or what the fault cannot act on."""


def target_fault(fault: Fault, clos: Clos, pick_seed: int, seed: int) -> FaultAction:
    """What *fault* means in the fabric *clos*.

    Args:
        fault: as written.
        clos: the fabric.
        pick_seed: decides what `pick: random` takes.
        seed: 64 bits for decisions in the data plane.

    Raises:
        SelectionError: the selector matches nothing, or the kind cannot act on what it matches.
    """
    try:
        links, nodes = _select(fault, clos, pick_seed)
    except UsageError as error:
        raise SelectionError(error.message, hint=error.hint) from error
    return FaultAction(
        fault_id=fault.id,
        kind=fault.kind,
        detail=fault.detail,
        seed=seed,
        links=tuple(link.name for link in links),
        nodes=tuple(node.name for node in nodes),
        direction=fault.direction if isinstance(fault, LinkFault) else "both",
        rule=fault.rule(),
        rate_ratio=fault.to_ratio if isinstance(fault, SlowLink) else None,
        loads=_loads(fault, clos, links, seed) if isinstance(fault, Congestion) else (),
    )


def _loads(fault: Congestion, clos: Clos, links: Iterable[Link], seed: int) -> tuple[RawLoad, ...]:
    ports = egress_ports(links, fault.direction)
    return plan_loads(clos, ports, fault.rate_bps, fault.towards, seed)


def _select(fault: Fault, clos: Clos, pick_seed: int) -> tuple[tuple[Link, ...], tuple[Node, ...]]:
    nodes: tuple[Node, ...] = ()
    if isinstance(fault, LinkFault):
        links = select_links(clos, fault.select, pick_seed)
        if isinstance(fault, NicPortDown):
            _require_host_links(links)
    elif isinstance(fault, NodeFault):
        nodes = select_nodes(clos, fault.select, pick_seed)
        _require_tiers(fault.kind, nodes)
        links = _unique(link for node in nodes for link in _links_of(clos, node))
    elif isinstance(fault, PlaneDown):
        planes = select_planes(clos, fault.select, pick_seed)
        links = tuple(link for link in clos.links() if link.plane in planes)
    return links, nodes


def check_fabric(fault: Fault, clos: Clos) -> None:
    """Returns when a fabric of that sort can have the fault at all.

    Raises:
        UsageError: it needs queues, or flow control, and there are none.
    """
    if fault.needs_queue and not clos.spec.is_shaped:
        raise UsageError(
            f"{fault.kind} happens in the queue of a port, and an unshaped fabric has none; "
            "give the topology a port_rate, such as 100Mbit"
        )
    if fault.kind == "drain" and clos.spec.forwarding == "ecmp":
        raise UsageError("with forwarding: ecmp no EV names a path that could be denied; use srv6 or stev")
    if fault.kind == "duplicate" and clos.spec.flow_control == "credits":
        raise UsageError("with flow_control: credits the far end has room for every packet once, not twice")
    if fault.needs_flow_control and clos.spec.flow_control == "none":
        raise UsageError(
            f"{fault.kind} abuses the flow control of links, and this fabric has none; "
            "give the topology flow_control: pfc, or credits"
        )


def _require_host_links(links: Iterable[Link]) -> None:
    for link in links:
        if not link.is_host_link:
            raise UsageError(
                f"nic-port-down takes the carrier of a NIC port, but {link.name} joins two switches; "
                "select host links, such as {between: [host, t0]}, or use link-down"
            )


def _require_tiers(kind: str, nodes: Iterable[Node]) -> None:
    wants_host = kind in HOST_KINDS
    for node in nodes:
        if (node.tier is Tier.HOST) != wants_host:
            wanted, found = (
                ("hosts, such as h3", "switch") if wants_host else ("switches, such as p0-t1-0", "host")
            )
            raise UsageError(f"{kind} acts on {wanted}, but {node.name} is a {found}")


def _links_of(clos: Clos, node: Node) -> Iterable[Link]:
    return (clos.link(port.link_id) for port in clos.ports_of(node))


def _unique(links: Iterable[Link]) -> tuple[Link, ...]:
    return tuple(sorted({link.id: link for link in links}.values(), key=lambda link: link.id))
