"""Signals and --timeout, in processes of their own."""

import os
import pty
import select
import signal
import subprocess
import sys

import pytest
from waiting import DEADLINE_S

from mrc_testbed.cli.interruption import CommandTimeoutError, deadline
from mrc_testbed.errors import TestbedError

SCRIPT = """
import select, signal, sys
from mrc_testbed.cli.exit_codes import run_to_exit_code
from mrc_testbed.cli.interruption import force_end, signals_interrupt
from mrc_testbed import signals
from mrc_testbed.scenario.run.signal_clock import catching_signals

if "soon" in sys.argv:
    signals.FORCE_AFTER_NS = 0

def wait():
    with signals.signals_wake() as woken:
        select.select([woken], [], [], 60)

def command():
    try:
        print("working", flush=True)
        wait()
    finally:
        print("cleaning up", flush=True)
        if "slow" in sys.argv:
            wait()
        print("clean", flush=True)

def with_own_handling():
    with catching_signals(force_end):
        signal.raise_signal(signal.SIGINT)
        command()

work = with_own_handling if "force" in sys.argv else command
with signals_interrupt():
    status = run_to_exit_code(work, [])
sys.exit(signals.exit_status() if status == 130 else status)
"""


@pytest.fixture
def start():
    processes = []

    def begin(*arguments, prefix=()):
        process = subprocess.Popen(
            [*prefix, sys.executable, "-c", SCRIPT, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "working\n"
        return process

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 130),
        (signal.SIGHUP, 129),
        (signal.SIGQUIT, 131),
        (signal.SIGXCPU, 152),
    ],
)
def test_the_first_signal_cleans_up(start, number, status):
    process = start()
    process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == status
    assert out == "cleaning up\nclean\n"
    assert "once more to force" in err


def test_sigint_counts_where_the_parent_ignores_it(start):
    """As under nohup, cron, and `&` in a script."""
    process = start(prefix=("sh", "-c", "trap '' INT; exec \"$@\"", "sh"))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (130, "cleaning up\nclean\n")


def test_sighup_does_not_count_where_the_parent_ignores_it(start):
    """As under nohup."""
    process = start(prefix=("sh", "-c", "trap '' HUP; exec \"$@\"", "sh"))
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, out) == (130, "cleaning up\nclean\n")
    assert "SIGINT: stopping" in err
    assert "forced" not in err


def test_a_terminal_that_is_closed_lets_work_end_in_good_order(tmp_path):
    """As an ssh that is lost: what is said then goes nowhere, and is no error."""
    trace = tmp_path / "trace"
    script = SCRIPT.replace("sys.exit(", f"open({str(trace)!r}, 'w').write(f'{{status}}'); sys.exit(")
    terminal, inner = pty.openpty()
    command = ["setsid", "--ctty", sys.executable, "-c", script]
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner)
    os.close(inner)
    assert b"working" in os.read(terminal, 100)
    os.close(terminal)
    assert process.wait(DEADLINE_S) == 129
    assert trace.read_text() == "130"


def test_the_second_signal_ends_at_once(start):
    process = start("slow", "soon")
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "cleaning up\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert out == ""
    assert "forced" in err
    assert "mrc-testbed down" in err


def test_work_that_took_the_first_signal_itself_is_forced_by_the_second(start):
    process = start("force", "soon")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "clean" not in out
    assert "forced" in err


SIGNALLED_MESSAGE = """
import signal, sys
from mrc_testbed.cli.exit_codes import run_to_exit_code
from mrc_testbed.cli.interruption import signals_interrupt
from mrc_testbed.errors import TestbedError

def notes():
    signal.raise_signal(signal.SIGTERM)
    yield "said to its end"

def command():
    error = TestbedError("no host h9")
    error.__notes__ = notes()
    raise error

with signals_interrupt():
    status = run_to_exit_code(command, [])
sys.exit(status)
"""


def test_a_signal_while_an_error_is_being_said_lets_it_be_said():
    """As `timeout 8 mrc-testbed logs h9`, whose time is over just then."""
    finished = subprocess.run(
        [sys.executable, "-c", SIGNALLED_MESSAGE],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert finished.returncode == TestbedError.exit_code
    assert finished.stderr == "error: no host h9\n  said to its end\n"


def test_a_command_over_its_time_says_what_it_was_at():
    with (
        pytest.raises(CommandTimeoutError, match=r"not done after 50ms \(--timeout\); it was at: links 3/48"),
        deadline(50_000_000, lambda: "links 3/48"),
    ):
        select.select([], [], [], DEADLINE_S)


@pytest.mark.parametrize("timeout_ns", [None, 60_000_000_000])
def test_a_timer_that_ran_before_runs_afterwards(timeout_ns):
    signal.setitimer(signal.ITIMER_REAL, 1000.0)
    with deadline(timeout_ns, lambda: ""):
        pass
    left_s, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 60 < left_s <= 1000


@pytest.fixture(autouse=True)
def timer_of_pytest():
    """pytest-timeout uses the same timer."""
    before = signal.getitimer(signal.ITIMER_REAL)
    yield
    signal.setitimer(signal.ITIMER_REAL, *before)


def test_output_into_a_closed_pipe_is_no_error():
    command = [sys.executable, "-m", "mrc_testbed.cli", "graph", "-f", "svg"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        finished = subprocess.run(
            command, stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S, check=False
        )
    finally:
        os.close(write_end)
    assert finished.returncode == 0
    assert finished.stderr == ""
