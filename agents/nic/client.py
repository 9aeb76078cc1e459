"""A synchronous client of a NIC agent: the verbs as methods."""

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testbed.errors import AgentError, UsageError

_DEADLINE_NS = 10_000_000_000


class AgentClient:
    """A connection to one agent; methods are the verbs of agents.nic.verbs.

    Args:
        path: the agent's socket.
        timeout_ns: how long an answer may take.

    Raises:
        AgentError: nobody listens there, the agent died, or it did not answer in time.
        UsageError: the agent refused the arguments; the message names the attribute.
    """

    def __init__(self, path: Path, timeout_ns: int = _DEADLINE_NS) -> None:
        self._path = path
        self._timeout_ns = timeout_ns
        self._buffer = b""
        self._next_id = 1
        self._events: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise AgentError(f"no NIC agent answers on {path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; the agent and its QPs go on."""
        self._socket.close()

    def fileno(self) -> int:
        """For select(): readable when an event or an answer waits."""
        return self._socket.fileno()

    def call(self, verb: str, *, answer_ns: int | None = None, **arguments: Any) -> Any:
        """The result of any verb; the answer may take *answer_ns* instead of the client's own limit."""
        number = self._next_id
        self._next_id += 1
        request = {"id": number, "verb": verb, "arguments": arguments}
        deadline_ns = time.monotonic_ns() + (answer_ns or self._timeout_ns)
        self._send(request)
        while True:
            message = self._read_message(deadline_ns, f"an answer to {verb!r}")
            if "event" in message:
                self._events.append(message)
            elif message.get("id") == number:
                break
        if "error" in message:
            raise UsageError(f"{verb}: {message['error']}", hint=message.get("hint"))
        return message["result"]

    def cast(self, verb: str, **arguments: Any) -> None:
        """Sends a verb without waiting; one that the agent refuses comes back as an event `refused`."""
        self._send({"verb": verb, "arguments": arguments})

    def _send(self, request: dict[str, Any]) -> None:
        try:
            self._socket.settimeout(self._timeout_ns / 1e9)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise AgentError(f"the NIC agent at {self._path} is gone: {error}") from error

    def _read_message(self, deadline_ns: int, what: str) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            left_ns = deadline_ns - time.monotonic_ns()
            if left_ns <= 0:
                raise AgentError(f"the NIC agent at {self._path} did not send {what} in time")
            self._socket.settimeout(left_ns / 1e9)
            try:
                part = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError as error:
                raise AgentError(f"the NIC agent at {self._path} is gone: {error}") from error
            if not part:
                raise AgentError(f"the NIC agent at {self._path} died")
            self._buffer += part
        return self._take_message()

    def _take_message(self) -> dict[str, Any]:
        """The first message in the buffer, which holds a whole one."""
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise AgentError(f"the NIC agent at {self._path} sent what is no message: {error}") from error
        if not isinstance(message, dict):
            raise AgentError(f"the NIC agent at {self._path} sent what is no message: {line[:80]!r}")
        return message

    # -- verbs ------------------------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """Who answers: host, host_index, memory_bytes, qps_max."""
        result: dict[str, Any] = self.call("hello")
        return result

    def register_memory(self, length: int) -> dict[str, int]:
        """A new region: offset, length, r_key."""
        result: dict[str, int] = self.call("register_memory", length=length)
        return result

    def deregister_memory(self, r_key: int) -> None:
        """Invalidates a key."""
        self.call("deregister_memory", r_key=r_key)

    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed*."""
        self.call("fill", offset=offset, length=length, seed=seed)

    def verify(self, offset: int, length: int, seed: int) -> int:
        """Number of bytes that differ from the test pattern of *seed*."""
        return int(self.call("verify", offset=offset, length=length, seed=seed))

    def create_qp(self, peer_host: int, evs: list[int], **attributes: Any) -> int:
        """Number of a new QP (see Verbs.create_qp); attributes are those of agents.nic.qp.QpAttributes."""
        return int(self.call("create_qp", peer_host=peer_host, evs=evs, **attributes))

    def create_rc_qp(self, peer_host: int, evs: list[int], **attributes: Any) -> int:
        """Number of a new QP of a reliable connection (docs/transports.md)."""
        return int(self.call("create_rc_qp", peer_host=peer_host, evs=evs, **attributes))

    def create_stream(self, peer_host: int, protocol: str, congestion: str) -> int:
        """Number of a connection to be made over `tcp` or `mptcp`."""
        return int(self.call("create_stream", peer_host=peer_host, protocol=protocol, congestion=congestion))

    def await_stream(self, qpn: int, peer_qpn: int) -> None:
        """Lets the far end connect."""
        self.call("await_stream", qpn=qpn, peer_qpn=peer_qpn)

    def connect_stream(self, qpn: int, peer_qpn: int, plane: int) -> None:
        """Connects to the far end, which waits for it."""
        self.call("connect_stream", qpn=qpn, peer_qpn=peer_qpn, plane=plane)

    def connect_qp(self, qpn: int, peer_qpn: int) -> None:
        """Brings a QP to RTS."""
        self.call("connect_qp", qpn=qpn, peer_qpn=peer_qpn)

    def modify_qp(self, qpn: int, state: str, **attributes: int) -> None:
        """Moves a QP to another state (see Verbs.modify_qp)."""
        self.call("modify_qp", qpn=qpn, state=state, **attributes)

    def adjust_qp(
        self, qpn: int, *, mpr_dest: int | None = None, receiver_penalty: int | None = None
    ) -> None:
        """Changes what a QP that receives asks of its peer (see Verbs.adjust_qp)."""
        self.call("adjust_qp", qpn=qpn, mpr_dest=mpr_dest, receiver_penalty=receiver_penalty)

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use."""
        self.call("destroy_qp", qpn=qpn)

    def list_qps(self) -> list[dict[str, Any]]:
        """Every QP of the NIC."""
        result: list[dict[str, Any]] = self.call("list_qps")
        return result

    def post_write(self, qpn: int, **work: int) -> int:
        """Posts work (see Verbs.post_write); returns its id."""
        return int(self.call("post_write", qpn=qpn, **work))

    def post_receive(self, qpn: int, count: int = 1) -> None:
        """Lets the peer's next WRITEs with immediate come in."""
        self.call("post_receive", qpn=qpn, count=count)

    def poll_receive(self, qpn: int) -> list[dict[str, Any]]:
        """WRITEs with immediate that have arrived, in order: number, immediate, length, time_ns."""
        result: list[dict[str, Any]] = self.call("poll_receive", qpn=qpn)
        return result

    def stop_work(self, qpn: int, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        self.call("stop_work", qpn=qpn, work_id=work_id)

    def poll(self, qpn: int) -> list[dict[str, Any]]:
        """Completions that wait: work_id, iterations, status, time_ns."""
        result: list[dict[str, Any]] = self.call("poll", qpn=qpn)
        return result

    def wait(self, qpn: int, timeout_ns: int) -> list[dict[str, Any]]:
        """Completions as soon as there are any; none when *timeout_ns* passes first."""
        result: list[dict[str, Any]] = self.call(
            "wait", qpn=qpn, wait_ns=timeout_ns, answer_ns=timeout_ns + self._timeout_ns
        )
        return result

    def ev_list(self, qpn: int) -> list[dict[str, Any]]:
        """Every EV of a QP."""
        result: list[dict[str, Any]] = self.call("ev_list", qpn=qpn)
        return result

    def ev_deny(self, qpn: int, evs: list[int]) -> None:
        """Takes EVs out of use."""
        self.call("ev_deny", qpn=qpn, evs=evs)

    def ev_allow(self, qpn: int, evs: list[int]) -> None:
        """Gives denied EVs back."""
        self.call("ev_allow", qpn=qpn, evs=evs)

    def probe(self, qpn: int, evs: list[int], kind: str = "ev") -> None:
        """Sends EV probes, or reliability probes."""
        self.call("probe", qpn=qpn, evs=evs, kind=kind)

    def probe_evs(self, peer_host: int, evs: list[int], wait_ns: int) -> list[dict[str, Any]]:
        """Probes paths to a host without a QP: `ev`, `req_id`, `port` and `rtt_ns`, None where none came."""
        result: list[dict[str, Any]] = self.call(
            "probe_evs", peer_host=peer_host, evs=evs, wait_ns=wait_ns, answer_ns=wait_ns + self._timeout_ns
        )
        return result

    def start_link_probes(self, interval_ns: int, lag_rounds: int) -> None:
        """Has the NIC probe its links from now on, a round every *interval_ns*."""
        self.call("start_link_probes", interval_ns=interval_ns, lag_rounds=lag_rounds)

    def stop_link_probes(self) -> None:
        """Ends that."""
        self.call("stop_link_probes")

    def counters(self) -> dict[str, int]:
        """Counters of the NIC."""
        result: dict[str, int] = self.call("counters")
        return result

    def port_status(self) -> list[bool]:
        """Carrier of each port, by plane."""
        result: list[bool] = self.call("port_status")
        return result

    # -- events -----------------------------------------------------------------------------------

    def subscribe(self, *kinds: str) -> None:
        """From now on the agent pushes events; read them with `drain_events` or `next_event`.

        Args:
            kinds: only these (completion, receive, qp_state, ev_state, port_state); none: all.
        """
        self.call("subscribe", kinds=list(kinds))

    def drain_events(self) -> Iterator[dict[str, Any]]:
        """Events that wait, oldest first; does not block."""
        self._socket.setblocking(False)
        try:
            while part := self._socket.recv(1 << 16):
                self._buffer += part
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
        deadline_ns = time.monotonic_ns() + timeout_ns
        while not self._events:
            message = self._read_message(deadline_ns, "an event")
            if "event" in message:
                self._events.append(message)
        return self._events.pop(0)
