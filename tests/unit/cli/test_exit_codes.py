"""Every way a command can end has its status and one clear message."""

import re

import pytest
import typer

from mrc_testbed.cli.exit_codes import ExitCode, run_to_exit_code
from mrc_testbed.errors import (
    AgentError,
    CleanupError,
    FabricError,
    FaultError,
    Interrupted,
    PreflightError,
    UsageError,
)
from mrc_testbed.installation import shipped


def ends_with(error):
    def command():
        raise error

    return run_to_exit_code(command, ["up", "-n", "my lab"])


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("m"), ExitCode.USAGE),
        (PreflightError("m"), ExitCode.ENVIRONMENT),
        (CleanupError("m"), ExitCode.CLEANUP_INCOMPLETE),
        (FabricError("m"), ExitCode.ERROR),
        (AgentError("m"), ExitCode.ERROR),
        (FaultError("m"), ExitCode.ERROR),
        (Interrupted("m"), ExitCode.INTERRUPTED),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (typer.BadParameter("m"), ExitCode.USAGE),
    ],
)
def test_an_error_has_its_documented_status(error, status, capsys):
    assert ends_with(error) == status
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("uid", "status"), [(1000, ExitCode.ENVIRONMENT), (0, ExitCode.ERROR)])
def test_a_permission_denied_is_the_machine_s_without_root_and_a_bug_with_it(
    monkeypatch, capsys, uid, status
):
    monkeypatch.setattr("os.geteuid", lambda: uid)
    assert ends_with(PermissionError(13, "Permission denied", "/run/x")) == status
    assert ("sudo" in capsys.readouterr().err) == (uid != 0)


def test_the_table_of_the_documents_is_the_one_in_the_code():
    text = shipped("docs/reference/results.md").read_text()
    rows = re.findall(r"^\| (\d+) \| .+ \|$", text, re.MULTILINE)
    assert [int(row) for row in rows] == list(ExitCode)


def test_an_error_says_what_and_what_to_do_next(capsys):
    ends_with(FabricError("link h0:0 [plane 0] is gone", hint="mrc-testbed down"))
    assert capsys.readouterr().err == "error: link h0:0 [plane 0] is gone\nhint:  mrc-testbed down\n"


def test_lines_of_a_message_are_kept(capsys):
    ends_with(UsageError("lab.yaml:3: spec.planes: expected an integer\nlab.yaml:4: spec.t0: too large"))
    assert capsys.readouterr().err.count("lab.yaml:") == 2


def test_a_verdict_passes_through():
    assert run_to_exit_code(lambda: 7, []) == 7


def test_success_is_zero():
    assert run_to_exit_code(lambda: None, []) == 0


def test_a_bug_leaves_a_log_that_can_be_pasted(capsys, tmp_path):
    assert ends_with(ZeroDivisionError("oops")) == ExitCode.ERROR
    [log] = (tmp_path / "state" / "mrc-testbed").iterdir()
    message = capsys.readouterr().err
    assert "error: unexpected ZeroDivisionError: oops" in message
    assert str(log) in message
    assert "Traceback" not in message
    text = log.read_text()
    assert "command    mrc-testbed up -n 'my lab'" in text
    assert "kernel     " in text
    assert "ZeroDivisionError: oops" in text


def test_old_bug_logs_are_not_kept_for_ever(tmp_path):
    for _ in range(14):
        ends_with(ZeroDivisionError("oops"))
    assert len(list((tmp_path / "state" / "mrc-testbed").iterdir())) == 10


def test_a_bug_is_shown_whole_when_no_log_can_be_written(capsys, monkeypatch, tmp_path):
    blocker = tmp_path / "file"
    blocker.touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(blocker))
    assert ends_with(ZeroDivisionError("oops")) == ExitCode.ERROR
    assert "Traceback" in capsys.readouterr().err


def test_the_documented_table_is_the_one_in_the_code():
    assert {code.name: code.value for code in ExitCode} == {
        "PASS": 0,
        "ERROR": 1,
        "USAGE": 2,
        "ENVIRONMENT": 3,
        "EXPECTATION_FAILED": 4,
        "ABORTED": 5,
        "CLEANUP_INCOMPLETE": 6,
        "UNTRUSTED": 7,
        "HUNG_UP": 129,
        "INTERRUPTED": 130,
    }
