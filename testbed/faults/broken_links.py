"""Which links a fault really breaks, so that they lose packets: the truth to grade by. Pure."""

from typing import Final

from testbed.faults.effect import Fault
from testbed.faults.occurrence import FaultAction
from testbed.faults.rule import LOSING_ACTIONS
from testbed.topology.clos import Clos

_OUTAGES: Final = frozenset({"nic-port-down", "blackhole", "switch-down", "switch-reboot", "plane-down"})
"""Kinds that lose packets by other means than a rule."""


def links_broken_by(clos: Clos, fault: Fault) -> frozenset[str]:
    """Names of the links on which an injected fault makes packets get lost, all or some, in any direction."""
    ports = {effect.port_id for effect in fault.effects if effect.rule.action in LOSING_ACTIONS}
    ports |= set(fault.carrier_ports)
    ports |= {port.id for name in fault.unrouted_switches for port in clos.ports_of(clos.node(name))}
    return frozenset(clos.link(port_id // 2).name for port_id in ports)


def links_to_be_broken_by(clos: Clos, action: FaultAction) -> frozenset[str]:
    """The same of a fault that a plan contains, whenever it acts."""
    is_losing = action.rule is not None and action.rule.action in LOSING_ACTIONS
    if not is_losing and action.kind not in _OUTAGES:
        return frozenset()
    ports = (port for name in action.nodes for port in clos.ports_of(clos.node(name)))
    return frozenset(action.links) | {clos.link(port.link_id).name for port in ports}
