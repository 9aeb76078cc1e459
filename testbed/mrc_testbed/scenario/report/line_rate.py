"""The line rate of hosts, as a limit for drawings of rates. Pure."""

from collections.abc import Collection

from mrc_testbed.report.chart import ReferenceLine
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec


def line_rate(spec: TopologySpec, hosts: Collection[str], plane: int | None = None) -> ReferenceLine | None:
    """Rate at which the NICs of *hosts* can send together; None where ports have no rate.

    Args:
        plane: counts alone; None: all of them.
    """
    clos = resolve_topology(spec)
    rates_bps = port_rates_bps(clos)
    ports = [
        port
        for host in clos.hosts()
        if host.name in hosts
        for port in clos.ports_of(host)
        if plane in (None, port.plane)
    ]
    total_bps = sum(rates_bps[port.id] for port in ports)
    return ReferenceLine("line rate", float(total_bps)) if total_bps else None
