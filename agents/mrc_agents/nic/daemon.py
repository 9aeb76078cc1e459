"""The agent's event loop: requests from its socket, events from the kernel, carriers, probes."""

import asyncio
import contextlib
import json
import logging
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from mrc_agents.abi import Event, Limit
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import TestbedError, UsageError
from mrc_agents.nic.application_link import ApplicationLink
from mrc_agents.nic.arguments import check_arguments
from mrc_agents.nic.config import AgentConfig
from mrc_agents.nic.control import WAIT_NS_MAX, Controller, PathProbes
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.reactions import ClientResources, Reactions
from mrc_agents.nic.verb import all_verbs, verb

_RTMGRP_LINK = 1
_RTM_NEWLINK = 16
_RTM_DELLINK = 17
_RTM_GETLINK = 18
_NLM_F_REQUEST_DUMP = 0x301
_IFF_RUNNING = 0x40
_IFF_LOWER_UP = 0x10000
_HEADER = struct.Struct("=IHHII")
_IFINFO = struct.Struct("=BxHiII")  # struct ifinfomsg


class CarrierWatch:
    """A netlink socket subscribed to link changes of the network namespace it was made in.

    It asks for the state of all links at once, so the first changes report the present state.
    """

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self.socket.bind((0, _RTMGRP_LINK))
        length = _HEADER.size + _IFINFO.size
        request = _HEADER.pack(length, _RTM_GETLINK, _NLM_F_REQUEST_DUMP, 1, 0)
        self.socket.send(request + _IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0))

    def changes(self) -> Iterator[tuple[int, bool]]:
        """(lab-wide port id, has carrier) of each message that waits, oldest first."""
        while True:
            try:
                message = self.socket.recv(65536)
            except BlockingIOError:
                return
            yield from parse_link_messages(message)

    def close(self) -> None:
        self.socket.close()


def parse_link_messages(message: bytes) -> Iterator[tuple[int, bool]]:
    """(port id, has carrier) of each message about one of our ports in a datagram."""
    offset = 0
    while offset + _HEADER.size <= len(message):
        length, kind, _, _, _ = _HEADER.unpack_from(message, offset)
        if length < _HEADER.size:
            return
        if kind in {_RTM_NEWLINK, _RTM_DELLINK} and offset + _HEADER.size + _IFINFO.size <= len(message):
            _, _, index, flags, _ = _IFINFO.unpack_from(message, offset + _HEADER.size)
            if index >= Limit.IFINDEX_BASE:
                is_up = kind == _RTM_NEWLINK and flags & _IFF_RUNNING and flags & _IFF_LOWER_UP
                yield index - Limit.IFINDEX_BASE, bool(is_up)
        offset += (length + 3) & ~3


_log = logging.getLogger(__name__)
_LINE_BYTES_MAX = 1 << 20
_BACKLOG_BYTES_MAX = 8 << 20
_EVENT_KINDS = frozenset({"completion", "receive", "qp_state", "ev_state", "port_state"})


def _parse_request(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not a request: {error}") from error
    if (
        not isinstance(request, dict)
        or not isinstance(request.get("verb"), str)
        or not isinstance(request.get("arguments", {}), dict)
    ):
        raise UsageError("not a request: an object with a verb and its arguments is expected")
    return request


def _checked_kinds(kinds: list[str] | None = None) -> frozenset[str] | None:
    """The kinds of events that a subscriber asks for; None for all."""
    unknown = sorted(set(kinds or ()) - _EVENT_KINDS)
    if unknown:
        raise UsageError(f"kinds: no event {unknown[0]!r}; known: {', '.join(sorted(_EVENT_KINDS))}")
    return frozenset(kinds) if kinds else None


def _wait_in_thread(wait: Callable[[], None], then: Callable[[], None]) -> None:
    """Calls *wait* in a thread and, if it succeeds, *then* in the loop."""

    def done(waited: asyncio.Future[None]) -> None:
        if waited.cancelled():
            return
        error = waited.exception()
        if error is None:
            then()
        else:
            _log.warning("memory that was given back is not used again: %s", error)

    asyncio.get_running_loop().run_in_executor(None, wait).add_done_callback(done)


class NicAgent:
    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._device = NicDevice(config.pins)
        self._events = self._device.open_events()
        self._path_probes = PathProbes(self._device)
        self._reactions = Reactions(config, self._device, self._publish, self._path_probes.answered)
        self._verbs = self._reactions.verbs
        controller = Controller(config, self._reactions, self._path_probes)
        self._applications = ApplicationLink(self._reactions, self._device, controller, self._arm)
        self._async_verbs: dict[str, Callable[..., Awaitable[Any]]] = {
            name: each
            for holder in (self, self._verbs)
            for name, each in all_verbs(holder, that_wait=True).items()
        }
        self._verbs.numbers.take_events = self._on_kernel_events
        self._verbs.memory_grace.in_background = _wait_in_thread
        self._carrier = CarrierWatch()
        self._subscribers: dict[asyncio.StreamWriter, frozenset[str] | None] = {}
        self._arrivals = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ns = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serves until cancelled; *on_ready* is called once the socket answers."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._events.fileno(), self._on_kernel_events)
        loop.add_reader(self._carrier.socket.fileno(), self._on_carrier)
        self._reactions.start()
        self._arm()
        self._config.socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(
            self._serve, path=str(self._config.socket), limit=_LINE_BYTES_MAX
        )
        self._config.socket.chmod(0o600)
        self._applications.start()
        _log.info("%s listens on %s", self._config.host, self._config.socket)
        try:
            on_ready()
            async with server:
                await server.serve_forever()
        finally:
            self._is_ending = True
            self._config.socket.unlink(missing_ok=True)
            loop.remove_reader(self._events.fileno())
            loop.remove_reader(self._carrier.socket.fileno())
            if self._timer is not None:
                self._timer.cancel()
            self._applications.close()
            self._carrier.close()
            self._device.close()
            _log.info("%s has ended", self._config.host)

    # -- requests ---------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owned = ClientResources()
        try:
            while line := await reader.readline():
                reply = await self._answer(line, writer, owned)
                if reply is not None:
                    writer.write(json.dumps(reply).encode() + b"\n")
                    await writer.drain()
        except (ConnectionError, ValueError) as error:
            _log.info("a client left: %s", error)
        finally:
            self._subscribers.pop(writer, None)
            if not self._is_ending:  # else the kernel ends the QPs, as it does when an agent is killed
                self._reactions.release(owned)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(
        self, line: bytes, writer: asyncio.StreamWriter, owned: ClientResources
    ) -> dict[str, Any] | None:
        """The answer to a request; for one without an id only a refusal, as an event."""
        try:
            request = _parse_request(line)
        except UsageError as error:
            return {"id": None, "error": error.message, "hint": error.hint}
        reply = await self._carry_out(request, line, writer, owned)
        if "id" in request:
            return {"id": request["id"], **reply}
        if "error" not in reply:
            return None
        fields = {"event": "refused", "time_ns": monotonic_ns(), "host": self._config.host}
        qpn = request.get("arguments", {}).get("qpn")
        return fields | {"verb": request["verb"], "qpn": qpn, "error": reply["error"]}

    async def _carry_out(
        self, request: dict[str, Any], line: bytes, writer: asyncio.StreamWriter, owned: ClientResources
    ) -> dict[str, Any]:
        """The result of a request, or why it was refused."""
        try:
            verb = request["verb"]
            arguments = request.get("arguments", {})
            if verb == "subscribe":
                self._subscribers[writer] = _checked_kinds(**arguments)
                result: Any = None
            elif verb in self._async_verbs:
                check_arguments(self._async_verbs[verb], arguments)
                result = await self._async_verbs[verb](**arguments)
            elif verb in self._verbs.table:
                result = self._reactions.call(verb, arguments, owned)
                self._arm()
            else:
                return {"error": f"no verb {verb!r}"}
        except TestbedError as error:
            return {"error": error.message, "hint": error.hint}
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("bad request %r: %s", line[:200], error)
            return {"error": f"bad request: {error}"}
        return {"result": result}

    @verb
    async def probe_evs(self, peer_host: int, evs: list[int], wait_ns: int) -> list[dict[str, Any]]:
        """Probes paths to a host without a QP; for each EV `ev`, `port`, `req_id`, and `rtt_ns` or None.

        Args:
            peer_host: index of the host.
            evs: EVs of any plane, each probed once.
            wait_ns: how long an answer may take; returns at once when all have come.
        """
        self._path_probes.check(peer_host, evs, wait_ns)
        return await self._path_probes.probe(peer_host, evs, wait_ns)

    @verb
    async def wait(self, qpn: int, wait_ns: int) -> list[dict[str, Any]]:
        """Completions of a QP as soon as there are any; none when the time-out passes first.

        Args:
            qpn: the QP.
            wait_ns: how long to wait at most.
        """
        if not 0 <= wait_ns <= WAIT_NS_MAX:
            raise UsageError(f"wait_ns: {wait_ns}; 0 to {WAIT_NS_MAX} is accepted")
        deadline = asyncio.get_running_loop().time() + wait_ns / 1e9
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                while True:
                    self._arrivals.clear()
                    if found := self._verbs.poll(qpn):
                        return found
                    await self._arrivals.wait()
        return []

    # -- kernel -----------------------------------------------------------------------------------

    def _on_kernel_events(self) -> None:
        self._reactions.on_events(Event.from_buffer_copy(record) for record in self._events.drain())
        self._arrivals.set()
        self._arm()

    def _on_carrier(self) -> None:
        for port_id, is_up in self._carrier.changes():
            self._reactions.on_carrier(port_id, is_up=is_up)
        self._arm()

    def _publish(self, fields: dict[str, Any]) -> None:
        self._applications.on_event(fields)
        listeners = [
            writer for writer, kinds in self._subscribers.items() if kinds is None or fields["event"] in kinds
        ]
        if not listeners:
            return
        line = json.dumps(fields).encode() + b"\n"
        for writer in listeners:
            if writer.transport.get_write_buffer_size() > _BACKLOG_BYTES_MAX:
                _log.warning("a subscriber does not read; it is dropped")
                del self._subscribers[writer]
                writer.transport.abort()
            else:
                writer.write(line)

    # -- time -------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Has `_on_time` called when something is due next."""
        deadline_ns = self._reactions.next_deadline_ns()
        if self._timer is not None:
            if deadline_ns == self._armed_ns:
                return
            self._timer.cancel()
        self._armed_ns = deadline_ns
        delay_ns = max(0, deadline_ns - monotonic_ns())
        self._timer = asyncio.get_running_loop().call_later(delay_ns / 1e9, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._reactions.on_time()
        self._arm()
