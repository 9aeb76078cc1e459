"""The markers and time limits of tests, in sessions of pytest of their own."""

import re

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def outer(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A session with the limits, in which the tests of the session are those of the unit tier."""
    monkeypatch.setattr("time_budget.TESTS", pytester.path)
    monkeypatch.setattr("time_budget.UNIT_S", 0.05)
    monkeypatch.setattr("os.getloadavg", lambda: (1000, 0, 0))
    pytester.makepyprojecttoml(
        """
        [tool.pytest.ini_options]
        markers = ["slow(reason)", "ci", "alone"]
        """
    )
    return pytester


@pytest.fixture
def short_limit(outer: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second for a unit test on a busy machine."""
    monkeypatch.setattr("time_budget.UNIT_BESIDE_OTHERS_S", 0.5)


def run(outer: pytest.Pytester, text: str, *options: str, folder: str = "unit") -> pytest.RunResult:
    path = outer.mkdir(folder) / "test_it.py"
    path.write_text(f"import threading\nimport pytest\n\n\n{text}\n")
    return outer.runpytest_inprocess("-p", "time_budget", "-p", "no:cacheprovider", *options, str(path))


WAITS = "def test_waits():\n    threading.Event().wait({})"


@pytest.mark.parametrize(("load", "outcome"), [(0, {"passed": 1, "errors": 1}), (1000, {"passed": 1})])
def test_a_unit_test_over_its_time_fails_unless_the_machine_is_busy(
    outer: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, load: int, outcome: dict[str, int]
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0, 0))
    result = run(outer, WAITS.format(0.1))
    result.assert_outcomes(**outcome)
    reason = re.search(r"test_waits took \d+\.\d s; a unit test has 0\.05 s", result.stdout.str())
    assert bool(reason) == ("errors" in outcome)


@pytest.mark.usefixtures("short_limit")
def test_a_unit_test_that_hangs_fails_on_a_busy_machine_too(outer: pytest.Pytester) -> None:
    result = run(outer, WAITS.format(30))
    assert result.parseoutcomes()["failed"] == 1
    assert "Timeout (>0.5s)" in result.stdout.str()


@pytest.mark.usefixtures("short_limit")
@pytest.mark.parametrize(
    ("folder", "marker", "option"),
    [
        ("netns", "", "-q"),
        ("unit", "", "--timeout=20"),
        ("unit", "@pytest.mark.timeout(20)\n", "-q"),
        ("unit", "@pytest.mark.slow('why')\n", "-q"),
    ],
)
def test_other_tiers_the_command_line_and_markers_give_more(
    outer: pytest.Pytester, folder: str, marker: str, option: str
) -> None:
    run(outer, marker + WAITS.format(0.6), option, folder=folder).assert_outcomes(passed=1)


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
