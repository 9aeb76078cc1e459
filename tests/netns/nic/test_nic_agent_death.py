"""An agent that is killed while its NIC works: the data plane is the kernel's, the error says who died."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from nic_lab import BATCH, DISTANT, SPEC, WritePair
from waiting import DEADLINE_NS, DEADLINE_S, poll_until

from mrc_agents.abi import CompletionStatus, Event, EventKind, NicControl, QpState
from mrc_agents.bpf.libbpf import open_pinned
from mrc_agents.bpf.maps import MappedArray, RingBuffer
from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import is_alive
from mrc_testbed.fabric.repair import Repair

BURST = 20 * BATCH


def kill_agent(live: Lab, host: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Kills the agent of *host* and waits until it is gone."""
    (agent,) = [process.identity for process in live.state.processes if process.node == host]
    os.kill(agent.pid, number)
    poll_until(lambda: not is_alive(agent), what=f"the end of the agent of {host}")


def test_receiver_goes_on_without_its_agent_and_the_sender_notices_nothing(doomed: Lab) -> None:
    with WritePair(doomed, DISTANT) as pair:
        pair.write(BURST)
        work_id = pair.post(BURST)
        kill_agent(doomed, "h3")
        assert pair.complete(work_id)["status"] == "success"
        assert pair.complete(pair.post(BURST))["status"] == "success"
        assert pair.state == "RTS"
        with pytest.raises(AgentError, match=r"the NIC agent at .*/h3/agent\.sock (died|is gone)"):
            pair.target.hello()
    with pytest.raises(AgentError, match=r"no NIC agent answers on .*/h3/agent\.sock"):
        AgentClient(doomed.paths.agent_socket("h3"))
    assert any("h3" in problem for problem in lab.status(doomed.name).problems)


def test_client_of_a_killed_agent_is_reported_and_waits_no_longer(doomed: Lab) -> None:
    with WritePair(doomed, ("h1", "h2")) as pair:
        pair.write(BURST)
        # Nobody can stop the NIC once its agent is dead: what it has to do must end by itself.
        pair.post(100 * BATCH)
        kill_agent(doomed, "h1")
        with pytest.raises(AgentError, match=r"the NIC agent at .*/h1/agent\.sock (died|is gone)"):
            pair.source.wait(pair.qpn, DEADLINE_NS)
        with pytest.raises(AgentError, match=r"/h1/agent\.sock (died|is gone)"):
            pair.source.hello()
        assert pair.target.hello()["host"] == "h2"
        # What did arrive went where it was allowed to: nothing around the target was touched.
        assert pair.margin_errors() == 0


@pytest.fixture
def healed(doomed: Lab) -> Iterator[Lab]:
    """The lab with all its agents, whomever the tests before killed."""
    lab.restart(doomed.name)
    with lab.attach(doomed.name) as attached:
        yield attached


@contextmanager
def pinned(live: Lab, host: str, name: str) -> Iterator[int]:
    """Descriptor of a map of a NIC."""
    descriptor = open_pinned(live.paths.node_pins(host) / name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def await_kernel_event(live: Lab, host: str, kind: EventKind) -> Event:
    """The next event of a kind that the NIC of a host without an agent reports."""
    with pinned(live, host, "nic_events") as descriptor:
        ring = RingBuffer(descriptor)
        try:
            while True:
                for record in ring.drain():
                    event = Event.from_buffer_copy(record)
                    if event.kind == kind:
                        return event
                assert select.select([ring.fileno()], [], [], DEADLINE_S)[0], "no event came"
        finally:
            ring.close()


def test_qp_stops_once_its_agent_has_been_silent_for_too_long(healed: Lab) -> None:
    """No process is left that could end its work, of which there is more than a test could wait for."""
    with WritePair(healed, DISTANT) as pair:
        pair.post(1 << 30)
        kill_agent(healed, "h0")
        with pinned(healed, "h0", "nic_control") as descriptor:
            control = MappedArray(descriptor, NicControl)[0]
            limit_ns = control.heartbeat_limit_ns
            assert limit_ns > 1_000_000_000
            control.heartbeat_limit_ns = 1
            event = await_kernel_event(healed, "h0", EventKind.QP_STATE)
            control.heartbeat_limit_ns = limit_ns
        assert (event.a, event.b, event.c) == (QpState.RTS, QpState.ERROR, CompletionStatus.FLUSHED)


def test_agent_that_is_ended_in_the_midst_of_work_ends_in_order(healed: Lab) -> None:
    with WritePair(healed, DISTANT) as pair:
        pair.source.subscribe()
        pair.post(100 * BATCH, depth=1)
        kill_agent(healed, "h0", signal.SIGTERM)
        with pytest.raises(AgentError, match=r"/h0/agent\.sock (died|is gone)"):
            pair.source.hello()
    log = healed.paths.agent_log("h0").read_text()
    assert log.endswith("h0 has ended\n")
    assert "Traceback" not in log


def test_agents_that_died_are_restarted_and_begin_with_nothing(healed: Lab) -> None:
    with WritePair(healed, DISTANT):
        kill_agent(healed, "h0")
        kill_agent(healed, "h2")
    assert lab.restart(healed.name).restarted == ("h0", "h2")
    assert lab.status(healed.name).problems == ()
    with lab.attach(healed.name) as attached:
        assert attached.agent("h0").list_qps() == []
        with WritePair(attached, DISTANT) as pair:
            pair.write(BURST)
            assert pair.wrong_bytes() == 0
    assert lab.restart(healed.name) == Repair()


def test_an_agent_that_lives_is_restarted_when_it_is_named(healed: Lab) -> None:
    with AgentClient(healed.paths.agent_socket("h1")) as client:
        client.register_memory(4096)
        assert lab.restart(healed.name, ["h1"]).restarted == ("h1",)
        with pytest.raises(AgentError, match=r"h1/agent\.sock (died|is gone)"):
            client.hello()
    assert lab.status(healed.name).problems == ()


def test_up_restarts_what_died_of_a_lab_that_is_up(healed: Lab) -> None:
    kill_agent(healed, "h3")
    assert lab.up(SPEC, name=healed.name, runtime="netns").problems == ()


def test_a_switch_has_no_agent_to_restart(healed: Lab) -> None:
    with pytest.raises(UsageError, match="p0-t0-0 is a switch"):
        lab.restart(healed.name, ["p0-t0-0"])


def test_work_completes_though_all_agents_stand_still_for_a_while(healed: Lab) -> None:
    agents = [process.identity for process in healed.state.processes if process.node is not None]
    with WritePair(healed, DISTANT) as pair:
        work_id = pair.post(BURST)
        try:
            for agent in agents:
                os.kill(agent.pid, signal.SIGSTOP)
            problems = " ".join(lab.status(healed.name).problems)
            assert all(f"(pid {agent.pid}) is stopped by a signal" in problems for agent in agents)
        finally:
            for agent in agents:
                os.kill(agent.pid, signal.SIGCONT)
        assert pair.complete(work_id)["status"] == "success"
        assert pair.wrong_bytes() == 0
    assert not lab.status(healed.name).problems
