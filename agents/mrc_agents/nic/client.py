"""A synchronous connection to a NIC agent over its socket."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mrc_agents.clock import Timeout
from mrc_agents.closing import Closing
from mrc_agents.errors import AgentError, UsageError
from mrc_agents.nic.connection import Connection
from mrc_agents.node_file import socket_address

_DEADLINE_NS = 10_000_000_000
MESSAGE_BYTES_MAX = 16 << 20
"""Longer ones are not listened to: an agent in a container is not trusted with our memory."""


class AgentClient(Connection, Closing):
    """A connection to one agent; its methods are the verbs.

    Args:
        timeout_ns: how long an answer may take; as an attribute, it may be set between calls.

    Raises:
        AgentError: nobody listens there, the agent died, or it did not answer in time.
        UsageError: the agent refused the arguments; the message names the attribute.
    """

    def __init__(self, path: Path, timeout_ns: int = _DEADLINE_NS) -> None:
        self._path = path
        self.timeout_ns = timeout_ns
        self._buffer = b""
        self._next_id = 1
        self._events: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with socket_address(path) as address:
                self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            raise AgentError(f"no NIC agent answers on {path}: {error.strerror}") from error
        except AgentError:
            self._socket.close()
            raise

    def close(self) -> None:
        """Ends the connection; the agent and its QPs go on."""
        self._socket.close()

    def fileno(self) -> int:
        """For select(): readable when an event or an answer waits."""
        return self._socket.fileno()

    def call(self, verb: str, **arguments: Any) -> Any:
        """The result of any verb; one that waits may take its `wait_ns` longer to answer."""
        number = self._next_id
        self._next_id += 1
        request = {"id": number, "verb": verb, "arguments": arguments}
        timeout = Timeout(self.timeout_ns + arguments.get("wait_ns", 0))
        self._send(request)
        while True:
            message = self._read_message(timeout, f"a response to {verb!r}")
            if "event" in message:
                self._events.append(message)
            elif message.get("id") == number:
                break
        if "error" in message:
            hint = message.get("hint")
            raise UsageError(f"{verb}: {message['error']}", hint=hint if isinstance(hint, str) else None)
        if "result" not in message:
            raise AgentError(f"the NIC agent at {self._path} sent a response without a result")
        return message["result"]

    def cast(self, verb: str, **arguments: Any) -> None:
        """Sends a verb without waiting; one that the agent refuses comes back as an event `refused`."""
        self._send({"verb": verb, "arguments": arguments})

    def _send(self, request: dict[str, Any]) -> None:
        try:
            self._socket.settimeout(self.timeout_ns / 1e9)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise AgentError(f"the NIC agent at {self._path} is gone: {error}") from error

    def _read_message(self, timeout: Timeout, what: str) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            step_ns = timeout.next_step_ns()
            if step_ns <= 0:
                raise AgentError(f"the NIC agent at {self._path} did not send {what} in time")
            self._socket.settimeout(step_ns / 1e9)
            try:
                part = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError as error:
                raise AgentError(f"the NIC agent at {self._path} is gone: {error}") from error
            if not part:
                raise AgentError(f"the NIC agent at {self._path} died")
            self._keep(part)
        return self._take_message()

    def _keep(self, part: bytes) -> None:
        if len(self._buffer) + len(part) > MESSAGE_BYTES_MAX:
            raise AgentError(
                f"the NIC agent at {self._path} sent a message of over {MESSAGE_BYTES_MAX} bytes"
            )
        self._buffer += part

    def _take_message(self) -> dict[str, Any]:
        """The first message in the buffer, which holds a whole one."""
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise AgentError(f"the NIC agent at {self._path} sent an invalid message: {error}") from error
        if not isinstance(message, dict):
            raise AgentError(f"the NIC agent at {self._path} sent an invalid message: {line[:80]!r}")
        return message

    # -- events -----------------------------------------------------------------------------------

    def subscribe(self, *kinds: str) -> None:
        """From now on the agent pushes events; read them with `drain_events` or `next_event`.

        Args:
            kinds: only these (completion, receive, qp_state, ev_state, port_state); none: all.
        """
        self.call("subscribe", kinds=list(kinds))

    @property
    def has_events(self) -> bool:
        """Return True if events were read along with a response, as messages or not yet parsed."""
        return bool(self._events) or b"\n" in self._buffer

    def drain_events(self) -> Iterator[dict[str, Any]]:
        """Events that wait, oldest first; does not block."""
        self._socket.setblocking(False)
        try:
            while part := self._socket.recv(1 << 16):
                self._keep(part)
            raise AgentError(f"the NIC agent at {self._path} died")
        except BlockingIOError:
            pass
        except OSError as error:
            raise AgentError(f"the NIC agent at {self._path} is gone: {error}") from error
        while b"\n" in self._buffer:
            message = self._take_message()
            if "event" in message:  # else the answer to a call that was given up
                self._events.append(message)
        events, self._events = self._events, []
        yield from events

    def next_event(self, timeout_ns: int) -> dict[str, Any]:
        """The next event.

        Raises:
            AgentError: none came in time.
        """
        timeout = Timeout(timeout_ns)
        while not self._events:
            message = self._read_message(timeout, "an event")
            if "event" in message:
                self._events.append(message)
        return self._events.pop(0)
