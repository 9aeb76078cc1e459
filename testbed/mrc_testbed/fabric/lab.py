"""Labs: bringing one up, taking it down, asking about it, getting hold of it from a later command."""

import contextlib
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final

from mrc_testbed.errors import CleanupError, FabricError, Interrupted, UsageError
from mrc_testbed.fabric import preflight
from mrc_testbed.fabric.build import Build, ProgressCallback
from mrc_testbed.fabric.known_labs import claimed, is_claimed_elsewhere, no_such_lab, require_own, write_claim
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.lock import exclusive, is_held
from mrc_testbed.fabric.paths import DEFAULT_LAB, LabPaths, lab_paths
from mrc_testbed.fabric.plan import BuildLedger, build_plan
from mrc_testbed.fabric.process import ProcessIdentity, is_alive, remove_dead_owners
from mrc_testbed.fabric.removal import observe_remains, remove
from mrc_testbed.fabric.repair import NO_FAULTS, Repair, UnderFaults, repair, restart_agents
from mrc_testbed.fabric.runtime import Runtime
from mrc_testbed.fabric.runtime_choice import RuntimeChoice, choose_runtime, known_runtime, parse_runtime
from mrc_testbed.fabric.state import LabState, Phase, ProcessRecord, RuntimeName, read_state, write_state
from mrc_testbed.fabric.status import LabStatus, status
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

__all__ = ["attach", "down", "restart", "status", "up"]


def up(
    spec: TopologySpec,
    *,
    name: str = DEFAULT_LAB,
    runtime: str | None = None,
    reconfigure: bool = False,
    faults: UnderFaults = NO_FAULTS,
    made_for: ProcessIdentity | None = None,
    progress: ProgressCallback = lambda _: None,
) -> LabStatus:
    """Brings a lab up, or finds it up as asked for and only gets back what works no more.

    If anything fails, or the user interrupts, everything made is removed again before this returns.

    Args:
        runtime: "docker", "netns", or None: docker where it is ready to be used, else netns.
        reconfigure: replace a lab that is up with another spec or runtime.
        faults: what they want of a lab that is up.
        made_for: the run that removes the lab at its end; None: it stays until `down`.

    Raises:
        UsageError: a lab of that name is up with another spec and *reconfigure* is false: the difference is
            shown; there is no such runtime; or the lab is of another state folder.
        PreflightError: the machine lacks something.
        FabricError: something failed; it is rolled back.
        CleanupError: something failed, and the roll-back too.
        Interrupted: by SIGINT; it is rolled back.
    """
    paths = lab_paths(name)
    wanted = None if runtime is None else parse_runtime(runtime)
    preflight.require(preflight.machine_checks())
    with claimed(name, "up") as claim, exclusive(paths.lock_file, "up"):
        try:
            write_claim(name, claim)
            state = read_state(paths)
            if state and state.phase is Phase.UP:
                difference = _difference(state, spec, wanted)
                if not difference:
                    state = _made_for(paths, state, made_for)
                    repair(paths, state, known_runtime(paths, state), faults)
                    return status(name, faults)
                if not reconfigure:
                    raise UsageError(
                        f"lab {name!r} is up with another configuration:\n" + "\n".join(difference),
                        hint="add --reconfigure to replace it, or choose another name with -n",
                    )
                wanted = wanted or state.runtime
            clos = resolve_topology(spec)
            choice = choose_runtime(paths, wanted)
            has_containers = choice.runtime.name is RuntimeName.DOCKER
            preflight.require(preflight.lab_checks(clos, has_containers=has_containers))
            if state:
                remove(paths, known_runtime(paths, state), keep_lock=True)
            return _build(paths, clos, choice, made_for, progress)
        finally:
            # The folder came with the lock; it goes if the lab did not come to exist
            if paths.folder.is_dir() and list(paths.folder.iterdir()) == [paths.lock_file]:
                paths.lock_file.unlink()
                paths.folder.rmdir()


def down(name: str = DEFAULT_LAB, *, everywhere: bool = False) -> bool:
    """Removes a lab in whatever state it is, also without its folder.

    Args:
        everywhere: also a lab that another state folder claims, or none.

    Returns:
        Whether there was anything to remove.

    Raises:
        UsageError: the lab is not of this state folder, and *everywhere* is false.
        FabricError: another command is changing the lab.
        CleanupError: something could not be removed.
    """
    with claimed(name, "down", everywhere=everywhere) as claim:
        paths = LabPaths(claim.root, name)
        had_folder = paths.folder.is_dir()
        with exclusive(paths.lock_file, "down"):
            try:
                state = read_state(paths)
            except FabricError:
                state = None
            runtime = known_runtime(paths, state)
            remains = observe_remains(paths, runtime, claim.folder)
            if state:
                with contextlib.suppress(OSError):  # on a full disk the lab must come down all the same
                    write_state(paths, state.model_copy(update={"phase": Phase.REMOVING}))
            remove(paths, runtime, claim.folder)
    remove_dead_owners()
    return had_folder or bool(remains)


def attach(name: str = DEFAULT_LAB) -> Lab:
    """The live lab of that name.

    Raises:
        UsageError: no such lab; the names of those that exist are given.
        FabricError: it is not up, or its state is damaged.
        PreflightError: BPF programs read another clock than this process.
    """
    preflight.require([preflight.clock_check()])
    paths = lab_paths(name)
    return Lab(paths, _state_when_up(paths))


def restart(name: str = DEFAULT_LAB, hosts: Sequence[str] = (), *, faults: UnderFaults = NO_FAULTS) -> Repair:
    """Restart the agents of *hosts*, or, without any, repair all that works no more; returns what was done.

    Args:
        faults: what is left alone, but for hosts named.

    Raises:
        UsageError: no such lab, or no such host.
        FabricError: the lab is not up, or an agent does not start.
    """
    paths = lab_paths(name)
    _state_when_up(paths)
    with exclusive(paths.lock_file, "restart"):
        state = _state_when_up(paths)
        runtime = known_runtime(paths, state)
        if not hosts:
            return repair(paths, state, runtime, faults)
        restart_agents(paths, state, runtime, hosts)
    return Repair(restarted=tuple(dict.fromkeys(hosts)))


def _state_when_up(paths: LabPaths) -> LabState:
    name = paths.lab
    state = read_state(paths)
    if state is None or is_claimed_elsewhere(name):
        require_own(name)
        raise no_such_lab(name)
    if state.phase is not Phase.UP:
        hint = "wait for the command that works on it"
        if not is_held(paths.lock_file):
            hint = f"the command that worked on it is gone: mrc-testbed up -n {name} rebuilds it"
        raise FabricError(f"lab {name!r} is not up, but {state.phase.value}", hint=hint)
    return state


def _build(
    paths: LabPaths,
    clos: Clos,
    choice: RuntimeChoice,
    made_for: ProcessIdentity | None,
    progress: ProgressCallback,
) -> LabStatus:
    runtime = choice.runtime
    remains = observe_remains(paths, runtime)
    if remains:
        raise FabricError(
            f"there are remains of an earlier lab {paths.lab!r}: {remains.describe()}",
            hint=f"remove them: mrc-testbed down -n {paths.lab}",
        )
    state = LabState(
        name=paths.lab,
        runtime=runtime.name,
        phase=Phase.BUILDING,
        version=version("mrc-testbed"),
        spec=clos.spec,
        made_for=None if made_for is None else ProcessRecord.of(None, made_for),
    )
    write_state(paths, state)
    with BuildLedger(paths.ledger_file) as ledger:
        build = Build(paths, clos, runtime, ledger, progress)
        try:
            for step in build_plan(clos):
                build.perform(step)
            build.prove()
            state = state.model_copy(
                update={
                    "phase": Phase.UP,
                    "containers": build.containers,
                    "processes": tuple(build.processes),
                }
            )
            write_state(paths, state)
        except BaseException as error:
            build.close()
            _roll_back(paths, runtime, error)
            if isinstance(error, KeyboardInterrupt):
                raise Interrupted(f"interrupted; lab {paths.lab!r} is rolled back") from error
            raise
        build.close()
    return LabStatus(paths.lab, state.runtime, state.phase, state.spec, (), choice.note)


def _made_for(paths: LabPaths, state: LabState, made_for: ProcessIdentity | None) -> LabState:
    """The state of a lab that a run which is gone has left, now that it is for somebody else."""
    if state.made_for is None or is_alive(state.made_for.identity):
        return state
    state = state.model_copy(update={"made_for": made_for and ProcessRecord.of(None, made_for)})
    write_state(paths, state)
    return state


def _roll_back(paths: LabPaths, runtime: Runtime, cause: BaseException) -> None:
    try:
        remove(paths, runtime)
    except CleanupError as failure:
        raise CleanupError(
            f"{cause}\nand the roll-back failed: {failure.message}", hint=failure.hint
        ) from cause


_ABSENT: Final = "not given"


def _difference(state: LabState, spec: TopologySpec, runtime: RuntimeName | None) -> list[str]:
    """Differences between *spec* and *runtime* and the lab, as lines `key: is -> wanted`."""
    lines = []
    if runtime is not None and runtime != state.runtime:
        lines.append(f"  runtime: {state.runtime.value} -> {runtime.value}")
    current, wanted = _flat(state.spec.model_dump(mode="json")), _flat(spec.model_dump(mode="json"))
    for key in dict.fromkeys((*current, *wanted)):
        before, after = current.get(key, _ABSENT), wanted.get(key, _ABSENT)
        if before != after:
            lines.append(f"  {key}: {before} -> {after}")
    return lines


def _flat(tree: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    flat = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = _ABSENT if value is None else str(value)
    return flat
