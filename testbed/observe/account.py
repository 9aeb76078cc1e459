"""The account that Prometheus and Grafana run under: not root, for nothing they do needs it."""

import os
import pwd
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NOBODY: Final = "nobody"
_OTHERS_ENTER: Final = stat.S_IXOTH
_ROOT_UID: Final = 0


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine."""

    # uid, gid: its numbers
    uid: int
    gid: int

    def command_prefix(self) -> Sequence[str]:
        """The command prefix that runs a command as this user, without capabilities or a way back."""
        if self.uid == _ROOT_UID:
            return ()
        identity = (f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups")
        return ("/usr/bin/setpriv", *identity, "--inh-caps=-all", "--no-new-privs")

    def own(self, folder: Path) -> None:
        """Change the owner of a folder and all its content to this user."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def service_account(names: Iterable[str], folders: Iterable[Path]) -> Account:
    """The first of *names* that is a user here, else nobody; root if those could not enter the *folders*."""
    if not all(_others_enter(folder) for folder in folders):
        return Account(_ROOT_UID, _ROOT_UID)
    for name in (*names, _NOBODY):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    return Account(_ROOT_UID, _ROOT_UID)


def _others_enter(folder: Path) -> bool:
    """Return True if users without rights of their own can enter every folder above *folder*."""
    return all(parent.stat().st_mode & _OTHERS_ENTER for parent in folder.resolve().parents)
