"""Runs the command line in this process."""

import os
from dataclasses import dataclass

import pytest

from mrc_testbed.cli.app import run


@dataclass(frozen=True)
class Finished:
    status: int
    stdout: str
    stderr: str


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path, tmp_path_factory):
    """No flag from outside, nothing known of this machine, no lab, and bug logs in a folder of the test."""
    for name in [name for name in os.environ if name.startswith("MRC_TESTBED_")]:
        monkeypatch.delenv(name)
    # a socket's path has 107 bytes: without the name of the test there is room for any number of runs
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path_factory.mktemp("lab")))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def mrc_testbed(capsys):
    """The command: takes its arguments, gives status, stdout and stderr."""

    def invoke(*arguments: str) -> Finished:
        status = run(list(arguments))
        out, err = capsys.readouterr()
        return Finished(status, out, err)

    return invoke
