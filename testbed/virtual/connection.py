"""A connection to a NIC agent in virtual time: the verbs without a socket."""

import os
from typing import Any

from mrc_testbed.agents.nic.connection import Connection
from mrc_testbed.agents.nic.reactions import ClientResources
from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.virtual.lab import VirtualLab


class VirtualConnection(Connection):
    """The counterpart of AgentClient in a live lab.

    Args:
        lab: the lab.
        host: whose agent it leads to.

    Attributes:
        resources: what was created through it.

    Raises:
        AgentError: there is no agent.
    """

    def __init__(self, lab: VirtualLab, host: str) -> None:
        self._lab = lab
        self._agent = lab.agent(host)
        self._agent.attach(self)
        self._kinds: frozenset[str] = frozenset()
        self._events: list[dict[str, Any]] = []
        self._ready: int | None = None
        self._is_broken = False
        self.resources = ClientResources()

    def fileno(self) -> int:
        """Readable when an event waits, or the agent is dead."""
        if self._ready is None:
            self._ready = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return self._ready

    def call(self, verb: str, **arguments: Any) -> Any:
        self._check()
        try:
            return self._agent.call(verb, arguments, self.resources)
        except UsageError as error:
            raise UsageError(f"{verb}: {error.message}", hint=error.hint) from error

    def cast(self, verb: str, **arguments: Any) -> None:
        """A verb that is not waited for."""
        self._check()
        self._agent.cast(verb, arguments, self)

    def subscribe(self, *kinds: str) -> None:
        self._check()
        self._kinds = frozenset(kinds)

    @property
    def has_events(self) -> bool:
        """Return True if events wait; no connection to a dead agent has any that `fileno` does not show."""
        return bool(self._events) and not self._is_broken

    def drain_events(self) -> list[dict[str, Any]]:
        """Events that wait.

        Raises:
            AgentError: there are none, and the agent has died.
        """
        if not self._events:
            self._check()
        if self._ready is not None and self._events:
            os.eventfd_read(self._ready)
        events, self._events = self._events, []
        if self._is_broken:
            self._make_readable()
        return events

    def close(self) -> None:
        """Ends the connection; the agent takes back what was created through it."""
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None
        if not self._is_broken:
            self._agent.detach(self)
            self._is_broken = True

    # -- for the agent ----------------------------------------------------------------------------

    def notify(self, fields: dict[str, Any]) -> None:
        """An event, for who subscribed to its kind; refusals come unasked."""
        if fields["event"] not in self._kinds and fields["event"] != "refused":
            return
        if not self._events:
            self._make_readable()
        self._events.append(fields)

    def break_off(self) -> None:
        if not self._events:
            self._make_readable()
        self._is_broken = True

    def _make_readable(self) -> None:
        if self._ready is not None:
            os.eventfd_write(self._ready, 1)
            self._lab.notify()

    def _check(self) -> None:
        if self._is_broken:
            raise AgentError(f"the NIC agent of {self._agent.host} died")
