"""Quantities that a Campaign file asks its scenarios for. Pure."""

from collections.abc import Iterable

from testbed.errors import UsageError, did_you_mean
from testbed.scenario.spec.expression_tree import Quantity
from testbed.scenario.spec.plan import Plan


def check_quantities(quantities: Iterable[Quantity], plan: Plan) -> None:
    """Check that a run of *plan* can measure them.

    Raises:
        UsageError: a workload or fault is named that it does not have, or one without operations.
    """
    workloads = [workload.name for workload in plan.workloads]
    faults = [fault.fault_id for fault in plan.faults]
    with_operations = {workload.name for workload in plan.workloads if workload.collective is not None}
    for quantity in quantities:
        for name, known, what in (
            (quantity.workload, workloads, "workload"),
            (quantity.argument if quantity.kind.argument == "fault" else None, faults, "fault"),
            (quantity.fault_id, faults, "fault"),
        ):
            if name is not None and name not in known:
                listed = ", ".join(known) or "none"
                raise UsageError(
                    f"{quantity}: {plan.scenario} has no {what} {name!r}{did_you_mean(name, known)} "
                    f"(known: {listed})"
                )
        if quantity.needs_operations and quantity.workload not in with_operations:
            raise UsageError(
                f"{quantity}: {quantity.workload} has no operations; name a collective or training"
            )
