"""Load that a fabric, scenario or bench can offer, beside what a machine is assumed to carry in time.

Nothing is refused by it: what a machine carries shows when it does, and every run is judged.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.offered_load import OfferedFlow, all_hosts_at_once, frame_hops_per_s
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import format_rate_bps
from mrc_testbed.workloads.load import Load

ASSUMED_FRAME_HOPS_PER_S: Final = 600_000
"""Frames that leave the ports of a shaped lab in time on two cores; docs/explanation/fidelity.md."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Frames that may leave ports per second."""

    frame_hops_per_s: float = 0.0  # at most, by the ports' rates; 0 without one
    port_rate_bps: int = 0

    @property
    def is_beyond(self) -> bool:
        """Return True if it is more than is assumed to leave in time."""
        return self.frame_hops_per_s > ASSUMED_FRAME_HOPS_PER_S

    def __str__(self) -> str:
        """One line with the assumed rate, and what fits where the load is more."""
        line = (
            f"up to {_frames(self.frame_hops_per_s)} frame hops/s; this machine is assumed to carry "
            f"{_frames(ASSUMED_FRAME_HOPS_PER_S)} in time"
        )
        if not self.is_beyond:
            return line
        return f"{line}: a port_rate of {self.fitting_rate()} fits, and with --virtual any"

    def fitting_rate(self, carried_frame_hops_per_s: float = ASSUMED_FRAME_HOPS_PER_S) -> str:
        """Return the port rate at which the same flows are carried, in two digits and not rounded up."""
        fitting_bps = self.port_rate_bps * carried_frame_hops_per_s / self.frame_hops_per_s
        digit = 10 ** max(0, math.floor(math.log10(fitting_bps)) - 1)
        return format_rate_bps(int(fitting_bps // digit) * digit)


def fabric_demand(spec: TopologySpec) -> Demand:
    """Return the demand of all hosts of a fabric that send at once."""
    clos = resolve_topology(spec)
    return Demand(frame_hops_per_s(clos, all_hosts_at_once(clos)), spec.port_rate or 0)


def loads_demand(spec: TopologySpec, loads: Iterable[Load]) -> Demand:
    """Return the demand of loads that run at once on a fabric."""
    clos = resolve_topology(spec)
    flows = [flow for load in loads for flow in _offered(clos, load)]
    return Demand(frame_hops_per_s(clos, flows), spec.port_rate or 0)


def plan_demand(plan: Plan) -> Demand:
    """Return the demand of a scenario's workloads."""
    return loads_demand(plan.topology, [workload.load for workload in plan.workloads])


def _offered(clos: Clos, load: Load) -> list[OfferedFlow]:
    """Its flows; a collective has more messages under way than its depth says."""
    depth = load.depth if load.collective is None else None
    return [
        OfferedFlow(clos.node(flow.source).index, clos.node(flow.target).index, depth, load.size_bytes)
        for flow in load.flows
    ]


def _frames(count: float) -> str:
    return f"{count / 1e6:.2f} M" if count >= 1e6 else f"{count / 1e3:.0f} k"
