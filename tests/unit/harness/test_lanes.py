"""`make test` on a few tests of its own: verdicts, logs, what runs last, and how it stops."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import poll_until

ROOT = Path(__file__).parents[3]
ORDER = """
import pathlib

def note(name):
    with pathlib.Path("order").open("a") as file:
        file.write(f"{name} ")

"""
PYPROJECT = """
[tool.pytest.ini_options]
markers = ["slow(reason)", "alone"]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    for tier in ("unit", "virtual", "netns"):
        folder = tmp_path / "tests" / tier
        folder.mkdir(parents=True)
        (folder / f"test_{tier}.py").write_text(f"{ORDER}def test_it():\n    note('{tier}')\n")
    return tmp_path


def start(checkout: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lanes", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def last_test(checkout: Path) -> dict[str, str]:
    rows = (checkout / "build" / "last-test").read_text().splitlines()
    return dict(row.split(": ", 1) for row in rows)


def test_tiers_of_a_lane_run_in_order_and_alone_comes_last(checkout: Path) -> None:
    alone = f"import pytest\n{ORDER}@pytest.mark.alone\ndef test_quiet():\n    note('alone')\n"
    (checkout / "tests" / "netns" / "test_alone.py").write_text(alone)
    slow = "import pytest\n@pytest.mark.slow('why')\ndef test_slow():\n    raise RuntimeError\n"
    (checkout / "tests" / "netns" / "test_slow.py").write_text(slow)
    process = start(checkout, "unit", "virtual", "netns")
    output, _ = process.communicate()
    assert process.returncode == 0, output
    order = (checkout / "order").read_text().split()
    assert sorted(order) == ["alone", "netns", "unit", "virtual"]
    assert order.index("unit") < order.index("virtual")
    assert order[-1] == "alone"
    assert "test_virtual::test_it" in output.split("slowest tests")[1]
    found = last_test(checkout)
    assert found["verdict"] == "passed"
    assert found["tests"] == "'not slow'"
    assert {key for key, value in found.items() if re.fullmatch(r"passed \d+ s, \d+ s of CPU", value)} == {
        "unit",
        "virtual",
        "netns",
        "alone",
    }


def test_a_failure_is_shown_and_recorded_and_the_other_tiers_run(checkout: Path) -> None:
    (checkout / "tests" / "unit" / "test_bad.py").write_text("def test_bad():\n    assert 'this' == 'that'\n")
    (checkout / "tests" / "virtual" / "test_virtual.py").unlink()
    process = start(checkout, "unit", "virtual", "netns", "--", "-k", "bad or it")
    output, _ = process.communicate()
    assert process.returncode == 1
    assert "assert 'this' == 'that'" in output
    found = last_test(checkout)
    assert found["tests"] == "'not slow' -k 'bad or it'"
    assert found["verdict"] == "failed"
    verdicts = {tier: found[tier].partition(" ")[0] for tier in ("unit", "virtual", "netns", "alone")}
    assert verdicts == {"unit": "failed", "virtual": "failed", "netns": "passed", "alone": "passed"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_tests_and_their_fixtures_clean_up(checkout: Path, number: int) -> None:
    (checkout / "tests" / "netns" / "test_netns.py").write_text(
        "import pathlib, threading, pytest\n"
        "@pytest.fixture\ndef tidy():\n    yield\n    pathlib.Path('tidied').touch()\n"
        "def test_long(tidy):\n    pathlib.Path('begun').touch()\n    threading.Event().wait(60)\n"
    )
    process = start(checkout, "netns")
    poll_until((checkout / "begun").exists)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == 128 + number
    assert (checkout / "tidied").exists()
    assert not (checkout / "build" / "last-test").exists()


def test_a_tier_ends_with_lanes_that_are_killed(checkout: Path) -> None:
    begun = checkout / "begun"
    (checkout / "tests" / "netns" / "test_netns.py").write_text(
        "import os, signal\ndef test_long():\n    os.symlink(str(os.getpid()), 'begun')\n    signal.pause()\n"
    )
    process = start(checkout, "netns")
    poll_until(begun.is_symlink)
    process.kill()
    process.communicate()
    poll_until(lambda: not Path("/proc", begun.readlink()).exists())
