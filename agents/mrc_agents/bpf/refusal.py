"""Why a kernel does not load a BPF object, and what to do about it."""

import errno
import os
from typing import Final

from mrc_agents.errors import PreflightError
from mrc_agents.objects import IS_CLONE

_SHOWN_LINES: Final = 30

_OTHER_OBJECT: Final = "compile with the distribution's clang (make clean setup), or " if IS_CLONE else ""
_OF_THE_VERIFIER: Final = (
    f"this kernel's verifier does not follow the program: {_OTHER_OBJECT}boot a kernel that "
    "docs/reference/kernels.md names; else report it, with the log"
)
_OF_THE_KERNEL: Final = "the kernel lacks something of BPF: boot a distribution's kernel of 6.1 or newer"
_HINTS: Final = {
    errno.EPERM: "run it as root, or with CAP_BPF and CAP_NET_ADMIN; if it was, the kernel forbids BPF: "
    "cat /sys/kernel/security/lockdown",
    errno.E2BIG: "the program is more than this kernel's verifier looks at: boot a kernel that "
    "docs/reference/kernels.md names, and report it, with the log",
    errno.ENOMEM: "free memory, raise the container's memory limit, or make the lab or nic.memory smaller",
    errno.EMFILE: "raise the limit of open files: ulimit -n 4096",
}


class ObjectRefusedError(PreflightError):
    """The kernel refused a BPF object.

    Args:
        log: what the verifier said; empty if the kernel did not come so far.
    """

    def __init__(self, name: str, number: int, log: str) -> None:
        # the first line of the message, which goes on with the end of the log
        self.reason = f"the kernel refused {name}: {os.strerror(number)} (errno {number})"
        self.log = log  # as given
        tail = "\n".join(log.splitlines()[-_SHOWN_LINES:])
        hint = _HINTS.get(number, _OF_THE_VERIFIER if log else _OF_THE_KERNEL)
        super().__init__(f"{self.reason}\n{tail}".rstrip(), hint=hint)
