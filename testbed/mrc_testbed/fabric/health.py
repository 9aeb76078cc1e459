"""Problems of a lab that is up, found by looking at all its parts."""

from collections.abc import Collection, Iterator
from typing import Final

from mrc_testbed.fabric.lossless import opened_lossless
from mrc_testbed.fabric.namespace import is_bound
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.port_state import LabPorts
from mrc_testbed.fabric.process import is_alive, is_stopped
from mrc_testbed.fabric.repair import UnderFaults, silent_agents
from mrc_testbed.fabric.runtime import Runtime, node_namespace
from mrc_testbed.fabric.state import LabState
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology

ANSWER_NS: Final = 3_000_000_000
"""An agent answers within a millisecond; on a machine that is overloaded it takes longer."""


def find_problems(paths: LabPaths, state: LabState, runtime: Runtime, faults: UnderFaults) -> Iterator[str]:
    """One sentence for each missing node, port that lets no packet pass, and process that does not work,
    but for what *faults* want so.
    """
    clos = resolve_topology(state.spec)
    running = runtime.running_nodes()
    there, elsewhere = [], []
    for node in clos.nodes():
        if node.name not in running:
            yield f"node {node.name} is gone"
        elif is_bound(node_namespace(paths.lab, node.name)):
            there.append(node)
        else:
            elsewhere.append(node.name)
    if elsewhere:
        yield (
            f"the namespaces of {len(elsewhere)} nodes ({elsewhere[0]} ...) are not mounted here: the lab was"
            " brought up in another mount namespace, or they were unmounted; `down` removes it"
        )
    if there:
        with LabPorts(paths, clos) as ports:
            yield from ports.problems(there, faults.ports)
    yield from _process_problems(paths, state, faults.hosts)
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
