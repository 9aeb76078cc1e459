"""Which labs there are: of this state folder, of another one, or left by nobody that is known."""

import contextlib
from pathlib import Path

from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.fabric.bpf_file_system import labs_with_pins
from mrc_testbed.fabric.ownership import labs_with_namespaces
from mrc_testbed.fabric.paths import DEFAULT_LAB, LabPaths, lab_folders, lab_paths
from mrc_testbed.fabric.process import is_alive, owner_root
from mrc_testbed.fabric.root import STATE_DIR_VARIABLE, state_root
from mrc_testbed.fabric.runtime_choice import engine_labs
from mrc_testbed.fabric.state import LabState, Phase, read_state


def names() -> tuple[str, ...]:
    """Labs of this state folder, sorted, and those of which something is left that no state folder knows."""
    return tuple(name for name, elsewhere in _all_labs().items() if elsewhere is None)


def labs_elsewhere() -> dict[str, Path]:
    """Labs of this machine that another state folder knows, with that folder."""
    return {name: paths.root for name, paths in _all_labs().items() if paths is not None}


def orphans() -> tuple[str, ...]:
    """Labs of this state folder that were made for a run which is gone without having removed them."""
    return tuple(name for name in lab_folders() if _is_orphan(_readable_state(name)))


def is_in_use(name: str) -> bool:
    """Return True if a lab of this state folder is up, for its user or for a run that goes on."""
    state = _readable_state(name)
    return state is not None and state.phase is Phase.UP and not _is_orphan(state)


def owner_elsewhere(name: str) -> LabPaths | None:
    """Where a lab is that another state folder knows; None when there is no such folder."""
    root = owner_root(name)
    if root is None or root == state_root():
        return None
    paths = LabPaths(root, name)
    return paths if paths.folder.is_dir() else None


def require_own(name: str) -> None:
    """Returns unless another state folder knows the lab.

    Raises:
        UsageError: it does; names it.
    """
    elsewhere = owner_elsewhere(name)
    if elsewhere is not None:
        raise UsageError(
            f"lab {name!r} belongs to another state folder, {elsewhere.root}",
            hint=f"work on it with {STATE_DIR_VARIABLE}={elsewhere.root}, or choose another name with -n",
        )


def no_such_lab(name: str) -> UsageError:
    """The error of a command for a lab that does not exist; names those that do."""
    known = ", ".join(lab_folders())
    return UsageError(
        f"there is no lab {name!r}" + (f"; there are: {known}" if known else ""),
        hint="bring it up: mrc-testbed up" + ("" if name == DEFAULT_LAB else f" -n {name}"),
    )


def _is_orphan(state: LabState | None) -> bool:
    return state is not None and state.made_for is not None and not is_alive(state.made_for.identity)


def _readable_state(name: str) -> LabState | None:
    with contextlib.suppress(FabricError):
        return read_state(lab_paths(name))
    return None


def _all_labs() -> dict[str, LabPaths | None]:
    """Labs of this machine, sorted; where they are if another state folder knows them."""
    own = lab_folders()
    left = labs_with_namespaces() | labs_with_pins(lab_paths(DEFAULT_LAB).bpffs) | engine_labs()
    return {name: None if name in own else owner_elsewhere(name) for name in sorted(left.union(own))}
