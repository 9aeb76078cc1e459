"""The queue drainers of a shaped lab: the processes that move frames out of its queues."""

from typing import Final

from mrc_agents.objects import OBJECTS_DIR
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.process import start_detached
from mrc_testbed.fabric.state import ProcessRecord

DRAINER: Final = OBJECTS_DIR / "drainer"


def start_drainer(paths: LabPaths, index: int) -> ProcessRecord:
    """Starts drainer number *index* on the lab's pins. Its device map spans all network namespaces."""
    command = [str(DRAINER), "--pins", str(paths.fabric_pins), "--index", str(index)]
    process = start_detached(paths.lab, command, paths.drainer_log)
    return ProcessRecord.of(None, process)
