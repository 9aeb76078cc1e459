"""Time that a test may take, by its tier; and the markers that change where and when it runs.

slow: not part of `make test`; its reason is its argument. ci: a slow test that .ci/run runs all the same.
alone: a test that needs a quiet machine; `make test` runs it after all others.
"""

import os
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

UNIT_S: Final = 5
UNIT_BESIDE_OTHERS_S: Final = 15
LIVE_S: Final = 60
VIRTUAL_S: Final = 180
SLOW_S: Final = 600

TESTS: Final = Path(__file__).parent
_BUSY_LOAD_PER_CORE: Final = 0.75
_STARTED: Final = pytest.StashKey[tuple[float, float, float]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its deadline: its own, else that of `--timeout`, else that of its tier."""
    for item in items:
        _check_markers(item)
        if config.getoption("timeout") is None and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(_limit_s(item)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the clocks."""
    item.stash[_STARTED] = time.monotonic(), _cpu_s(), _stolen_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report the CPU time of a test; fail a unit test over 5 s on a machine that is not busy."""
    report = yield
    if report.when == "teardown":
        started_s, cpu_s, stolen_s = item.stash[_STARTED]
        report.user_properties.append(("cpu_s", round(_cpu_s() - cpu_s, 3)))
        took_s = time.monotonic() - started_s - (_stolen_s() - stolen_s)
        if report.passed and _limit_s(item) == UNIT_BESIDE_OTHERS_S and took_s > UNIT_S and not _is_busy():
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} took {took_s:.1f} s; a unit test has {UNIT_S} s"
    return report


def _limit_s(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return SLOW_S
    if item.path.is_relative_to(TESTS / "unit"):
        return UNIT_BESIDE_OTHERS_S
    return VIRTUAL_S if item.path.is_relative_to(TESTS / "virtual") else LIVE_S


def _check_markers(item: pytest.Item) -> None:
    slow = item.get_closest_marker("slow")
    if slow and not (len(slow.args) == 1 and isinstance(slow.args[0], str)):
        raise pytest.UsageError(f"{item.nodeid}: the marker slow takes the reason as its only argument")
    if item.get_closest_marker("ci") and not slow:
        raise pytest.UsageError(f"{item.nodeid}: the marker ci is for tests that are slow")
    if item.get_closest_marker("ci") and item.get_closest_marker("skipif"):
        raise pytest.UsageError(f"{item.nodeid}: it has the markers ci and skipif, and CI allows no skip")


def _cpu_s() -> float:
    """CPU time of this process and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def _stolen_s() -> float:
    """Time in which CPUs had work and the hypervisor gave them to others (proc_stat(5))."""
    with Path("/proc/stat").open() as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def _is_busy() -> bool:
    return os.getloadavg()[0] > _BUSY_LOAD_PER_CORE * (os.cpu_count() or 1)
