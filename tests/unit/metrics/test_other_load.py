"""Other programs on the machine: who is counted, and how it is said."""

import os
import subprocess
import sys

import psutil
import pytest
from waiting import poll_until

from mrc_testbed.cli.report import OtherLoad, ProcessTimes

BUSY = "import os\nif os.fork():\n    os._exit(0)\nprint(os.getpid(), flush=True)\nwhile True: pass"


@pytest.fixture
def stranger():
    """Pid of a process that computes and is not a descendant of this one."""
    # its parent has gone: init, or whoever reaps here, is its parent now
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        yield psutil.Process(pid)
        psutil.Process(pid).kill()


def used_s(process):
    times = process.cpu_times()
    return times.user + times.system


def test_a_program_that_computes_is_named(stranger):
    before, at_first_s = ProcessTimes.now(), used_s(stranger)
    poll_until(lambda: used_s(stranger) > at_first_s + 0.2, what="CPU time of the stranger")
    found = ProcessTimes.now().load_since(before)
    assert found.programs[stranger.name()] > 0
    assert found.ratio >= found.programs[stranger.name()]


def test_processes_of_the_lab_are_spared(stranger):
    before, at_first_s = ProcessTimes.now(), used_s(stranger)
    poll_until(lambda: used_s(stranger) > at_first_s + 0.2, what="CPU time of the stranger")
    after = ProcessTimes.now()
    with_it, without = after.load_since(before), after.load_since(before, {stranger.pid})
    assert without.ratio < with_it.ratio


def test_this_process_and_its_children_are_spared():
    before = ProcessTimes.now()
    start = os.times()
    while os.times().user < start.user + 0.1:
        pass
    after = ProcessTimes.now()
    mine = [key for key in after._used_s if key[0] == os.getpid()]
    assert after._used_s[mine[0]][1] > before._used_s[mine[0]][1]
    only_me = ProcessTimes(after._time_ns, {mine[0]: after._used_s[mine[0]]})
    assert only_me.load_since(before).ratio == 0


def test_load_is_reported_with_its_greatest_programs():
    load = OtherLoad(0.62, {"qemu": 0.38, "cc1": 0.2, "bash": 0.04})
    assert load.is_busy
    assert str(load) == "other programs take 62% of the machine's CPUs (qemu 38%, cc1 20%)"
    assert not OtherLoad(0.01, {}).is_busy
