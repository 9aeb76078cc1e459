"""Rules of every tier: what a marked test needs, and that CI skips nothing."""

import os
import shutil
import signal
import subprocess
from collections.abc import Generator
from functools import cache

import pytest
from exploring import register_profiles

pytest.register_assert_rewrite("reference", "waiting")
register_profiles()

pytest_plugins = ["tests.sessions", "time_budget"]

_IS_CI = os.environ.get("CI") == "true"
_ENGINE_TIMEOUT_S = 60


@cache
def _docker_engine_answers() -> bool:
    # Not by the SDK: it leaves its socket open when nobody answers, and warnings are errors here.
    if shutil.which("docker") is None:
        return False
    try:
        answer = subprocess.run(
            ["docker", "version"], capture_output=True, timeout=_ENGINE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return answer.returncode == 0


def pytest_configure() -> None:
    """Take SIGINT back where the parent ignores it (nohup, cron, `&`): tests and their children send it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose marker names a capability that is missing."""
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root: run `sudo make test`")
    if item.get_closest_marker("docker") and not _docker_engine_answers():
        pytest.skip("needs a Docker Engine that answers")
    tool = item.get_closest_marker("tool")
    if tool and shutil.which(tool.args[0]) is None:
        pytest.skip(f"needs {tool.args[0]}: run `sudo make test-tools`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a skipped test has failed: nobody would notice that it never runs; not if `download` marks it."""
    report = yield
    may_skip = hasattr(report, "wasxfail") or item.get_closest_marker("download")
    if _IS_CI and report.skipped and not may_skip:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and CI allows no skip: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself."""
    report = yield
    if _IS_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} was skipped, and CI allows no skip: {_reason(report.longrepr)}"
    return report


def _reason(longrepr: object) -> str:
    """The reason of a skip, which pytest keeps as (file, line, reason)."""
    return str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr)
