"""Pure: from an occurrence of a fault, which names links, to what it does at which ports."""

from collections.abc import Iterator

from testbed.errors import UsageError
from testbed.faults.effect import Fault, PortEffect
from testbed.faults.occurrence import FaultOccurrence
from testbed.topology.clos import Clos
from testbed.topology.element import Link, Port


def bind(occurrence: FaultOccurrence, clos: Clos) -> Fault:
    """The fault that *occurrence* means in the fabric *clos*.

    Raises:
        UsageError: a link does not exist, or the kind cannot act on it.
    """
    links = [clos.link(name) for name in occurrence.links]
    carrier_ports: tuple[int, ...] = ()
    if occurrence.kind == "nic-port-down":
        for link in links:
            if not link.is_host_link:
                raise UsageError(
                    f"fault {occurrence.fault_id}: {link.name} has no NIC at either end",
                    hint="nic-port-down acts on host links; use link-down between switches",
                )
        carrier_ports = tuple(link.upper.id for link in links)
    effects = tuple(
        PortEffect(port.id, loss_ratio=occurrence.loss_ratio)
        if occurrence.loss_ratio is not None
        else PortEffect(port.id, is_down=True)
        for link in links
        for port in _egress_ports(link, occurrence.direction)
    )
    return Fault(
        fault_id=occurrence.fault_id,
        kind=occurrence.kind,
        seed=occurrence.seed,
        links=tuple(link.name for link in links),
        effects=effects,
        carrier_ports=carrier_ports,
    )


def _egress_ports(link: Link, direction: str) -> Iterator[Port]:
    """Ports through which frames of that direction leave; end a of a link is the lower one."""
    if direction != "b-to-a":
        yield link.lower
    if direction != "a-to-b":
        yield link.upper
