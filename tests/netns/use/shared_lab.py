"""The lab that the tests of this folder use, and how to see that it is healthy."""

from testbed.fabric.live import Lab
from testbed.fabric.port_fault import is_healthy
from testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2)


def unhealthy_ports(attached: Lab) -> list[str]:
    """Names of the ports whose entry in the port table is not that of a healthy port."""
    return [
        attached.clos.port(port_id).name
        for port_id in range(len(attached.port_table))
        if not is_healthy(attached, port_id)
    ]
