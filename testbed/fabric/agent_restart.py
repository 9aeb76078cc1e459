"""NIC agents of a live lab, started anew: those that died, or those that are named."""

from collections.abc import Callable, Sequence
from typing import Final

from testbed.errors import UsageError
from testbed.fabric.agent_process import start_agents
from testbed.fabric.lock import exclusive
from testbed.fabric.process import is_alive, stop_processes
from testbed.fabric.runtime import Runtime
from testbed.fabric.runtime_choice import known_runtime
from testbed.fabric.state import LabPaths, LabState, lab_paths, write_state
from testbed.topology.clos import Clos

_GRACE_NS: Final = 5_000_000_000


def restart_agents(name: str, hosts: Sequence[str], read: Callable[[LabPaths], LabState]) -> tuple[str, ...]:
    """Hosts of lab *name* whose agent was started anew: *hosts*, or if none are given those with a dead one.

    An agent that still runs is ended first. QPs and memory regions of the old one are gone.

    Args:
        name: of the lab.
        hosts: names.
        read: gives the state of a lab that is up, or raises.

    Raises:
        UsageError: no such lab, or no such host.
        FabricError: an agent does not start; the end of its log is quoted.
    """
    paths = lab_paths(name)
    read(paths)
    with exclusive(paths.lock_file, "restart"):
        state = read(paths)
        clos = Clos(state.spec)
        for host in hosts:
            if clos.node(host).is_switch:
                raise UsageError(f"{host} is a switch: only hosts have a NIC agent")
        chosen = tuple(dict.fromkeys(hosts)) or dead_agents(state)
        start_anew(paths, state, known_runtime(paths, state), chosen)
    return chosen


def dead_agents(state: LabState) -> tuple[str, ...]:
    """Hosts whose agent does not run any more."""
    return tuple(
        process.node for process in state.processes if process.node and not is_alive(process.identity)
    )


def start_anew(paths: LabPaths, state: LabState, runtime: Runtime, hosts: Sequence[str]) -> None:
    """Starts the agents of *hosts*, having ended those that run, and records them; needs the lab's lock."""
    if not hosts:
        return
    old = [process for process in state.processes if process.node in hosts]
    stop_processes([process.identity for process in old], _GRACE_NS)
    started = start_agents(paths, Clos(state.spec), runtime, hosts, lambda _: None)
    new = {process.node: process for process in started}
    processes = tuple(new.get(process.node, process) for process in state.processes)
    write_state(paths, state.model_copy(update={"processes": processes}))
