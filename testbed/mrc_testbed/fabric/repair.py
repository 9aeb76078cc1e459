"""Detection and repair of dead processes and ports of a live lab."""

import signal
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Self

from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.fabric.agent_process import DRAINER, start_agents, start_drainer
from mrc_testbed.fabric.namespace import is_bound
from mrc_testbed.fabric.nic_data_plane import restore_nic
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.port_state import LabPorts
from mrc_testbed.fabric.process import (
    command_line,
    find_marked,
    is_alive,
    is_stopped,
    kill_processes,
    signal_process,
    stop_processes,
)
from mrc_testbed.fabric.runtime import Runtime, node_namespace
from mrc_testbed.fabric.state import LabState, ProcessRecord, write_state
from mrc_testbed.topology.resolve import resolve_topology

_GRACE_NS: Final = 5_000_000_000
ANSWER_NS: Final = 3_000_000_000
"""An agent answers within a millisecond; on a machine that is overloaded it takes longer."""

_ASKED_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Repair:
    """The repairs of a lab whose processes and ports work again."""

    # hosts whose NIC agent was restarted; QPs and memory regions of the old one are gone
    restarted: tuple[str, ...] = ()
    resumed: tuple[str, ...] = ()  # hosts whose NIC agent was stopped by a signal and goes on
    drainers: int = 0  # number of queue drainers restarted or resumed
    ports: tuple[str, ...] = ()  # names of ports raised or configured again


def silent_agents(paths: LabPaths, state: LabState, spared: Collection[str]) -> set[str]:
    """Hosts whose agent runs but does not answer in time; *spared* ones are not asked."""
    asked = [
        process.node
        for process in state.processes
        if process.node and process.node not in spared and is_alive(process.identity)
    ]

    def is_silent(host: str) -> bool:
        try:
            with AgentClient(paths.agent_socket(host), ANSWER_NS) as agent:
                agent.hello()
        except AgentError:
            return True
        return False

    if not asked:
        return set()
    with ThreadPoolExecutor(max_workers=_ASKED_AT_ONCE) as pool:
        return {host for host, silent in zip(asked, pool.map(is_silent, asked), strict=True) if silent}


@dataclass(frozen=True, slots=True)
class UnderFaults:
    """Parts of a lab that faults keep from working."""

    hosts: frozenset[str] = frozenset()  # names of those whose agent is stopped or dead
    ports: frozenset[int] = frozenset()  # ids of those that are down, or down at times

    def __or__(self, other: Self) -> "UnderFaults":
        return UnderFaults(self.hosts | other.hosts, self.ports | other.ports)


NO_FAULTS: Final = UnderFaults()


def repair(paths: LabPaths, state: LabState, runtime: Runtime, faults: UnderFaults) -> Repair:
    """Gets back what works no more: resumes stopped processes, restarts dead and silent ones, fixes ports.

    Needs the lab's lock.
    """
    _end_strays(paths, state)
    ports = _fix_ports(paths, state, runtime, faults)
    spared = faults.hosts
    stopped = [each for each in state.processes if each.node not in spared and is_stopped(each.identity)]
    resumed = [each for each in stopped if signal_process(each.identity, signal.SIGCONT)]
    lost = {process.node for process in state.processes if not is_alive(process.identity)}
    lost |= silent_agents(paths, state, spared)
    hosts = tuple(each.node for each in state.processes if each.node in lost and each.node not in spared)
    state = _start_agents(paths, state, runtime, [host for host in hosts if host])
    drainers = _restart_drainers(paths, state)
    return Repair(
        restarted=tuple(host for host in hosts if host),
        resumed=tuple(each.node for each in resumed if each.node and each.node not in hosts),
        drainers=drainers + sum(each.node is None for each in resumed),
        ports=ports,
    )


def _fix_ports(paths: LabPaths, state: LabState, runtime: Runtime, faults: UnderFaults) -> tuple[str, ...]:
    clos = resolve_topology(state.spec)
    running = runtime.running_nodes()
    nodes = [
        node
        for node in clos.nodes()
        if node.name in running and is_bound(node_namespace(paths.lab, node.name))
    ]
    with LabPorts(paths, clos) as ports:
        return tuple(ports.fix(nodes, faults.ports))


def restart_agents(paths: LabPaths, state: LabState, runtime: Runtime, hosts: Sequence[str]) -> None:
    """Restarts the agents of *hosts*; needs the lab's lock."""
    clos = resolve_topology(state.spec)
    for host in hosts:
        if clos.node(host).is_switch:
            raise UsageError(f"{host} is a switch: only hosts have a NIC agent")
    _end_strays(paths, state)
    _start_agents(paths, state, runtime, tuple(dict.fromkeys(hosts)))


def _end_strays(paths: LabPaths, state: LabState) -> None:
    """Ends agents and drainers that a killed command has started and not recorded: a NIC or queue has one."""
    recorded = {process.identity for process in state.processes}
    strays = [each for each in find_marked(paths.lab) if each not in recorded and _serves_lab(each.pid)]
    stop_processes(strays, _GRACE_NS)


def _serves_lab(pid: int) -> bool:
    words = command_line(pid)
    return "mrc_agents.nic" in words or str(DRAINER) in words[:1]


def _start_agents(paths: LabPaths, state: LabState, runtime: Runtime, hosts: Sequence[str]) -> LabState:
    """The state with the agents of *hosts* started, those that ran ended first; needs the lab's lock."""
    if not hosts:
        return state
    old = [process for process in state.processes if process.node in hosts]
    stop_processes([process.identity for process in old], _GRACE_NS)
    clos = resolve_topology(state.spec)
    for host in hosts:
        restore_nic(paths, clos, host)
    started = start_agents(paths, clos, runtime, hosts, lambda _: None)
    new = {process.node: process for process in started}
    return _recorded(paths, state, [new.get(process.node, process) for process in state.processes])


def _restart_drainers(paths: LabPaths, state: LabState) -> int:
    """The number of drainers that were dead; all state of a drainer is in the lab's maps."""
    drainers = [process for process in state.processes if process.node is None]
    dead = [index for index, drainer in enumerate(drainers) if not is_alive(drainer.identity)]
    if not dead:
        return 0
    for index in dead:
        drainers[index] = start_drainer(paths, index)
    agents = [process for process in state.processes if process.node is not None]
    try:
        _recorded(paths, state, [*drainers, *agents])
    except BaseException:
        kill_processes([drainers[index].identity for index in dead])
        raise
    return len(dead)


def _recorded(paths: LabPaths, state: LabState, processes: Sequence[ProcessRecord]) -> LabState:
    state = state.model_copy(update={"processes": tuple(processes)})
    write_state(paths, state)
    return state
