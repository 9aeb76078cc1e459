"""The thread of a live engine: it wakes for events and commands, and dies aloud."""

import socket

import pytest

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import AgentError
from mrc_testbed.workloads.engine import WorkloadEngine
from mrc_testbed.workloads.transport import HostLost

LATER_NS = 30_000_000_000


class Announced:
    """A transport of no host, whose events a test announces."""

    has_events = False

    def __init__(self):
        self.near, self.far = socket.socketpair()
        self.found = []

    def fileno(self):
        return self.near.fileno()

    def open(self, hosts):
        assert hosts == []

    def announce(self, event):
        self.found.append(event)
        self.far.send(b"!")

    def events(self):
        if self.found:
            self.near.recv(1)
        events, self.found = self.found, []
        return events

    def close(self):
        self.near.close()
        self.far.close()


@pytest.fixture
def transport():
    return Announced()


@pytest.fixture
def engine(transport):
    engine = WorkloadEngine(transport)
    engine.prepare([], 1)
    yield engine
    engine.close()


def test_an_event_wakes_the_thread(engine, transport):
    transport.announce(HostLost("h1", "the NIC agent of h1 is lost: died"))
    with engine._changed:
        assert engine._changed.wait_for(lambda: engine._lost_agent is not None, LATER_NS / 1e9)
    with pytest.raises(AgentError, match="h1 is lost"):
        engine.collect(monotonic_ns() + LATER_NS)


def test_a_command_is_carried_out_in_the_thread(engine):
    done = []
    engine._command(lambda: done.append(engine._thread.ident))
    assert done == [engine._thread.ident]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_ends_the_thread_is_raised_to_who_waits(engine):
    def fail():
        raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError):
        engine._command(fail)
    engine._thread.join(LATER_NS / 1e9)
    with pytest.raises(ZeroDivisionError):
        engine.wait(monotonic_ns() + LATER_NS)
