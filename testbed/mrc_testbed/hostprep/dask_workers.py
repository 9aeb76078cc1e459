"""Dask workers of mrc-testbed on the machines of an Ansible inventory."""

import hashlib
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from mrc_testbed.errors import PreflightError, UsageError
from mrc_testbed.hostprep.playbook import PlaybookReport, Progress, log_of, run_playbook
from mrc_testbed.installation import shipped

_REASON: Final = re.compile(r"Failed to parse inventory with '(\w+)' plugin: (.+)")


def install_workers(
    inventory: Path, scheduler: str, wheel: Path, *, check: bool, progress: Progress | None
) -> PlaybookReport:
    """Install mrc-testbed on each machine, and start a worker there; changes nothing on one that is ready.

    Args:
        scheduler: address, such as tcp://head:8786.
    """
    own = version("mrc-testbed")
    if not (wheel.name.startswith(f"mrc_testbed-{own}-") and wheel.suffix == ".whl"):
        raise UsageError(
            f"--wheel {wheel}: not the name of a wheel of this version, mrc_testbed-{own}-....whl"
        )
    try:
        content = wheel.read_bytes()
    except OSError as error:
        raise UsageError(f"--wheel {wheel}: {error.strerror}") from error
    variables = {
        "remove": False,
        "scheduler": scheduler,
        "wheel": str(wheel.absolute()),
        "wheel_hash": hashlib.sha256(content).hexdigest(),
    }
    return _run(inventory, variables, check=check, progress=progress)


def remove_workers(inventory: Path, *, check: bool, progress: Progress | None) -> PlaybookReport:
    """Stop the worker of each machine, and remove what `install_workers` has put there."""
    return _run(inventory, {"remove": True}, check=check, progress=progress)


def _run(
    inventory: Path, variables: dict[str, object], *, check: bool, progress: Progress | None
) -> PlaybookReport:
    _expect_hosts(inventory)
    return run_playbook(
        shipped("playbooks/workers.yaml"),
        variables,
        log=log_of("workers"),
        check=check,
        progress=progress,
        inventory=inventory,
    )


def _expect_hosts(inventory: Path) -> None:
    """Check an inventory as Ansible reads it, which passes over what it does not understand."""
    if not inventory.exists():
        raise UsageError(f"--inventory {inventory}: No such file or directory")
    program = Path(sys.executable).with_name("ansible-inventory")
    try:
        done = subprocess.run(
            [program, "--list", "--inventory", inventory.absolute()],
            env=os.environ
            | {
                "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "1",
                "ANSIBLE_NOCOLOR": "1",
                "LC_ALL": "C.UTF-8",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise PreflightError(
            f"{program} is missing; it comes with mrc-testbed[lab]",
            hint="install mrc-testbed[lab] in place of mrc-testbed",
        ) from error
    if done.returncode != 0:
        reasons = dict(_REASON.findall(done.stderr))
        wanted = "ini" if inventory.suffix in ("", ".ini", ".cfg") else "yaml"
        reason = reasons.get(wanted) or done.stderr.strip().rpartition("\n")[2]
        raise UsageError(f"--inventory {inventory}: {reason}")
    groups = json.loads(done.stdout)
    if not any(group.get("hosts") for group in groups.values()):
        raise UsageError(f"--inventory {inventory}: names no host")
