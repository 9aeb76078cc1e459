"""The part of a planned fabric that virtual time can run on this machine, and the time that it takes."""

from dataclasses import dataclass
from functools import cache
from math import isqrt
from typing import Final

from pydantic import ValidationError

from mrc_testbed.errors import UsageError
from mrc_testbed.shown import format_size, format_time
from mrc_testbed.topology.numbering import Numbering
from mrc_testbed.topology.offered_load import all_hosts_at_once, frame_hops_per_s
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.sizing import Fabric
from mrc_testbed.topology.spec import NicSpec, TopologySpec
from mrc_testbed.topology.usid import INDEX_COUNT
from mrc_testbed.virtual import limits
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.placement import place

LENGTH_NS: Final = 1_000_000
"""Virtual time that costs are given for."""

SIZE_BYTES: Final = 256 << 10
DEPTH: Final = 4
NIC: Final = NicSpec(path_mtu=4096, memory=4 << 20, qps_max=2)
"""NICs, messages and packets: those of scenarios/true/permutation-256.yaml."""

LINK_DELAY_NS: Final = 500
_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class Cost:
    """The needs of a permutation of all NICs of a fabric, across T1s."""

    hops_per_ms: float  # frames that leave ports per millisecond of virtual time
    assumed_hops_per_s: int  # frame hops per second of this machine's time
    takes_ns: int  # time of this machine for LENGTH_NS of virtual time
    memory_bytes: int  # of the run


@dataclass(frozen=True, slots=True)
class Reach:
    """The answer of `reach`."""

    whole: Cost | None  # cost of the planned fabric; None: it has three tiers
    obstacle: str | None  # to running it whole, in words; None: it runs
    # what runs: the planned fabric, or the largest full one of the same planes and port rate, with smaller
    # switches; None: nothing does
    part: TopologySpec | None
    cost: Cost | None  # of that part


def reach(fabric: Fabric) -> Reach:
    """The part of a fabric that the lab can number, memory holds, and that takes an hour at most."""
    port_rate_bps, available_bytes = fabric.parts.port_rate_bps, limits.allowed_bytes()
    whole: Cost | None = None
    obstacle: str | None = "the lab has two tiers of switches, not three"
    if not fabric.t2:
        whole = cost(fabric.numbering, port_rate_bps)
        obstacle = _obstacle(fabric.numbering, port_rate_bps, available_bytes)
    if obstacle is None:
        return Reach(whole, None, _topology(fabric.numbering, port_rate_bps), whole)
    most = min(isqrt(2 * fabric.nics), fabric.parts.switch_ports, INDEX_COUNT)
    for ports in range(most // 2 * 2, 0, -2):
        full = Numbering(fabric.parts.planes, ports, ports // 2, ports // 2, 1)
        if _obstacle(full, port_rate_bps, available_bytes) is None:
            return Reach(whole, obstacle, _topology(full, port_rate_bps), cost(full, port_rate_bps))
    return Reach(whole, obstacle, None, None)


def cost(number: Numbering, port_rate_bps: int) -> Cost:
    """The cost of a fabric in virtual time, from that of two NICs."""
    assumed_hops_per_s = limits.assumed_hops_per_s(number.host_count)
    hops_per_s = _hops_per_s_of_two(_two_nics(number), port_rate_bps) / 2 * number.host_count
    load = Load("all", SIZE_BYTES, DEPTH, None, (Flow("all", "h0", "h1", 0), Flow("all", "h1", "h0", 0)))
    [layout] = place([load], dict.fromkeys(load.hosts, NIC.memory)).values()
    regions_bytes = (layout.local_bytes + layout.remote_bytes) * number.host_count
    return Cost(
        hops_per_s / _MS_PER_S,
        assumed_hops_per_s,
        round(hops_per_s * LENGTH_NS / assumed_hops_per_s),
        limits.fabric_bytes(number, 2 * number.host_count, regions_bytes),
    )


@cache
def _hops_per_s_of_two(number: Numbering, port_rate_bps: int) -> float:
    clos = resolve_topology(_topology(number, port_rate_bps))
    return frame_hops_per_s(clos, all_hosts_at_once(clos))


def _obstacle(number: Numbering, port_rate_bps: int, available_bytes: int) -> str | None:
    """The first of the limits that a fabric exceeds, in words; None if it runs."""
    try:
        _topology(number, port_rate_bps)
        limits.check_ports(_topology(_two_nics(number), port_rate_bps))
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    except UsageError as error:
        return error.message
    needs = cost(number, port_rate_bps)
    if needs.memory_bytes > available_bytes:
        return (
            f"it takes {format_size(needs.memory_bytes)} of memory, and {format_size(available_bytes)} "
            "is available"
        )
    if needs.takes_ns > limits.LONG_RUN_NS:
        return (
            f"{format_time(LENGTH_NS)} takes {format_time(needs.takes_ns)} of this machine's time, more than "
            f"{format_time(limits.LONG_RUN_NS)}"
        )
    return None


def _two_nics(number: Numbering) -> Numbering:
    """Two NICs as far apart as those of a fabric."""
    t0 = min(2, number.t0)
    return Numbering(number.planes, t0, 1, 2 // t0, 1)


def _topology(number: Numbering, port_rate_bps: int) -> TopologySpec:
    return TopologySpec(
        planes=number.planes,
        t0=number.t0,
        t1=number.t1,
        hosts_per_t0=number.hosts_per_t0,
        uplinks_per_pair=number.uplinks_per_pair,
        port_rate=port_rate_bps,
        link_delay=LINK_DELAY_NS,
        nic=NIC,
    )
