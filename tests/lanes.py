"""Runs the tiers of tests in two lanes side by side, then one by one the tests that need a quiet machine.

`make test` calls it. Tiers of a lane run one after the other; build/test has TIER.log and TIER.xml of each.
"""

import argparse
import asyncio
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

LANES: Final = (("unit", "virtual", "bpf"), ("netns", "e2e", "long"))
"""The first computes; the second has the labs and waits for them, so that both fill two cores."""

ALONE: Final = "alone"
USUAL_MARKS: Final = "not slow"
_FOLDER: Final = Path("build/test")
_LAST_TEST: Final = Path("build/last-test")
_SLOWEST: Final = 10
_NO_TESTS: Final = 5
"""Exit status of pytest that collected nothing."""


@dataclass(frozen=True)
class Outcome:
    """Verdict and time of a tier, or of the tests that run alone."""

    name: str
    is_passed: bool
    seconds: float


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
    may_be_empty = marks != USUAL_MARKS

    async def run_lane(lane: Sequence[str]) -> list[Outcome]:
        selected = f"({marks}) and not {ALONE}"
        return [await _run(tier, [tier], selected, options, may_be_empty) for tier in lane if tier in tiers]

    async with asyncio.TaskGroup() as group:
        lanes = [group.create_task(run_lane(lane)) for lane in LANES]
    outcomes = [outcome for lane in lanes for outcome in lane.result()]
    live = [tier for tier in LANES[-1] if tier in tiers]
    if live:
        outcomes.append(await _run(ALONE, live, f"({marks}) and {ALONE}", options, may_be_empty=True))
    return outcomes


async def _run(
    name: str, tiers: Sequence[str], marks: str, options: Sequence[str], may_be_empty: bool
) -> Outcome:
    started_s = time.monotonic()
    log = _FOLDER / f"{name}.log"
    folders = [f"tests/{tier}" for tier in tiers]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", *folders, "-m", marks, f"--junit-xml={_FOLDER / name}.xml"),
            *options,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            status = await process.wait()
        except asyncio.CancelledError:
            process.send_signal(signal.SIGINT)
            await process.wait()
            raise
    is_passed = status == 0 or (may_be_empty and status == _NO_TESTS)
    text = log.read_text(errors="replace")
    if not is_passed:
        print(text)
    summary = text.rstrip().rpartition("\n")[2].strip("= ")
    print(f"== {name}: {summary}", flush=True)
    return Outcome(name, is_passed, time.monotonic() - started_s)


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


def _commit() -> str:
    """The commit that is checked out, and whether anything differs from it."""
    try:
        commit = subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()
        changes = subprocess.check_output(["git", "status", "--porcelain"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with changes" if changes else commit


async def _until_stopped(arguments: argparse.Namespace, options: Sequence[str]) -> list[Outcome]:
    task = asyncio.ensure_future(run_tests(arguments.tiers, arguments.marks, options))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def main() -> int:
    """Run the tiers of the command line; 1 when a test failed, 130 when stopped by a signal."""
    parser = argparse.ArgumentParser(prog="python -m tests.lanes", epilog="What follows -- is for pytest.")
    parser.add_argument("tiers", nargs="+", choices=[tier for lane in LANES for tier in lane])
    parser.add_argument("--marks", default=USUAL_MARKS, help="which tests, as for pytest -m")
    line = sys.argv[1:]
    end = line.index("--") if "--" in line else len(line)
    arguments, options = parser.parse_args(line[:end]), line[end + 1 :]
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for old in (*_FOLDER.iterdir(), _LAST_TEST):
        old.unlink(missing_ok=True)
    commit, started_s = _commit(), time.monotonic()
    try:
        outcomes = asyncio.run(_until_stopped(arguments, options))
    except asyncio.CancelledError:
        return 130
    times = [each for report in _FOLDER.glob("*.xml") for each in test_times(report)]
    _show_slowest(times)
    has_passed = bool(times) and all(each.is_passed for each in outcomes)
    rows = [
        f"commit: {commit}",
        f"tests: {shlex.join([arguments.marks, *options])}",
        f"verdict: {'passed' if has_passed else 'failed'}",
        f"seconds: {time.monotonic() - started_s:.0f}",
        *(
            f"{each.name}: {'passed' if each.is_passed else 'failed'} {each.seconds:.0f} s"
            for each in outcomes
        ),
    ]
    _LAST_TEST.write_text("\n".join(rows) + "\n")
    print(*rows, sep="\n")
    return 0 if has_passed else 1


if __name__ == "__main__":
    sys.exit(main())
