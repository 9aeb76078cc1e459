"""The display of a command's stages, and its place."""

import io
import logging

import pytest
from rich.console import Console

from mrc_testbed.cli import progress as module
from mrc_testbed.cli.progress import Progress


def terminal(*, is_terminal=True):
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=80)


def test_a_stage_is_logged_once_however_often_it_advances(caplog):
    caplog.set_level(logging.INFO)
    progress = Progress(terminal(), is_quiet=False)
    for done in range(5):
        progress("links", done, 48)
    progress("agents")
    assert [record.message for record in caplog.records] == ["links", "agents"]


def test_the_stage_says_how_far_it_was():
    progress = Progress(terminal(), is_quiet=False)
    progress("links", 3, 48)
    assert progress.stage == "links 3/48"
    progress("agents")
    assert progress.stage == "agents"


def test_a_quick_command_shows_nothing():
    console = terminal()
    progress = Progress(console, is_quiet=False)
    with progress.shown():
        progress("links", 1, 48)
    assert console.file.getvalue() == ""


@pytest.mark.parametrize(
    ("is_terminal", "is_quiet", "is_shown"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_slow_command_shows_its_stage_on_a_terminal_unless_quiet(
    monkeypatch, is_terminal, is_quiet, is_shown
):
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0)
    console = terminal(is_terminal=is_terminal)
    progress = Progress(console, is_quiet=is_quiet)
    with progress.shown():
        if is_shown:
            assert progress._timer is not None
            progress._timer.join()
        progress("links", 3, 48)
    assert ("links" in console.file.getvalue()) == is_shown


def at_times_s(monkeypatch: pytest.MonkeyPatch, *times_s: float) -> None:
    left_s = iter(times_s)
    monkeypatch.setattr(module, "machine_ns", lambda: int(next(left_s) * 1e9))


@pytest.mark.parametrize(
    ("done_ns", "total_ns", "text"),
    [
        (25_000, 100_000, "25 µs of 100 µs, 25 %, about 36 s left"),
        (25_000, None, "25 µs"),
        (100_001, 100_000, "100 µs"),
    ],
)
def test_simulated_time_is_a_line_every_ten_seconds_without_a_terminal(monkeypatch, done_ns, total_ns, text):
    console = terminal(is_terminal=False)
    progress = Progress(console, is_quiet=False)
    at_times_s(monkeypatch, 1000.0, 1009.9, 1012.0, 1021.9)
    for _ in range(4):
        progress.simulate(done_ns, total_ns)
    assert console.file.getvalue() == f"simulated {text}\n"


def test_work_that_is_counted_is_a_line_every_ten_seconds_without_a_terminal(monkeypatch):
    console = terminal(is_terminal=False)
    progress = Progress(console, is_quiet=False)
    at_times_s(monkeypatch, 1000.0, 1009.9, 1010.1, 1020.0, 1020.2)
    progress("connecting")
    for done in range(5):
        progress("sending, seconds", done, 30)
    assert console.file.getvalue() == "sending, seconds 2/30\nsending, seconds 4/30\n"


def test_simulated_time_fills_the_bar(monkeypatch):
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0)
    at_times_s(monkeypatch, 1000.0, 1000.2)
    progress = Progress(terminal(), is_quiet=False)
    with progress.shown():
        assert progress._timer is not None
        progress._timer.join()
        progress("flows started")
        for _ in range(2):
            progress.simulate(25_000, 100_000)
        assert progress._bar is not None
        [task] = progress._bar.tasks
        assert (task.completed, task.total) == (25_000, 100_000)
        assert task.fields["amount"].startswith("25 µs of 100 µs, 25 %")


def test_nothing_is_drawn_once_the_result_follows(monkeypatch):
    monkeypatch.setattr(module, "SHOWN_AFTER_S", 0)
    console = terminal()
    progress = Progress(console, is_quiet=False)
    with progress.shown():
        assert progress._timer is not None
        progress._timer.join()
        progress.hide()
        drawn = console.file.getvalue()
        progress("links", 3, 48)
    assert console.file.getvalue() == drawn
