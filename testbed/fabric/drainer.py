"""The queue drainer of a shaped lab: the one process that moves frames out of its queues."""

import subprocess
from typing import Final

from testbed.errors import FabricError, PreflightError
from testbed.fabric.data_plane import OBJECTS_DIR
from testbed.fabric.process import marked_environment, observe_process
from testbed.fabric.state import LabPaths, ProcessRecord

DRAINER: Final = OBJECTS_DIR / "drainer"


def start_drainer(paths: LabPaths) -> ProcessRecord:
    """Starts the drainer on the lab's pins. It needs no network namespace: its device map spans them all.

    Raises:
        PreflightError: it is not built.
        FabricError: it ended at once.
    """
    with paths.drainer_log.open("ab") as log:
        try:
            process = subprocess.Popen(
                [str(DRAINER), "--pins", str(paths.fabric_pins)],
                env=marked_environment(paths.lab),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise PreflightError(
                f"{DRAINER} cannot be run: {error.strerror}", hint="build it: make setup"
            ) from error
    identity = observe_process(process.pid)
    if identity is None:
        raise FabricError(
            f"the queue drainer ended at once, status {process.wait()}", hint=f"see {paths.drainer_log}"
        )
    return ProcessRecord(node=None, pid=identity.pid, start_ticks=identity.start_ticks)
