"""A lab that does not exist is a wrong command line, whichever command it was said to."""

import pytest

COMMANDS = (
    "status",
    "restart",
    "shell",
    "logs",
    "exec h0 -- true",
    "top --once",
    "serve",
    "probe links",
    "check",
    "inspect --queues",
    "capture p0-t0-0:0 -w -",
    "bench write-bw h0 h1",
    "fault list",
    "fault add loss --link p0-t0-0:0 --ratio 5% --for 1s",
    "fault clear --all",
    "ev list h0 h1",
    "ev deny h0 h1 0",
    "ev probe h0 h1",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_lab_that_does_not_exist_has_status_2(mrc_testbed, monkeypatch, command):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    finished = mrc_testbed("-n", "nowhere", *command.split())
    assert "there is no lab 'nowhere'" in finished.stderr, finished
    assert finished.status == 2


@pytest.mark.parametrize("words", [("-n", "", "status"), ("status", "-n", "")])
def test_an_empty_name_is_refused(mrc_testbed, words):
    finished = mrc_testbed(*words)
    assert (finished.status, finished.stderr.splitlines()[0]) == (2, "error: -n names no lab")
