"""What is wrong with a lab that is up, found by looking at all its parts."""

from collections.abc import Collection, Iterator
from typing import Final

from testbed.fabric.link import observe_ports
from testbed.fabric.lossless import opened_lossless
from testbed.fabric.paths import LabPaths
from testbed.fabric.process import is_alive, is_stopped
from testbed.fabric.repair import silent_agents
from testbed.fabric.runtime import Runtime
from testbed.fabric.state import LabState
from testbed.topology.addressing import INTERFACE_MTU_BYTES
from testbed.topology.clos import Clos
from testbed.topology.element import Node
from testbed.topology.resolve import resolve_topology

ANSWER_NS: Final = 3_000_000_000
"""An agent answers within a millisecond; on a machine that is overloaded it takes longer."""


def find_problems(
    paths: LabPaths, state: LabState, runtime: Runtime, spared: Collection[str] = ()
) -> Iterator[str]:
    """One sentence for each missing node, missing or changed port, and process that does not work.

    A port that is down is no problem of the lab: a fault may want it so. Likewise the agents of *spared*
    hosts.
    """
    clos = resolve_topology(state.spec)
    running = runtime.running_nodes()
    for node in clos.nodes():
        if node.name in running:
            yield from _port_problems(paths, clos, node)
        else:
            yield f"node {node.name} is gone"
    yield from _process_problems(paths, state, spared)
    yield from _deadlocks(paths, clos)


def _process_problems(paths: LabPaths, state: LabState, spared: Collection[str]) -> Iterator[str]:
    stopped = {process.node for process in state.processes if is_stopped(process.identity)}
    silent = silent_agents(paths, state, ANSWER_NS, {*spared, *filter(None, stopped)})
    for process in state.processes:
        if process.node in spared:
            continue
        what = f"the agent of {process.node}" if process.node else "the queue drainer"
        if not is_alive(process.identity):
            yield f"{what} (pid {process.pid}) is dead"
        elif is_stopped(process.identity):
            yield f"{what} (pid {process.pid}) is stopped by a signal"
        elif process.node in silent:
            yield f"{what} (pid {process.pid}) does not answer"


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
