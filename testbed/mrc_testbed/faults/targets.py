"""From a fault as written to what it means in one fabric: links, nodes, and its effects there. Pure."""

from mrc_testbed.errors import UsageError
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.spec_base import AnyFault, Target, kind_of
from mrc_testbed.topology.clos import Clos


class SelectionError(UsageError):
    """The selector of a fault matches nothing, or what the fault cannot act on."""


def target_fault(fault: AnyFault, clos: Clos, pick_seed: int, seed: int) -> ScheduledFault:
    """The meaning of *fault* in the fabric *clos*, whenever it acts.

    Args:
        pick_seed: decides what `pick: random` takes.
        seed: 64 bits for decisions in the data plane.
    """
    fault.check_fabric(clos)
    try:
        links, nodes = fault.choose(clos, pick_seed)
    except UsageError as error:
        raise SelectionError(error.message, hint=error.hint) from error
    return ScheduledFault(
        fault_id=fault.id,
        kind=kind_of(type(fault)),
        detail=fault.detail,
        seed=seed,
        links=tuple(link.name for link in links),
        nodes=tuple(node.name for node in nodes),
        direction=fault.way,
        is_hidden=fault.is_hidden,
        effects=fault.effects(Target(clos, links, nodes, seed)),
    )
