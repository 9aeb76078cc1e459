"""Global flags: where they may stand, what they mean, where they are refused."""

import inspect
import logging
from pathlib import Path
from typing import Annotated

import pytest
import typer

from mrc_testbed.cli.exit_codes import run_to_exit_code
from mrc_testbed.cli.options import OutputFormat, Settings, command, global_callback


@pytest.fixture
def settings_of():
    """The settings that a command finds; None when it was not reached."""
    app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    global_callback(app, "A command for tests.")
    seen = []

    @command(app, "look", flags=("name", "topology", "dry_run", "seed"))
    def look(
        settings: Settings, size: Annotated[str, typer.Option("--size", help="A size.")] = "1KiB"
    ) -> None:
        """Look."""
        seen.append((settings, size))
        logging.getLogger("mrc_testbed.somewhere").info("one more thing")

    @command(app, "nap")
    def nap(settings: Settings) -> None:
        """Nap."""
        seen.append((settings, ""))

    def invoke(*arguments):
        seen.clear()
        status = run_to_exit_code(
            lambda: app(args=list(arguments), prog_name="t", standalone_mode=False), list(arguments)
        )
        return (status, *seen[0]) if seen else (status, None, None)

    return invoke


def test_without_flags_everything_has_its_default(settings_of):
    status, settings, size = settings_of("look")
    assert status == 0
    assert settings.name == "default"
    assert not settings.names_lab
    assert settings.topology is None
    assert settings.output is OutputFormat.TABLE
    assert settings.seed is None
    assert not settings.is_dry_run
    assert size == "1KiB"


@pytest.mark.parametrize("arguments", [("-n", "a", "look"), ("look", "-n", "a"), ("look", "--name", "a")])
def test_a_global_flag_may_stand_before_or_after_the_command(settings_of, arguments):
    _, settings, _ = settings_of(*arguments)
    assert settings.name == "a"
    assert settings.names_lab


def test_after_the_command_wins(settings_of):
    assert settings_of("-n", "a", "--seed", "3", "look", "-n", "b", "--seed", "0")[1].name == "b"
    assert settings_of("--seed", "3", "look", "--seed", "0")[1].seed == 0


def test_flags_come_from_the_environment_too_and_the_command_line_wins(settings_of, monkeypatch):
    monkeypatch.setenv("MRC_TESTBED_NAME", "from-environment")
    monkeypatch.setenv("MRC_TESTBED_OUTPUT", "json")
    monkeypatch.setenv("MRC_TESTBED_SIZE", "4KiB")
    monkeypatch.setenv("MRC_TESTBED_TOPOLOGY", "lab.yaml")
    _, settings, size = settings_of("look")
    assert settings.name == "from-environment"
    assert settings.output is OutputFormat.JSON
    assert settings.topology == Path("lab.yaml")
    assert size == "4KiB"
    assert settings_of("look", "-n", "given", "--size", "2KiB")[1].name == "given"


@pytest.mark.parametrize("flag", ["--dry-run", "--seed", "--topology"])
def test_a_flag_that_a_command_does_not_take_is_refused(settings_of, capsys, flag):
    value = [] if flag == "--dry-run" else ["7"]
    assert settings_of(flag, *value, "nap")[0] == 2
    assert f"error: {flag} is not an option of 'nap'" in capsys.readouterr().err
    assert settings_of("nap", flag, *value)[0] == 2


def test_a_flag_from_the_environment_does_not_break_commands_that_do_not_take_it(settings_of, monkeypatch):
    monkeypatch.setenv("MRC_TESTBED_SEED", "7")
    assert settings_of("nap")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "is_shown"), [((), False), (("-v",), True), (("-vv",), True), (("-q",), False)]
)
def test_our_logs_are_shown_on_stderr_when_asked_for(settings_of, capsys, arguments, is_shown):
    settings_of("look", *arguments)
    out, err = capsys.readouterr()
    assert ("one more thing" in err) == is_shown
    assert out == ""


def test_logging_is_as_before_once_a_command_is_over(settings_of):
    logger = logging.getLogger("mrc_testbed")
    before = (logger.level, list(logger.handlers), list(logging.getLogger().handlers))
    settings_of("look", "-vv")
    assert (logger.level, logger.handlers, logging.getLogger().handlers) == before


@pytest.mark.parametrize("how", ["flag", "NO_COLOR"])
def test_colours_can_be_turned_off(settings_of, monkeypatch, how):
    if how == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    _, settings, _ = settings_of("look", *(["--no-color"] if how == "flag" else []))
    assert settings.stdout.no_color
    assert settings.stderr.no_color


def test_a_time_needs_its_unit(settings_of, capsys):
    assert settings_of("look", "--timeout", "90")[0] == 2
    assert "'90' is not a duration: it has no unit" in capsys.readouterr().err


def test_the_decorated_function_has_the_flags_in_its_signature(settings_of):
    app = typer.Typer()

    @command(app, "look", flags=("seed",))
    def look(settings: Settings, size: str = "1KiB") -> None:
        """Look."""

    assert list(inspect.signature(look).parameters) == [
        "ctx",
        "size",
        "seed",
        "output",
        "timeout",
        "verbose",
        "quiet",
        "no_color",
    ]
