"""The status of a lab: its record, and the problems found."""

from dataclasses import dataclass

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.health import find_problems
from mrc_testbed.fabric.known_labs import is_claimed_elsewhere, no_such_lab, require_own
from mrc_testbed.fabric.lock import is_held
from mrc_testbed.fabric.paths import DEFAULT_LAB, lab_paths
from mrc_testbed.fabric.process import is_alive
from mrc_testbed.fabric.removal import observe_remains
from mrc_testbed.fabric.repair import NO_FAULTS, UnderFaults
from mrc_testbed.fabric.runtime_choice import known_runtime
from mrc_testbed.fabric.state import Phase, RuntimeName, read_state
from mrc_testbed.topology.spec import TopologySpec


@dataclass(frozen=True, slots=True)
class LabStatus:
    """The status of a lab."""

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
