"""The markers and time limits of tests, in sessions of pytest of their own."""

import re

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def outer(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session with the limits, in which the tests of the session are those of the unit tier."""
    monkeypatch.setattr("time_budget.TESTS", pytester.path)
    monkeypatch.setattr("time_budget.UNIT_CPU_S", 0.2)
    pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        markers = ["slow(reason)", "ci", "alone"]
        """
    )
    return pytester


def run(outer: pytest.Pytester, text: str, *options: str, folder: str = "unit") -> pytest.RunResult:
    path = outer.mkdir(folder) / "test_it.py"
    path.write_text(f"import threading, time\nimport pytest\n\n\n{text}\n")
    return outer.runpytest_inprocess("-p", "time_budget", "-p", "no:cacheprovider", *options, str(path))


WAITS = "def test_waits():\n    threading.Event().wait({})"
COMPUTES = """\
def compute():
    end_s = time.process_time() + 0.3
    while time.process_time() < end_s:
        pass

"""


@pytest.mark.parametrize(
    ("test", "folder", "fails"),
    [
        ("def test_it():\n    compute()", "unit", True),
        ("def test_it():\n    compute()", "virtual", False),
        ("@pytest.mark.slow('why')\ndef test_it():\n    compute()", "unit", False),
        ("@pytest.fixture\ndef own():\n    compute()\ndef test_it(own):\n    pass", "unit", True),
        (
            "@pytest.fixture(scope='module')\ndef shared():\n    compute()\ndef test_it(shared):\n    pass",
            "unit",
            False,
        ),
        (WAITS.format(0.4), "unit", False),
    ],
)
def test_a_unit_test_has_a_limit_of_cpu_time(
    outer: pytest.Pytester, test: str, folder: str, fails: bool
) -> None:
    result = run(outer, COMPUTES + test, folder=folder)
    result.assert_outcomes(passed=1, errors=int(fails))
    reason = re.search(r"test_it took \d\.\d+ s of CPU time; a unit test has 0\.2", result.stdout.str())
    assert bool(reason) == fails


@pytest.fixture
def short_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time_budget.HANGS_S", 0.5)


@pytest.mark.usefixtures("short_end")
@pytest.mark.parametrize("folder", ["unit", "netns"])
def test_a_test_that_hangs_fails(outer: pytest.Pytester, folder: str) -> None:
    result = run(outer, WAITS.format(30), folder=folder)
    assert result.parseoutcomes()["failed"] == 1
    assert "Timeout (>0.5s)" in result.stdout.str()


@pytest.mark.usefixtures("short_end")
@pytest.mark.parametrize(("marker", "option"), [("", "--timeout=20"), ("@pytest.mark.timeout(20)\n", "-q")])
def test_the_command_line_and_markers_give_more(outer: pytest.Pytester, marker: str, option: str) -> None:
    run(outer, marker + WAITS.format(0.6), option).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("markers", "message"),
    [
        ("@pytest.mark.slow", "takes the reason as its only argument"),
        ("@pytest.mark.ci", "the marker ci is for tests that are slow"),
        (
            '@pytest.mark.ci\n@pytest.mark.slow("x")\n@pytest.mark.skipif("True", reason="x")',
            "CI allows no skip",
        ),
    ],
)
def test_markers_that_do_not_go_together_are_refused(
    outer: pytest.Pytester, markers: str, message: str
) -> None:
    result = run(outer, f"{markers}\n{WAITS.format(0)}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()


def test_a_report_has_the_cpu_time_of_a_test(outer: pytest.Pytester) -> None:
    run(outer, "def test_computes():\n    sum(range(3_000_000))", "--junit-xml=report.xml").assert_outcomes(
        passed=1
    )
    from lanes import test_times  # noqa: PLC0415

    [found] = test_times(outer.path / "report.xml")
    assert found.name.endswith("test_it::test_computes")
    assert 0 < found.cpu_s <= found.wall_s + 1
