"""The base of a NIC's API: verbs with a response, verbs without, events."""

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Final

from mrc_agents.errors import AgentError, UsageError
from mrc_agents.nic.verb_methods import VerbMethods

_HELLO: Final = {"host", "host_index", "memory_bytes", "qps_max"}


class Connection(VerbMethods):
    """A connection to a NIC agent. What is created through it ends with it."""

    def hello(self) -> dict[str, Any]:
        """The host of the agent: host, host_index, memory_bytes, qps_max."""
        try:
            result = super().hello()
        except UsageError as error:  # it takes no argument that could be refused
            raise AgentError(f"a NIC agent does not identify itself: {error.message}") from error
        if not result.keys() >= _HELLO:
            raise AgentError("a NIC agent does not identify itself")
        return result

    @abstractmethod
    def cast(self, verb: str, **arguments: Any) -> None:
        """Sends a verb without waiting; one that the agent refuses comes back as an event `refused`."""

    @abstractmethod
    def subscribe(self, *kinds: str) -> None:
        """Asks for events of these kinds, for all when none is given."""

    @abstractmethod
    def fileno(self) -> int:
        """Readable when an event waits, or the agent has died."""

    @property
    @abstractmethod
    def has_events(self) -> bool:
        """Return True if events wait that `fileno` does not show, because they came along with a response."""

    @abstractmethod
    def drain_events(self) -> Iterable[dict[str, Any]]:
        """Events that wait, oldest first; does not block."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection, and with it QPs and regions made through it."""
