"""The requirements of the observability stack: Prometheus, and Grafana's image where Docker answers."""

import os

from mrc_testbed.errors import PreflightError
from mrc_testbed.hostprep.playbook import PlaybookReport, Progress, log_of, run_playbook
from mrc_testbed.installation import as_root, shipped


def prepare_observability(
    grafana_image: str, *, check: bool = False, progress: Progress | None = None
) -> PlaybookReport:
    """Install what `observe up` starts; changes nothing on a ready machine.

    Args:
        grafana_image: pulled where a Docker Engine answers; where no registry has it, that is no failure.
        check: change nothing, only report what would change.
        progress: called with the name of each step.
    """
    if os.geteuid() != 0:
        raise PreflightError(
            "preparing the machine needs root: it installs packages",
            hint=f"run it as root: {as_root('setup host --with-observability')}",
        )
    return run_playbook(
        shipped("playbooks/observability.yaml"),
        {"grafana_image": grafana_image},
        log=log_of("observability"),
        check=check,
        progress=progress,
    )
