"""stdout and stderr as others give them: encodings without a letter, full disks, readers that have left."""

import subprocess
import sys

import pytest

SCRIPT = """
import os
import sys
from mrc_testbed.cli import app
from mrc_testbed.errors import UsageError

def stand_in(arguments):
    return app.run_to_exit_code(lambda: command(*arguments), arguments)

def command(kind):
    if kind == "pour":
        os.set_blocking(1, False)
    if kind == "fail":
        raise UsageError("Zażółć: no such file")
    for _ in range(3):
        print("Zażółć", "x" * 100_000, flush=True)
    return 4

if sys.argv[1] in ("fail", "print", "pour"):
    app.run = stand_in
app.main()
"""
FULL = "error: stdout cannot be written to: No space left on device\n"


def ends(kind, *, to="", **environment):
    command = ["bash", "-c", f'"$@" {to}; exit "${{PIPESTATUS[0]}}"', "_", sys.executable, "-c", SCRIPT, kind]
    ended = subprocess.run(command, capture_output=True, encoding="latin-1", check=False, env=environment)
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1:strict"])
def test_an_encoding_without_a_letter_costs_no_verdict_and_no_message(encoding):
    status, out, err = ends("print", PYTHONIOENCODING=encoding)
    assert (status, err) == (4, "")
    assert out.startswith("Za\\u017c")
    status, out, err = ends("fail", PYTHONIOENCODING=encoding)
    assert (status, out) == (2, "")
    assert err.startswith("error: Za\\u017c")


@pytest.mark.parametrize(("kind", "status"), [("--help", 0), ("--version", 0), ("print", 4), ("fail", 2)])
def test_a_reader_that_has_left_changes_no_status(kind, status):
    assert ends(kind, to="2>&1 | true") == (status, "", "")


@pytest.mark.parametrize("kind", ["--help", "--version", "print"])
def test_a_full_disk_below_stdout_is_named_once(kind):
    assert ends(kind, to="> /dev/full") == (1, "", FULL)


@pytest.mark.parametrize("to", ["2> /dev/full", "2>&-", ">&- 2>&-"])
def test_a_message_that_cannot_be_written_changes_no_status(to):
    assert ends("fail", to=to) == (2, "", "")


def test_a_pipe_that_does_not_block_is_awaited():
    status, out, err = ends("pour")
    assert (status, out.count("x"), err) == (4, 300_000, "")


def test_a_closed_stdout_is_no_error():
    assert ends("--help", to=">&-") == (0, "", "")
