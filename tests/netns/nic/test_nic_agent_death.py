"""An agent that is killed while its NIC works: the data plane is the kernel's, the error says who died."""

import os
import signal
import time

import pytest
from nic_lab import DEADLINE_NS, DISTANT, LAP, WritePair

from agents.nic.client import AgentClient
from testbed.errors import AgentError
from testbed.fabric import lab
from testbed.fabric.folder_watch import FolderWatch
from testbed.fabric.live import Lab
from testbed.fabric.process import is_alive

pytestmark = pytest.mark.root

BURST = 20 * LAP


def kill_agent(live: Lab, host: str) -> None:
    """Kills the agent of *host* and waits until it is gone."""
    (agent,) = [process.identity for process in live.state.processes if process.node == host]
    os.kill(agent.pid, signal.SIGKILL)
    deadline_ns = time.monotonic_ns() + DEADLINE_NS
    with FolderWatch([live.paths.node_folder(host)]) as watch:
        while is_alive(agent):
            assert time.monotonic_ns() < deadline_ns
            watch.wait([agent], deadline_ns)


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


def test_client_of_a_killed_agent_is_told_and_waits_no_longer(doomed: Lab) -> None:
    with WritePair(doomed, ("h1", "h2")) as pair:
        pair.write(BURST)
        # Nobody can stop the NIC once its agent is dead: what it has to do must end by itself.
        pair.post(100 * LAP)
        kill_agent(doomed, "h1")
        with pytest.raises(AgentError, match=r"the NIC agent at .*/h1/agent\.sock (died|is gone)"):
            pair.source.wait(pair.qpn, DEADLINE_NS)
        with pytest.raises(AgentError, match=r"/h1/agent\.sock (died|is gone)"):
            pair.source.hello()
        assert pair.target.hello()["host"] == "h2"
        # What did arrive went where it was allowed to: nothing around the target was touched.
        assert pair.margin_errors() == 0
