"""What is wrong with a lab that is up, found by looking at all its parts."""

from collections.abc import Iterator

from testbed.fabric.link import observe_ports
from testbed.fabric.lossless import opened_lossless
from testbed.fabric.process import is_alive
from testbed.fabric.runtime import Runtime
from testbed.fabric.state import LabPaths, LabState
from testbed.topology.addressing import INTERFACE_MTU_BYTES
from testbed.topology.clos import Clos
from testbed.topology.element import Node


def find_problems(paths: LabPaths, state: LabState, runtime: Runtime) -> Iterator[str]:
    """One sentence for each missing node, missing or changed port, and dead process.

    A port that is down is no problem of the lab: a fault may want it so.
    """
    clos = Clos(state.spec)
    running = runtime.running_nodes()
    for node in clos.nodes():
        if node.name in running:
            yield from _port_problems(paths, clos, node)
        else:
            yield f"node {node.name} is gone"
    for process in state.processes:
        if not is_alive(process.identity):
            what = f"the agent of {process.node}" if process.node else "the queue drainer"
            yield f"{what} (pid {process.pid}) is dead"
    yield from _deadlocks(paths, clos)


def _deadlocks(paths: LabPaths, clos: Clos) -> Iterator[str]:
    if clos.spec.flow_control == "none" or not paths.fabric_pins.is_dir():
        return
    with opened_lossless(clos, paths.fabric_pins) as lossless:
        found = lossless.deadlock()
    if found is not None:
        ports = " -> ".join(clos.port(port_id).name for port_id in (*found.cycle, found.cycle[0]))
        yield f"deadlock: each of these ports waits for the next one, for ever: {ports}"


def _port_problems(paths: LabPaths, clos: Clos, node: Node) -> Iterator[str]:
    ports = tuple(clos.ports_of(node))
    for port, observed in zip(ports, observe_ports(paths.lab, node.name, ports), strict=True):
        if observed is None:
            yield f"port {port.name} has no interface"
        elif observed.mtu_bytes < INTERFACE_MTU_BYTES:
            yield (
                f"port {port.name} has an MTU of {observed.mtu_bytes} bytes, {INTERFACE_MTU_BYTES} are "
                "needed: it drops full packets without a word"
            )
