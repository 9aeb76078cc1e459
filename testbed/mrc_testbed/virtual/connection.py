"""A connection to a NIC agent in virtual time: the verbs without a socket."""

from collections.abc import Callable
from typing import Any

from mrc_agents.nic.connection import Connection
from mrc_agents.nic.reactions import ClientResources
from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.virtual.lab import VirtualLab


class VirtualConnection(Connection):
    """The counterpart of AgentClient in a live lab.

    Args:
        host: whose agent it leads to.
        on_event: called when there is something to drain, until it was drained.
    """

    def __init__(self, lab: VirtualLab, host: str, on_event: Callable[[], None] = lambda: None) -> None:
        self._on_event = on_event
        self._agent = lab.agent(host)
        self._agent.attach(self)
        self._kinds: frozenset[str] = frozenset()
        self._events: list[dict[str, Any]] = []
        self._is_broken = False
        self.resources = ClientResources()  # what was created through it

    def fileno(self) -> int:
        """Refuse: in virtual time nobody waits for real."""
        raise ValueError(f"{self._agent.host}: a connection in virtual time has no descriptor")

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
        """Return True if events wait, of an agent that lives."""
        return bool(self._events) and not self._is_broken

    def drain_events(self) -> list[dict[str, Any]]:
        """Events that wait."""
        if not self._events:
            self._check()
        events, self._events = self._events, []
        if self._is_broken:
            self._on_event()
        return events

    def close(self) -> None:
        """Ends the connection; the agent takes back what was created through it."""
        if not self._is_broken:
            self._agent.detach(self)
            self._is_broken = True

    # -- for the agent ----------------------------------------------------------------------------

    def notify(self, fields: dict[str, Any]) -> None:
        """An event, for who subscribed to its kind; refusals come unasked."""
        if fields["event"] not in self._kinds and fields["event"] != "refused":
            return
        if not self._events:
            self._on_event()
        self._events.append(fields)

    def break_off(self) -> None:
        if not self._events:
            self._on_event()
        self._is_broken = True

    def _check(self) -> None:
        if self._is_broken:
            raise AgentError(f"the NIC agent of {self._agent.host} died")
