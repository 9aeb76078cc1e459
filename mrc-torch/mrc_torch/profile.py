"""Measure how long each module of a training script computes: `python -m mrc_torch.profile FILE SCRIPT ...`.

The script runs in this process alone, as one rank. FILE gets the median time of every stage of its steps,
without the first few; `mrc-testbed launch --virtual --compute FILE` lets each stage last that long.
"""

import argparse
import json
import os
import runpy
import socket
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Final

from mrc_torch import steps
from mrc_torch.stages import Stages

WARM_UP_STEPS: Final = 3


class Recorder:
    """Durations of stages, by name."""

    def __init__(self) -> None:
        self.durations_ns: dict[str, list[int]] = defaultdict(list)
        self._last_ns = time.monotonic_ns()

    def on_end(self, stage: str) -> None:
        now_ns = time.monotonic_ns()
        if steps.STEPS.count >= WARM_UP_STEPS:
            self.durations_ns[stage].append(now_ns - self._last_ns)
        self._last_ns = now_ns


def main() -> int:
    """Run the script, and write the profile of its steps."""
    options = argparse.ArgumentParser(prog="python -m mrc_torch.profile", description=__doc__)
    options.add_argument("file", type=Path, help="what is written")
    options.add_argument("script", help="the training script: its file, or its module")
    options.add_argument("arguments", nargs=argparse.REMAINDER, help="of the script")
    given = options.parse_args()
    with socket.socket() as attempt:
        attempt.bind(("127.0.0.1", 0))
        port = attempt.getsockname()[1]
    alone = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= alone | {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    recorder = Recorder()
    Stages(recorder.on_end)
    steps.watch(recorder.on_end)
    sys.path.insert(0, str(Path(given.script).parent))
    sys.argv = [given.script, *given.arguments]
    try:
        run = runpy.run_path if Path(given.script).is_file() else runpy.run_module
        run(given.script, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    if not recorder.durations_ns:
        sys.stderr.write(
            f"{given.script} has made {steps.STEPS.count} steps; {WARM_UP_STEPS + 1} are needed\n"
        )
        return 1
    stages_ns = {stage: round(median(found)) for stage, found in recorder.durations_ns.items()}
    given.file.write_text(json.dumps({"steps": steps.STEPS.count, "stage_ns": stages_ns}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
