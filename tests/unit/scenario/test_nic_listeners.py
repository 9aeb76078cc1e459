"""Connections of a run to agents that faults kill, and that come back when they can."""

from typing import Any

import pytest

from mrc_testbed.errors import AgentError
from mrc_testbed.scenario.run.nic_listeners import NicListeners
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec


class FakeAgents:
    """Agents by host: those that live answer with one message."""

    def __init__(self) -> None:
        self.living = {"h0", "h1"}

    def connect(self, host: str) -> "FakeConnection":
        if host not in self.living:
            raise AgentError(f"no NIC agent answers on {host}")
        return FakeConnection(self, host)


class FakeConnection:
    def __init__(self, agents: FakeAgents, host: str) -> None:
        self._agents = agents
        self._host = host

    def subscribe(self, *kinds: str) -> None:
        del kinds
        if self._host not in self._agents.living:
            raise AgentError(f"the NIC agent of {self._host} died")

    def drain_events(self) -> list[dict[str, Any]]:
        self.subscribe()
        return [{"host": self._host}]

    def close(self) -> None:
        pass


@pytest.fixture
def agents() -> FakeAgents:
    return FakeAgents()


@pytest.fixture
def listeners(agents: FakeAgents) -> NicListeners:
    clos = resolve_topology(TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2))
    return NicListeners(clos, agents.connect)  # type: ignore[arg-type]


def received(listeners: NicListeners) -> list[str]:
    return [message["host"] for message in listeners.messages()]


def test_an_agent_that_another_fault_keeps_away_is_connected_when_it_is_back(agents, listeners) -> None:
    listeners.expect_loss(["h0"])
    agents.living.remove("h0")
    assert received(listeners) == ["h1"]
    listeners.connect_again(["h0"])
    assert received(listeners) == ["h1"]
    agents.living.add("h0")
    assert received(listeners) == ["h0", "h1"]


def test_an_agent_that_is_back_may_not_go_again(agents, listeners) -> None:
    listeners.expect_loss(["h0"])
    listeners.connect_again(["h0"])
    agents.living.remove("h0")
    with pytest.raises(AgentError, match="agent of h0 is lost"):
        listeners.messages()


def test_an_agent_that_no_fault_kills_may_not_go(agents, listeners) -> None:
    agents.living.remove("h1")
    with pytest.raises(AgentError, match="agent of h1 is lost"):
        listeners.messages()


def test_messages_of_agents_that_may_fail_come_while_they_live(agents) -> None:
    agents.living.remove("h0")
    clos = resolve_topology(TopologySpec(planes=1, t0=1, t1=1, hosts_per_t0=2))
    listeners = NicListeners(clos, agents.connect, may_fail=True)
    assert received(listeners) == ["h1"]
    agents.living = {"h0"}
    assert received(listeners) == ["h0"]
    agents.living = {"h0", "h1"}
    assert received(listeners) == ["h0", "h1"]
    assert listeners.is_killed("h1")
