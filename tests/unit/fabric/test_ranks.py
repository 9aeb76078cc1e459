"""Ranks end together, and what they say is whole lines."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from waiting import poll_until

from mrc_testbed.cli.interruption import signals_interrupt
from mrc_testbed.fabric import ranks
from mrc_testbed.fabric.ranks import REPORT_VARIABLE, Rank, RankFailure, Report, RunningRanks, Write


def run_ranks(started: list[Rank], write: Write, report: Report | None = None) -> RankFailure | None:
    with RunningRanks(write, report) as running:
        running.start(started)
        while not running.is_over:
            running.serve(None)
        return running.failure


class Ranks:
    """Shell commands as ranks, and what they say."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, bool, bytes]] = []
        self.write: Write = self._note

    def _note(self, rank: Rank, is_error: bool, line: bytes) -> None:
        self.lines.append((rank.number, is_error, line))

    def run(self, *commands: str) -> RankFailure | None:
        started = [
            Rank(number, f"h{number}", ("sh", "-c", each), dict(os.environ))
            for number, each in enumerate(commands)
        ]
        return run_ranks(started, self.write)


def test_a_carriage_return_ends_a_line_and_a_long_line_is_cut():
    jobs = Ranks()
    wide = f"{sys.executable} -c \"print('xx' + '€' * 60000, end='')\""
    assert jobs.run(f"printf '1%%\\r2%%\\r\\nend\\n'; {wide}") is None
    lines = [line for *_, line in jobs.lines]
    assert lines[:3] == [b"1%", b"2%", b"end"]
    assert "".join(map(bytes.decode, lines[3:])) == "xx" + "€" * 60_000  # cut between characters
    assert len(lines) > 4


@pytest.mark.parametrize("end", [b"\r", "é".encode()[:1], "€".encode()[:2], "🙂".encode()[:3]])
def test_a_line_is_not_cut_within_its_end_or_a_character(end: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ranks, "_LINE_BYTES", 5)
    jobs = Ranks()
    whole = "".join(f"\\{byte:03o}" for byte in b"x" * (5 - len(end)) + end)
    assert jobs.run(f"printf '{whole}'") is None
    assert [line for *_, line in jobs.lines] == [b"x" * (5 - len(end)), end]


def test_reports_come_apart_from_output():
    jobs = Ranks()
    reports: list[tuple[int, bytes]] = []
    commands = [f"echo out; echo 'report {number}' >&${REPORT_VARIABLE}" for number in range(2)]
    started = [Rank(n, f"h{n}", ("bash", "-c", each), os.environ) for n, each in enumerate(commands)]
    assert run_ranks(started, jobs.write, lambda rank, line: reports.append((rank.number, line))) is None
    assert sorted(reports) == [(0, b"report 0"), (1, b"report 1")]
    assert sorted(jobs.lines) == [(0, False, b"out"), (1, False, b"out")]


def test_the_first_failure_is_named_and_ends_the_others(tmp_path: Path):
    jobs = Ranks()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    failure = jobs.run(f"echo $$; read line <{pipe}", f"echo ready >{pipe}; exit 3", "sleep 1000")
    assert str(failure) == "rank 1 (h1) ended with status 3"


def test_the_first_of_two_that_fail_before_anybody_looks_is_named(tmp_path: Path):
    jobs = Ranks()
    pids: dict[int, int] = {}
    pipes = [tmp_path / "0", tmp_path / "1"]

    def look_late(rank: Rank, _is_error: bool, line: bytes) -> None:
        pids[rank.number] = int(line)
        for number in (1, 0) if len(pids) == 2 else ():
            pipes[number].write_text("\n")
            await_zombie(pids[number])

    jobs.write = look_late
    for pipe in pipes:
        os.mkfifo(pipe)
    failure = jobs.run(*(f"echo $$; read line <{pipe}; exit 3" for pipe in pipes))
    assert str(failure) == "rank 1 (h1) ended with status 3"


def await_zombie(pid: int) -> None:
    status = Path(f"/proc/{pid}/status")
    poll_until(lambda: "zombie" in status.read_text(), what="the end of a rank")


@pytest.mark.parametrize(
    ("trap", "end"),
    [("trap 'echo saved; exit 0' USR1 USR2", None), (":", "rank 0 (h0) was ended by SIGUSR{}")],
)
@pytest.mark.parametrize("number", [1, 2])
def test_signals_for_ranks_reach_them_and_not_their_launcher(number: int, trap: str, end: str | None):
    jobs = Ranks()
    with signals_interrupt():
        os.kill(os.getpid(), signal.SIGUSR1)  # there are no ranks yet
        # a signal that comes just before the shell waits is looked at after the wait
        failure = jobs.run(f"{trap}; kill -USR{number} {os.getpid()}; while :; do sleep 0.2 & wait; done")
    assert failure is None if end is None else str(failure) == end.format(number)
    assert jobs.lines == ([(0, False, b"saved")] if end is None else [])


def is_running(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_children_of_ranks_end_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also of one that ended well, and one that does not listen to SIGTERM."""
    monkeypatch.setattr(ranks, "GRACE_NS", 100_000_000)
    jobs = Ranks()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    child = f"sleep 1000 & echo $!; echo >{pipe}"
    deaf = f"trap '' TERM; {child}; wait"
    assert jobs.run(child, deaf, deaf, f"exec 3<>{pipe}; read a <&3; read b <&3; read c <&3; exit 1")
    children = [int(line) for *_, line in jobs.lines]
    assert len(children) == 3
    poll_until(lambda: not any(map(is_running, children)), what="the end of the children")


def test_an_interruption_ends_all_ranks():
    class InterruptionError(Exception):
        pass

    pids: list[int] = []

    def interrupt(_rank: Rank, _is_error: bool, line: bytes) -> None:
        pids.append(int(line))
        raise InterruptionError

    with pytest.raises(InterruptionError):
        run_ranks([Rank(0, "h0", ("sh", "-c", "echo $$; exec sleep 1000"), dict(os.environ))], interrupt)
    assert not any(map(is_running, pids))


LAUNCHER = """
import os, sys
from mrc_testbed.fabric.ranks import Rank, RunningRanks

deaf = "trap '' TERM; sleep 1000 & echo $!; echo $$; wait"
quick = Rank(2, "h2", ("true",), dict(os.environ))
with RunningRanks(lambda _rank, _is_error, line: os.write(1, line + b"\\n")) as running:
    deaf_ones = (Rank(number, f"h{number}", ("sh", "-c", deaf), dict(os.environ)) for number in range(2))
    running.start([*deaf_ones, quick])
    while not running.is_over:
        running.serve(None)
"""


def test_ranks_and_their_children_end_with_a_launcher_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        pids = [int(launcher.stdout.readline()) for _ in range(4)]
        assert all(map(is_running, pids))
        launcher.kill()
    poll_until(lambda: not any(map(is_running, pids)), what="the end of the ranks")
