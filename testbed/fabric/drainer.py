"""The queue drainer of a shaped lab: the one process that moves frames out of its queues."""

from typing import Final

from testbed.fabric.data_plane import OBJECTS_DIR
from testbed.fabric.process import start_detached
from testbed.fabric.state import LabPaths, ProcessRecord

DRAINER: Final = OBJECTS_DIR / "drainer"


def start_drainer(paths: LabPaths) -> ProcessRecord:
    """Starts the drainer on the lab's pins. It needs no network namespace: its device map spans them all.

    Raises:
        FabricError: it cannot be run.
    """
    command = [str(DRAINER), "--pins", str(paths.fabric_pins)]
    process = start_detached(paths.lab, command, paths.drainer_log)
    return ProcessRecord(node=None, pid=process.pid, start_ticks=process.start_ticks)
