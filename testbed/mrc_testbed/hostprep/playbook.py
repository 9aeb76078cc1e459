"""Runs one playbook on this machine or those of an inventory, and says what it changed.

Ansible's own output goes to a log; the caller gets the names of the tasks.
"""

import ctypes
import hashlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import psutil

from mrc_agents.objects import IS_CLONE
from mrc_testbed.errors import Interrupted, PreflightError, TestbedError, UsageError
from mrc_testbed.extras import from_extra
from mrc_testbed.installation import as_root, shipped, state_home

_PR_SET_CHILD_SUBREAPER: Final = 36
_GRACE_S: Final = 10.0
"""Time between asking a process to end and ending it."""

_SYSTEM_PYTHON: Final = "/usr/bin/python3"
"""Runs Ansible's modules, unless an inventory names another: apt needs the one with python3-apt."""

_THIS_MACHINE: Final = {"all": {"hosts": {"localhost": {"ansible_connection": "local"}}}}
_DEADLINE_S: Final = 1200
"""Longest run of a playbook: all packages over a slow line."""
_CANCEL_S: Final = 1
"""Longest time from Ctrl-C to the end of a playbook that prints nothing."""

Progress = Callable[[str], None]
"""Called with one line of text for each step that begins."""

_REASON: Final = re.compile(r"Failed to parse inventory with '(\w+)' plugin: (.+)")


@contextmanager
def no_orphans() -> Iterator[Callable[[], None]]:
    """End the processes that the block has started, and their descendants, when it is left.

    Yields:
        a function that lets them live: a playbook that has come to its end may have started a daemon.
    """
    _set_subreaper(active=True)
    before = _children()
    is_cancelled = True

    def release() -> None:
        nonlocal is_cancelled
        is_cancelled = False

    try:
        yield release
    finally:
        while is_cancelled and (left := _children() - before):
            for pid in left:
                _end(pid)
        _set_subreaper(active=False)


def _set_subreaper(*, active: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, int(active), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def _children() -> set[int]:
    """Process ids whose parent is this process."""
    return {child.pid for child in psutil.Process().children()}


def _end(pid: int) -> None:
    """End child *pid* and its process group, politely first, and reap it."""
    group = os.getpgid(pid)
    descriptor = os.pidfd_open(pid)
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            if group == os.getpgrp():
                os.kill(pid, number)
            else:
                os.killpg(group, number)
            if select.select([descriptor], [], [], _GRACE_S)[0]:
                break
    finally:
        os.close(descriptor)
    os.waitpid(pid, 0)


@dataclass(frozen=True, slots=True)
class PlaybookReport:
    """The changes of a run, or with check those it would make."""

    # names of the tasks that changed something, in order; empty when all was as it should be. With an
    # inventory, host by host, each after the host's name and a colon.
    changes: tuple[str, ...]
    log: Path | None  # Ansible's own output; None when there was nothing to run


@dataclass(slots=True)
class _Listener:
    """Turns ansible-runner's events into progress, changes and failures."""

    progress: Progress | None
    names_hosts: bool
    hosts: dict[str, bool] = field(default_factory=dict)
    changes: list[tuple[str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __call__(self, event: Mapping[str, Any]) -> bool:
        """Take one event; False makes ansible-runner not keep it in a file."""
        details = event.get("event_data", {})
        task = str(details.get("task", ""))
        result = details.get("res", {})
        host = details.get("host")
        where = f"{host}: {task}" if self.names_hosts else task
        if host is not None:
            self.hosts.setdefault(host, True)
        match event["event"]:
            case "playbook_on_task_start" if self.progress is not None:
                self.progress(task)
            case "runner_on_ok" if result.get("changed"):
                self.changes.append((str(host), where))
            case "runner_on_failed" | "runner_on_unreachable" if not details.get("ignore_errors"):
                self.failures.append(f"{where}: {_reason(result)}")
                self.hosts[host] = False
        return False

    @property
    def outcome(self) -> str:
        """Every failure, and the hosts without one."""
        done = [host for host, is_done in self.hosts.items() if is_done]
        return "\n".join(
            [*self.failures, *([f"done: {', '.join(done)}"] if self.names_hosts and done else [])]
        )


def _reason(result: Mapping[str, Any]) -> str:
    """The sentence of a failed task's result, with the last lines of what its program wrote."""
    lines = [str(result.get("msg", "no message"))]
    for stream in ("stdout", "stderr", "module_stderr"):
        lines += str(result.get(stream) or "").strip().splitlines()[-5:]
    return "\n  ".join(lines)


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Give SIGINT and SIGTERM back: ansible-runner takes them, to cancel the run, and keeps them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # ansible-runner leaves the signals alone as well
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def log_of(name: str) -> Path:
    return state_home() / "setup" / f"{name}.log"


def run_playbook(
    playbook: Path,
    variables: Mapping[str, object],
    *,
    log: Path,
    check: bool,
    progress: Progress | None,
    inventory: Path | None = None,
) -> PlaybookReport:
    """The report of *playbook* run on this machine, or on those of an inventory.

    Args:
        log: file for Ansible's output, replaced.
        check: change nothing, only find out what would change.
        inventory: an Ansible inventory; None for this machine alone.
    """
    # A tenth of a second to import, which `up` need not wait for when it looks at the image.
    with from_extra("lab"):
        import ansible_runner  # noqa: PLC0415

    name = playbook.stem
    log.parent.mkdir(parents=True, exist_ok=True)
    listener = _Listener(progress, names_hosts=inventory is not None)
    with (
        tempfile.TemporaryDirectory(prefix="mrc-testbed-ansible-") as folder,
        _own_signal_handlers(),
        no_orphans() as release,
    ):
        run = ansible_runner.run(
            private_data_dir=folder,
            ident=name,
            playbook=str(playbook),
            inventory=_THIS_MACHINE if inventory is None else str(inventory.absolute()),
            extravars=dict(variables),
            envvars=_environment(Path(folder)),
            cmdline="--check" if check else None,
            event_handler=listener,
            quiet=True,
            timeout=_DEADLINE_S,
            settings={"pexpect_timeout": _CANCEL_S},
        )
        if run.status not in ("canceled", "timeout"):
            release()
        output = Path(folder) / "artifacts" / name / "stdout"
        if not output.exists():
            raise TestbedError("ansible-runner ended without output; the Python environment is damaged")
        shutil.copyfile(output, log)
    if run.status == "canceled":
        raise Interrupted(f"playbook {name} was cancelled; run it again to finish, it is idempotent")
    if run.status == "timeout":
        raise PreflightError(
            f"playbook {name} was not finished after {_DEADLINE_S} s; its output is in {log}",
            hint="find the task that hangs in the log; often a package mirror is out of reach",
        )
    if run.rc != 0:
        failures = listener.outcome or f"ansible-playbook ended with status {run.rc}"
        raise PreflightError(f"playbook {name} failed: {failures}\nAnsible's output is in {log}")
    changes = sorted(listener.changes, key=lambda change: change[0])
    return PlaybookReport(tuple(where for _, where in changes), log)


def _environment(folder: Path) -> dict[str, str]:
    """Environment of ansible-playbook, which is beside our interpreter and demands a UTF-8 locale."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible" / "local"),
        "ANSIBLE_REMOTE_TEMP": str(folder / "ansible" / "remote"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORKS": "20",
        "ANSIBLE_PYTHON_INTERPRETER": _SYSTEM_PYTHON,
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
    }


def prepare_host(
    *, check: bool = False, with_test_tools: bool = False, progress: Progress | None = None
) -> PlaybookReport:
    """Make this machine ready for labs; changes nothing on a ready one.

    Args:
        with_test_tools: also install what tests and benchmarks use: bpftool, Prometheus, tshark, Chromium,
            Mininet, and Docker where no Docker Engine is installed.
    """
    _require_root("installs packages and mounts the BPF file system", "setup host")
    variables = {
        "state_dir": os.environ.get("MRC_TESTBED_STATE_DIR", "/run/mrc-testbed"),
        "with_test_tools": with_test_tools,
        "is_clone": IS_CLONE,
    }
    playbook = shipped("playbooks/host.yaml")
    return run_playbook(playbook, variables, log=log_of("host"), check=check, progress=progress)


def prepare_observability(
    grafana_image: str, *, check: bool = False, progress: Progress | None = None
) -> PlaybookReport:
    """Install what `observe up` starts; changes nothing on a ready machine.

    Args:
        grafana_image: pulled where a Docker Engine answers; where no registry has it, that is no failure.
    """
    _require_root("installs packages", "setup host --with-observability")
    return run_playbook(
        shipped("playbooks/observability.yaml"),
        {"grafana_image": grafana_image},
        log=log_of("observability"),
        check=check,
        progress=progress,
    )


def _require_root(why: str, command: str) -> None:
    if os.geteuid() != 0:
        message = f"preparing the machine needs root: it {why}"
        raise PreflightError(message, hint=f"run it as root: {as_root(command)}")


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
