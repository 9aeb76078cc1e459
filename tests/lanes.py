"""Runs the tiers of tests in lanes side by side, then one by one the tests that need a quiet machine.

`make test` calls it. Tiers of a lane run one after the other; build/test has TIER.log and TIER.xml of each.
"""

import argparse
import asyncio
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.sessions import clear_session

LANES: Final = (("unit", "virtual"), ("netns", "bpf"), ("netns-use",), ("e2e", "long"))
"""The first computes; the others mostly wait: for links, agents, the kernel's locks."""

_USE: Final = ("nic", "probing", "queue", "scenario", "use")
"""Folders of tests/netns that are netns-use: as one lane, netns takes twice as long as the others."""

ALONE: Final = "alone"
USUAL_MARKS: Final = "not slow"
_FOLDER: Final = Path("build/test")
_LAST_TEST: Final = Path("build/last-test")
_SLOWEST: Final = 10
_GRACE_S: Final = 20
_ROOM: Final = 3  # as for nice(1): e2e starts many processes at once, which get half as much CPU time
_NO_TESTS: Final = 5
"""Exit status of pytest that collected nothing."""


@dataclass(frozen=True)
class Outcome:
    """Verdict and time of a tier, or of the tests that run alone."""

    name: str
    is_passed: bool
    seconds: float
    cpu_s: float


@dataclass(frozen=True)
class TestTime:
    """Time of one test with its fixtures."""

    name: str
    wall_s: float
    cpu_s: float


async def run_tests(tiers: Sequence[str], marks: str, options: Sequence[str]) -> list[Outcome]:
    """Run *tiers* in their lanes, and afterwards tests of labs that are marked `alone`.

    Args:
        tiers: folders of tests/.
        marks: which tests, as for `pytest -m`; a tier without one of the usual tests has failed.
        options: for each pytest.
    """
    may_be_empty = not marks.startswith(USUAL_MARKS)

    async def run_lane(lane: Sequence[str]) -> list[Outcome]:
        selected = f"({marks}) and not {ALONE}"
        return [
            await _run(name, paths, selected, options, may_be_empty)
            for name in lane
            if name.partition("-")[0] in tiers and (paths := _paths(name))
        ]

    async with asyncio.TaskGroup() as group:
        lanes = [group.create_task(run_lane(lane)) for lane in LANES]
    outcomes = [outcome for lane in lanes for outcome in lane.result()]
    live = [f"tests/{tier}" for tier in ("netns", "e2e", "long") if tier in tiers]
    if live:
        outcomes.append(await _run(ALONE, live, f"({marks}) and {ALONE}", options, may_be_empty=True))
    return outcomes


def _paths(name: str) -> list[str]:
    """Those of the tests of a tier or of its part, as pytest takes them."""
    use = [path for folder in _USE if Path(path := f"tests/netns/{folder}").exists()]
    if name == "netns-use":
        return use
    return [f"tests/{name}", *(f"--ignore={path}" for path in use if name == "netns")]


async def _run(
    name: str, paths: Sequence[str], marks: str, options: Sequence[str], may_be_empty: bool
) -> Outcome:
    started_s = time.monotonic()
    log, report = _FOLDER / f"{name}.log", _FOLDER / f"{name}.xml"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", *paths, "-m", marks, f"--junit-xml={report}"),
            *options,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a signal comes once: from here
            preexec_fn=lambda: _prepare(_ROOM if name in LANES[-1] else 0),
        )
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            await _stop(process)
            raise
        finally:
            await asyncio.to_thread(clear_session, process.pid)
    is_passed = status == 0 or (may_be_empty and status == _NO_TESTS)
    text = log.read_text(errors="replace")
    if not is_passed:
        print(text)
    summary = text.rstrip().rpartition("\n")[2].strip("= ")
    cpu_s = sum(each.cpu_s for each in test_times(report)) if report.exists() else 0
    print(f"== {name}: {summary}, {cpu_s:.0f} s of CPU", flush=True)
    return Outcome(name, is_passed, time.monotonic() - started_s, cpu_s)


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Let the tests of a session clean up, for a while: what they leave goes with the session."""
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), _GRACE_S)
    except TimeoutError:
        process.kill()
        await process.wait()


def _prepare(niceness: int) -> None:
    """Make room, and let the kernel end this process when its parent is gone (prctl(2), PR_SET_PDEATHSIG)."""
    os.nice(niceness)
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def test_times(report: Path) -> list[TestTime]:
    """The tests of a JUnit report of pytest's."""
    return [
        TestTime(
            f"{case.get('classname')}::{case.get('name')}",
            float(case.get("time", 0)),
            float(next((each.get("value", 0) for each in case.iter("property")), 0)),
        )
        for case in ET.parse(report).iter("testcase")  # noqa: S314 - pytest wrote it
    ]


def _show_slowest(times: Sequence[TestTime]) -> None:
    print(f"the {_SLOWEST} slowest tests (wall time, CPU time):")
    for each in sorted(times, key=lambda each: each.wall_s, reverse=True)[:_SLOWEST]:
        print(f"  {each.wall_s:6.1f} s {each.cpu_s:6.1f} s  {each.name}")


def _verdict(is_passed: bool) -> str:
    return "passed" if is_passed else "failed"


def _commit() -> str:
    """The commit that is checked out, and whether anything differs from it."""
    try:
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
        changes = subprocess.check_output(["git", "status", "--porcelain"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with changes" if changes else commit


async def _until_stopped(arguments: argparse.Namespace, options: Sequence[str]) -> list[Outcome] | int:
    """The outcomes, or the signal that ended the tests."""
    tests = asyncio.ensure_future(run_tests(arguments.tiers, arguments.marks, options))
    came: list[int] = []

    def stop(number: int) -> None:
        if not came:
            came.append(number)
            tests.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        return await tests
    except asyncio.CancelledError:
        return came[0]


def main() -> int:
    """Run the tiers of the command line; 1 when a test failed, 130 or 143 when stopped by a signal."""
    _prepare(0)
    parser = argparse.ArgumentParser(prog="python -m tests.lanes", epilog="What follows -- is for pytest.")
    parser.add_argument(
        "tiers", nargs="+", choices=[name for lane in LANES for name in lane if "-" not in name]
    )
    parser.add_argument("--marks", default=USUAL_MARKS, help="which tests, as for pytest -m")
    line = sys.argv[1:]
    end = line.index("--") if "--" in line else len(line)
    arguments, options = parser.parse_args(line[:end]), line[end + 1 :]
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for old in (*_FOLDER.iterdir(), _LAST_TEST):
        old.unlink(missing_ok=True)
    commit, started_s = _commit(), time.monotonic()
    outcomes = asyncio.run(_until_stopped(arguments, options))
    if isinstance(outcomes, int):
        return 128 + outcomes
    times = [each for report in _FOLDER.glob("*.xml") for each in test_times(report)]
    _show_slowest(times)
    has_passed = bool(times) and all(each.is_passed for each in outcomes)
    rows = [
        f"commit: {commit}",
        f"tests: {shlex.join([arguments.marks, *options])}",
        f"verdict: {_verdict(has_passed)}",
        f"seconds: {time.monotonic() - started_s:.0f}",
        *(
            f"{each.name}: {_verdict(each.is_passed)} {each.seconds:.0f} s, {each.cpu_s:.0f} s of CPU"
            for each in outcomes
        ),
    ]
    _LAST_TEST.write_text("\n".join(rows) + "\n")
    print(*rows, sep="\n")
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
