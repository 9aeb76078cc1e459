"""Which run uses a lab: announced by the runner, shown by the exporter as mrc_testbed_run_info.

The announcement is a file of the lab's state folder on which the runner holds a lock. The kernel gives the
lock up when the runner dies, however it dies, so a dead run is never shown.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from mrc_testbed.fabric.state_file import create_private

_FILE_NAME: Final = "run.json"


@dataclass(frozen=True, slots=True)
class RunInfo:
    scenario: str  # name of the scenario
    run: str  # id of the run, the name of its result folder
    seed: int  # its seed
    # fault id -> planned time from its first beginning to its last end; of those that act several times
    fault_spans_ns: Mapping[str, int] = field(default_factory=dict)
    begun_ns: int = 0  # CLOCK_MONOTONIC when it was announced


@contextmanager
def announce_run(state_dir: Path, run: RunInfo) -> Iterator[None]:
    """Shows *run* as the one that uses the lab, inside the context; a second run of the lab replaces it."""
    path = state_dir / _FILE_NAME
    draft = state_dir / f"{_FILE_NAME}.{os.getpid()}"
    with create_private(draft) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        json.dump(asdict(run), stream)
        stream.flush()
        draft.replace(path)
        try:
            yield
        finally:
            with suppress(FileNotFoundError):  # the lab is gone
                if os.path.samestat(path.stat(), os.fstat(stream.fileno())):  # no other run has replaced it
                    path.unlink()


def read_run(state_dir: Path) -> RunInfo | None:
    """The run that uses the lab now; None when there is none."""
    try:
        with (state_dir / _FILE_NAME).open(encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return RunInfo(**json.load(stream))
            return None  # nobody holds it: the run is over
    except (FileNotFoundError, NotADirectoryError):
        return None
