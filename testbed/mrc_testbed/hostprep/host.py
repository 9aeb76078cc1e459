"""Packages of the machine: those that labs run on, with the BPF file system, and those of `observe up`."""

import os

from mrc_agents.objects import IS_CLONE
from mrc_testbed.errors import PreflightError
from mrc_testbed.hostprep.playbook import PlaybookReport, Progress, log_of, run_playbook
from mrc_testbed.installation import as_root, shipped


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
