"""The lab that the tests of this folder use, and how to see that it is healthy."""

from contextlib import closing

from waiting import poll_until

from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import is_healthy
from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.fabric.state import read_state
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2)


def agent_of(live: Lab, host: str) -> ProcessIdentity:
    state = read_state(live.paths)
    assert state is not None
    [record] = [process for process in state.processes if process.node == host]
    return record.identity


def unhealthy_ports(attached: Lab) -> list[str]:
    """Names of the ports whose entry in the port table is not that of a healthy port."""
    return [
        attached.clos.port(port_id).name
        for port_id in range(len(attached.port_table))
        if not is_healthy(attached, port_id)
    ]


def ports_down(attached: Lab) -> set[str]:
    """Names of the ports without carrier; that of a NIC is what its agent has noticed."""
    with closing(open_reader(attached.name)) as reader:
        return {attached.clos.port(port_id).name for port_id, up in enumerate(reader.ports_up()) if not up}


def await_ports_down(attached: Lab, names: set[str]) -> None:
    """Return when these ports and no others have no carrier: an agent notices a moment after the kernel."""
    poll_until(lambda: ports_down(attached) == names, what=f"carrier of all ports but {sorted(names)}")
