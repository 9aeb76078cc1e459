"""Pure: from an occurrence of a fault, which names links, to what it does at which ports."""

from collections.abc import Iterable, Iterator

from testbed.faults.effect import Fault, PortEffect, PortRate
from testbed.faults.occurrence import FaultAction
from testbed.faults.rule import FrameRule
from testbed.topology.clos import Clos
from testbed.topology.element import Link, Port

_DARK_KINDS = frozenset({"switch-down", "switch-reboot", "plane-down"})
"""Kinds under which all that touches a link is dark at once."""


def bind(action: FaultAction, clos: Clos) -> Fault:
    """The fault that *action* means in the fabric *clos*.

    Raises:
        UsageError: a link or a node does not exist.
    """
    links = [clos.link(name) for name in action.links]
    nodes = [clos.node(name) for name in action.nodes]
    is_dark = action.kind in _DARK_KINDS
    has_no_carrier = is_dark or action.kind == "nic-port-down"
    rule = FrameRule(action="down") if is_dark else action.rule
    effects: tuple[PortEffect, ...] = ()
    if action.kind == "blackhole":
        lost = FrameRule(action="lose")
        effects = tuple(PortEffect(port.id, lost) for node in nodes for port in clos.ports_of(node))
    elif rule is not None:
        effects = tuple(PortEffect(port.id, rule) for port in egress_ports(links, action.direction))
    rates: tuple[PortRate, ...] = ()
    if action.rate_ratio is not None:
        ratio = action.rate_ratio
        rates = tuple(PortRate(port.id, ratio) for port in egress_ports(links, action.direction))
    held: tuple[int, ...] = ()
    if action.kind == "pause-storm":
        held = tuple(port.id for port in egress_ports(links, action.direction))
    return Fault(
        fault_id=action.fault_id,
        kind=action.kind,
        detail=action.detail,
        seed=action.seed,
        links=action.links,
        nodes=action.nodes,
        effects=effects,
        rates=rates,
        held_ports=held,
        carrier_ports=tuple(link.upper.id for link in links if has_no_carrier and link.is_host_link),
        unrouted_switches=action.nodes if action.kind == "switch-reboot" else (),
        drained_links=tuple(link.id for link in links) if action.kind == "drain" else (),
        frozen_hosts=action.nodes if action.kind == "host-pause" else (),
        agentless_hosts=action.nodes if action.kind == "nic-agent-kill" else (),
        loads=action.loads,
    )


def egress_ports(links: Iterable[Link], direction: str) -> Iterator[Port]:
    """Ports through which frames of that direction leave; end a of a link is the lower one."""
    for link in links:
        if direction != "b-to-a":
            yield link.lower
        if direction != "a-to-b":
            yield link.upper
