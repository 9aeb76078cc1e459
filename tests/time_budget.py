"""Time that a test may take; and the markers that change where and when it runs.

slow: not part of `make test`; its reason is its argument. ci: a slow test that .ci/run runs all the same.
alone: a test that needs a quiet machine; `make test` runs it after all others.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

UNIT_CPU_S: Final = 30.0
"""CPU time that no unit test needs, on a machine of a third of the speed either."""
HANGS_S: Final = 300
"""Wall time after which a test is taken to hang, on a busy machine too."""
SLOW_HANGS_S: Final = 1800
"""The same of a slow test."""

TESTS: Final = Path(__file__).parent
_STARTED: Final = pytest.StashKey[float]()
_PREPARED: Final = pytest.StashKey[float]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test its end: its own, else that of `--timeout`, else that of what hangs."""
    for item in items:
        _check_markers(item)
        if config.getoption("timeout") is None and not item.get_closest_marker("timeout"):
            is_slow = item.get_closest_marker("slow")
            item.add_marker(pytest.mark.timeout(SLOW_HANGS_S if is_slow else HANGS_S))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the clock of CPU time."""
    item.stash[_STARTED] = _cpu_s()
    item.stash[_PREPARED] = 0.0


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Note what several tests share: the test that comes first does not pay for it."""
    begun_s = _cpu_s()
    value = yield
    if fixturedef.scope != "function":
        request._pyfuncitem.stash[_PREPARED] += _cpu_s() - begun_s
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report the CPU time of a test; fail a unit test that took more than it has."""
    report = yield
    if report.when == "teardown":
        spent_s = _cpu_s() - item.stash[_STARTED]
        report.user_properties.append(("cpu_s", round(spent_s, 3)))
        own_s = spent_s - item.stash[_PREPARED]
        is_unit = item.path.is_relative_to(TESTS / "unit") and not item.get_closest_marker("slow")
        if report.passed and is_unit and own_s > UNIT_CPU_S:
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} took {own_s:.1f} s of CPU time; a unit test has {UNIT_CPU_S:g} s"
            )
    return report


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
