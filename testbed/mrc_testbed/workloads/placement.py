"""Pure: how the workloads of a run share the memory and the QPs of each host."""

from collections import Counter
from collections.abc import Mapping, Sequence

from mrc_testbed.errors import UsageError
from mrc_testbed.units import format_size_bytes
from mrc_testbed.workloads.layout import Layout, plan_layout
from mrc_testbed.workloads.load import Load


class DoesNotFitError(UsageError):
    """A workload has no room at a host."""

    def __init__(self, load: Load, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.load = load  # which one


def place(loads: Sequence[Load], memory_bytes: Mapping[str, int]) -> dict[str, Layout]:
    """The layout of each workload of flows by name: collectives take what they need, flows the rest."""
    left_bytes = dict(memory_bytes)
    for load in loads:
        if load.program is not None:
            for host in load.hosts:
                left_bytes[host] = max(0, left_bytes[host] - load.program.peer_memory_bytes)
        if load.collective is None:
            continue
        need = load.collective.memory_bytes()
        for host in load.hosts:
            if need > left_bytes[host]:
                raise DoesNotFitError(
                    load,
                    f"{load.collective.kind} of {format_size_bytes(load.size_bytes)} needs "
                    f"{format_size_bytes(need)} of memory at {host}, which has "
                    f"{format_size_bytes(left_bytes[host])} for it",
                    hint="make `size` smaller, or give the NICs more memory (topology: nic: memory)",
                )
            left_bytes[host] -= need
    of_flows = [load for load in loads if load.collective is None and load.program is None]
    sharing = Counter(host for load in of_flows for host in load.hosts)
    layouts = {}
    for load in of_flows:
        share_bytes = {host: left_bytes[host] // sharing[host] for host in load.hosts}
        try:
            layouts[load.name] = plan_layout(load.size_bytes, load.flows, share_bytes)
        except UsageError as error:
            raise DoesNotFitError(load, error.message, error.hint) from error
    return layouts


def check_qps(loads: Sequence[Load], qps_max: int) -> None:
    """Raises DoesNotFitError when a host needs more QPs than its NIC holds: one for each end of a flow."""
    used: Counter[str] = Counter()
    for load in loads:
        for flow in load.flows:
            used.update((flow.source, flow.target))
        worst = max(load.hosts, key=lambda host: used[host])
        if used[worst] > qps_max:
            raise DoesNotFitError(
                load,
                f"{worst} would need {used[worst]} QPs; a NIC holds {qps_max}",
                hint="use fewer QPs or hosts, or make NICs larger (topology: nic: qps_max)",
            )
