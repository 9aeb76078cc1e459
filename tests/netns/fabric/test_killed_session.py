"""A session of tests that is killed leaves no process, and no lab."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from lab_leftovers import observe_leftovers
from waiting import poll_until

from tests.sessions import MARK, processes_of

TESTS = Path(__file__).parents[2]
NAME = "killed"
SESSION = f"""\
import os, pathlib, signal, subprocess
from lab_leftovers import SMALL
from own_lab import lab_up

def test_waits():
    subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL)
    if os.fork():
        with lab_up(SMALL, "{NAME}"):
            state = pathlib.Path(os.environ["MRC_TESTBED_STATE_DIR"])
            pathlib.Path("up").write_text(str(state))
            signal.pause()
    signal.pause()
"""


@pytest.mark.parametrize("has_guard", [True, False], ids=["guarded", "next session"])
def test_it_ends_whole(tmp_path: Path, has_guard: bool) -> None:
    (tmp_path / "test_it.py").write_text(SESSION)
    command = [
        sys.executable,
        *f"-m pytest -p tests.sessions --timeout=200 -c {os.devnull} test_it.py".split(),
    ]
    path = os.pathsep.join(map(str, (TESTS.parent, TESTS, Path(__file__).parent)))
    environment = {**os.environ, "PYTHONPATH": path}
    del environment[MARK]
    session = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)
    up = tmp_path / "up"
    folder = (state := Path(poll_until(lambda: up.read_text() if up.exists() else ""))).parent
    assert len(processes_of(folder)) > 2  # those of the test, and agents
    if not has_guard:
        [guard] = [each for each in psutil.Process(session.pid).children() if str(folder) in each.cmdline()]
        guard.kill()
    session.kill()
    session.wait()
    if not has_guard:
        subprocess.run([*command, "--collect-only"], cwd=tmp_path, env=environment, check=True)
    poll_until(lambda: not observe_leftovers([NAME], state), what="no lab")
    assert not processes_of(folder)
