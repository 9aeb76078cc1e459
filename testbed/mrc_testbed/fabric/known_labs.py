"""Which labs there are: of this state folder, of another one, or remains that no state folder claims.

/run/mrc-testbed.labs/<lab>/claim.json  Claim; there before the lab's first namespace, and gone after its last
/run/mrc-testbed.labs/<lab>/lock        held by the command that makes or removes the lab
"""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.fabric.file_systems import labs_with_pins
from mrc_testbed.fabric.lock import exclusive
from mrc_testbed.fabric.ownership import labs_with_namespaces
from mrc_testbed.fabric.paths import (
    DEFAULT_LAB,
    STATE_DIR_VARIABLE,
    LabPaths,
    folder_id,
    lab_folders,
    lab_paths,
    state_root,
)
from mrc_testbed.fabric.process import ANY_FOLDER, is_alive
from mrc_testbed.fabric.runtime_choice import engine_labs
from mrc_testbed.fabric.state import LabState, Phase, read_state
from mrc_testbed.fabric.state_file import PRIVATE_FOLDER, read_record, write_record

_CLAIMS: Final = Path("/run/mrc-testbed.labs")


class Claim(BaseModel):
    """The state folder that a lab belongs to."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    root: Path  # path of the folder, as its commands name it
    folder: str  # its `folder_id`

    @classmethod
    def own(cls) -> "Claim":
        """A claim of this state folder, which exists."""
        return cls(root=state_root(), folder=folder_id(state_root()))

    @property
    def is_own(self) -> bool:
        """Return True if it is a claim of this state folder, by whatever path."""
        return self.folder == folder_id(state_root())

    @property
    def is_reachable(self) -> bool:
        """Return True if its state folder is there: not deleted, and not in another mount namespace."""
        return self.folder == folder_id(self.root)


def claim_lock(lab: str) -> Path:
    """The lock of whoever makes or removes a lab of that name."""
    return _CLAIMS / lab / "lock"


def read_claim(lab: str) -> Claim | None:
    """The claim of a lab; None if there is none that can be read."""
    try:
        return read_record(_file(lab), Claim, what="the claim of a lab", remedy="")
    except FabricError:
        return None


def write_claim(lab: str, claim: Claim) -> None:
    """Claim a lab; the caller holds its lock."""
    write_record(_file(lab), claim)


def remove_claim(lab: str) -> None:
    """Remove the claim, then the lock, which the caller holds."""
    folder = claim_lock(lab).parent
    for file in folder.glob("claim.json*"):
        file.unlink()
    claim_lock(lab).unlink()
    with contextlib.suppress(OSError):  # the next command has made a lock of its own already
        folder.rmdir()


def claimed_labs() -> frozenset[str]:
    """Labs of this machine that a state folder claims."""
    return frozenset(file.parent.name for file in _CLAIMS.glob("*/claim.json"))


def _file(lab: str) -> Path:
    return _CLAIMS / lab / "claim.json"


class ForeignLab(NamedTuple):
    """A lab that is not of this state folder."""

    name: str  # of the lab
    claim: Claim | None  # of its state folder; None: nothing says whose it is

    @property
    def root(self) -> str | None:
        """Path of its state folder."""
        return str(self.claim.root) if self.claim else None

    def describe(self) -> str:
        """Say whose it is, in a sentence without its name."""
        if self.claim is None:
            return "belongs to no known state folder: it was deleted, or version 0.3 made the lab elsewhere"
        if self.claim.is_reachable:
            return f"belongs to another state folder, {self.claim.root}"
        return f"belongs to another state folder, {self.claim.root}, which is deleted or in another namespace"

    @property
    def remedy(self) -> str:
        """The way to work on it or remove it."""
        if self.claim is None or not self.claim.is_reachable:
            return f"if nobody needs it: mrc-testbed down -n {self.name} --everywhere"
        return f"work on it with {STATE_DIR_VARIABLE}={self.claim.root}, or choose another name with -n"


def names() -> tuple[str, ...]:
    """Labs of this state folder, sorted, whatever is left of them."""
    return tuple(name for name, foreign in _all_labs().items() if foreign is None)


def foreign_labs() -> tuple[ForeignLab, ...]:
    """Labs of this machine that are not of this state folder, sorted."""
    return tuple(foreign for foreign in _all_labs().values() if foreign is not None)


def orphans() -> tuple[str, ...]:
    """Labs of this state folder that were made for a run which is gone without having removed them."""
    own = (name for name in lab_folders() if not is_claimed_elsewhere(name))
    return tuple(name for name in own if _is_orphan(_readable_state(name)))


def is_in_use(name: str) -> bool:
    """Return True if a lab of this state folder is up, for its user or for a run that goes on."""
    state = _readable_state(name)
    if state is None or is_claimed_elsewhere(name):
        return False
    return state.phase is Phase.UP and not _is_orphan(state)


def is_claimed_elsewhere(name: str) -> bool:
    """Return True if another state folder claims the lab."""
    claim = read_claim(name)
    return claim is not None and not claim.is_own


def require_own(name: str) -> None:
    """Return if the lab is of this state folder, or does not exist."""
    foreign = _all_labs().get(name)
    if foreign is not None:
        raise UsageError(f"lab {name!r} {foreign.describe()}", hint=foreign.remedy)


@contextmanager
def claimed(name: str, what: str, *, everywhere: bool = False) -> Iterator[Claim]:
    """Hold a lab while it is made or removed; afterwards its claim goes if its folder is gone.

    Args:
        what: "up" or "down", for others who try.
        everywhere: hold it whosever it is.

    Yields:
        The claim of this state folder, which is yet to be written, or that of the lab's; its root exists.
    """
    own = lab_paths(name)
    if not everywhere:
        require_own(name)  # before the lock, which its owner may hold
    with exclusive(claim_lock(name), what):
        own.root.mkdir(PRIVATE_FOLDER, parents=True, exist_ok=True)
        claim = Claim.own()
        if everywhere and (foreign := _all_labs().get(name)):
            claim = foreign.claim or Claim(root=own.root, folder=ANY_FOLDER)
            if not claim.is_reachable:
                claim = Claim(root=own.root, folder=claim.folder)
        else:
            require_own(name)
        try:
            yield claim
        finally:
            if not LabPaths(claim.root, name).folder.is_dir():
                remove_claim(name)


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


def _all_labs() -> dict[str, ForeignLab | None]:
    """Labs of this machine, sorted; None for those of this state folder.

    A lab without a claim is this folder's if its folder or its pins are here: version 0.3 made it. A lab that
    another folder claims exists as long as its folder does, or a node of it.
    """
    here = labs_with_pins(lab_paths(DEFAULT_LAB).bpffs).union(lab_folders())
    left = labs_with_namespaces() | engine_labs()
    found: dict[str, ForeignLab | None] = {}
    for name in sorted(here | left | claimed_labs()):
        claim = read_claim(name)
        if claim is None and name not in here:
            found[name] = ForeignLab(name, None)
        elif claim is None or claim.is_own:
            if name in here or name in left:  # else a killed `down` has left the claim alone
                found[name] = None
        elif name in left or (claim.is_reachable and LabPaths(claim.root, name).folder.is_dir()):
            found[name] = ForeignLab(name, claim)
        elif name in here:
            found[name] = None
    return found
