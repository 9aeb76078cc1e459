"""The machine's record of each lab: the state folder that claims it, and the lock of `up` and `down`.

/run/mrc-testbed.labs/<lab>/claim.json  Claim; there before the lab's first namespace, and gone after its last
/run/mrc-testbed.labs/<lab>/lock        held by the command that makes or removes the lab
"""

import contextlib
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.paths import folder_id, state_root
from mrc_testbed.fabric.state_file import read_record, write_record

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
