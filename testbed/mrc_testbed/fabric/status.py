"""The status of a lab: its record, and the problems found."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.known_labs import is_claimed_elsewhere, no_such_lab, require_own
from mrc_testbed.fabric.lock import is_held
from mrc_testbed.fabric.lossless import opened_lossless
from mrc_testbed.fabric.namespace import is_bound
from mrc_testbed.fabric.paths import DEFAULT_LAB, LabPaths, lab_paths
from mrc_testbed.fabric.port_state import LabPorts
from mrc_testbed.fabric.process import is_alive, is_stopped
from mrc_testbed.fabric.removal import observe_remains
from mrc_testbed.fabric.repair import NO_FAULTS, UnderFaults, silent_agents
from mrc_testbed.fabric.runtime import Runtime, node_namespace
from mrc_testbed.fabric.runtime_choice import known_runtime
from mrc_testbed.fabric.state import LabState, Phase, RuntimeName, read_state
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec


@dataclass(frozen=True, slots=True)
class LabStatus:
    name: str  # of the lab
    runtime: RuntimeName | None  # what its nodes are made of; None if its state is damaged
    phase: Phase | None  # building, up or removing; None if its state is damaged
    spec: TopologySpec | None  # its topology; None likewise
    problems: tuple[str, ...] = ()  # what is wrong, one sentence each; empty for a healthy lab
    note: str | None = None  # how the runtime was chosen, if `up` chose it

    @property
    def is_healthy(self) -> bool:
        """Return True if it is up and has no problem."""
        return self.phase is Phase.UP and not self.problems


def status(name: str = DEFAULT_LAB, faults: UnderFaults = NO_FAULTS) -> LabStatus:
    """The status of a lab; looks at every node, port and process except what *faults* account for."""
    paths = lab_paths(name)
    if is_claimed_elsewhere(name):
        require_own(name)
    try:
        state = read_state(paths)
    except FabricError as error:
        return LabStatus(name, None, None, None, (error.message,))
    runtime = known_runtime(paths, state)
    if state is None:
        require_own(name)
        remains = observe_remains(paths, runtime)
        if not remains:
            raise no_such_lab(name)
        problem = f"it has no state, but there remain: {remains.describe()}"
        return LabStatus(name, None, None, None, (problem,))
    problems = []
    if state.phase is not Phase.UP:
        problems.append(f"it is {state.phase.value}")
        if not is_held(paths.lock_file):
            problems.append("the command that worked on it is gone: `up` rebuilds it, `down` removes it")
    if state.made_for is not None and not is_alive(state.made_for.identity):
        problems.append(f"the run that it was made for (pid {state.made_for.pid}) is gone: `down` removes it")
    problems += find_problems(paths, state, runtime, faults)
    return LabStatus(name, state.runtime, state.phase, state.spec, tuple(problems))


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
    silent = silent_agents(paths, state, {*spared, *filter(None, stopped)})
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
