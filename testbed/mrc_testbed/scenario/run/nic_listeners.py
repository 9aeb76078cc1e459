"""Connections of a run to the NIC agents of all hosts, for what NICs report; faults may kill agents."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from mrc_agents.nic.connection import Connection
from mrc_testbed.errors import AgentError
from mrc_testbed.topology.clos import Clos

_KINDS = ("ev_state", "qp_state", "port_state")


class NicListeners:
    """One per host, from the beginning on.

    Args:
        connect: makes the connection to a host's agent.
        may_fail: whether agents may be dead, die and come back at any time.
    """

    def __init__(self, clos: Clos, connect: Callable[[str], Connection], *, may_fail: bool = False) -> None:
        self._open = connect
        self._may_fail = may_fail
        self._hosts = tuple(host.name for host in clos.hosts())
        self._clients: dict[str, Connection] = {}
        self._may_go: set[str] = set()
        self._killed: set[str] = set()
        self._waiting: set[str] = set()
        with ExitStack() as undone:
            undone.callback(self.close)
            if may_fail:
                self.connect_again(self._hosts)
            else:
                self._connect(self._hosts)
            undone.pop_all()

    def is_killed(self, host: str) -> bool:
        """Return True if the run goes on without the agent that the host had when it began."""
        return self._may_fail or host in self._killed

    def expect_loss(self, hosts: Iterable[str]) -> None:
        """From now on the agents of *hosts* may go."""
        self._may_go.update(hosts)
        self._killed.update(hosts)

    def connect_again(self, hosts: Iterable[str]) -> None:
        """To the agents of *hosts*, which were restarted, as soon as they are there.

        Another fault may still keep one from coming back.
        """
        for host in hosts:
            self._forget(host)
            self._waiting.add(host)
        self._connect_waiting()

    def messages(self) -> list[dict[str, Any]]:
        """Messages of agents since the last call, host by host."""
        self._connect_waiting()
        return [message for host in self._hosts for message in self._messages_of(host)]

    def close(self) -> None:
        for host in self._hosts:
            self._forget(host)

    def _messages_of(self, host: str) -> list[dict[str, Any]]:
        client = self._clients.get(host)
        if client is None:
            return []
        try:
            return list(client.drain_events())
        except AgentError as error:
            if self._may_fail:
                self._waiting.add(host)
            if self._may_fail or host in self._may_go:
                self._forget(host)
                return []
            hint = "mrc-testbed status says which nodes still work"
            raise AgentError(f"the NIC agent of {host} is lost: {error.message}", hint=hint) from error

    def _connect_waiting(self) -> None:
        for host in sorted(self._waiting):
            try:
                self._connect((host,))
            except AgentError:
                self._forget(host)
                continue
            self._waiting.remove(host)
            self._may_go.discard(host)

    def _connect(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            self._clients[host] = self._open(host)
            self._clients[host].subscribe(*_KINDS)

    def _forget(self, host: str) -> None:
        client = self._clients.pop(host, None)
        if client is not None:
            client.close()
