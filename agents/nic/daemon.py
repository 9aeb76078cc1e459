"""The agent's event loop: requests from its socket, events from the kernel, carriers, probes."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agents.nic.arguments import check_arguments
from agents.nic.carrier import CarrierWatch
from agents.nic.config import AgentConfig
from agents.nic.device import NicDevice
from agents.nic.path_probes import WAIT_NS_MAX, PathProbes
from agents.nic.port_status import PortAnnouncements
from agents.nic.prober import ProbeSchedule
from agents.nic.verbs import Verbs
from agents.wire_abi import Event, EventKind, EvState, Limit, ProbeKind
from testbed.errors import TestbedError, UsageError

_log = logging.getLogger(__name__)
_HEARTBEAT_SECONDS = 0.2
_BEATS_PER_LOOK = 5
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


class Holdings:
    """QPs and memory regions that one connection created and did not give back.

    They live as long as the connection, as those of a process do in libibverbs.
    """

    def __init__(self) -> None:
        self.qpns: set[int] = set()
        self.r_keys: set[int] = set()

    def book(self, verb: str, arguments: dict[str, Any], result: Any) -> None:
        """Notes what a verb that succeeded created or gave back."""
        if verb in {"create_qp", "create_rc_qp", "create_stream"}:
            self.qpns.add(result)
        elif verb == "register_memory":
            self.r_keys.add(result["r_key"])
        elif verb == "destroy_qp":
            self.qpns.discard(arguments["qpn"])
        elif verb == "deregister_memory":
            self.r_keys.discard(arguments["r_key"])


class NicAgent:
    """One running agent."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._device = NicDevice(config.pins)
        self._verbs = Verbs(config, self._device)
        self._schedule = ProbeSchedule(config.probe_base_ns)
        self._path_probes = PathProbes(self._device)
        self._patient: dict[str, Callable[..., Awaitable[Any]]] = {
            "wait": self.wait,
            "probe_evs": self.probe_evs,
            "connect_stream": self._verbs.connect_stream,
        }
        self._verbs.tell = self._on_stream_event
        self._announcements = PortAnnouncements(config.probe_base_ns)
        self._carrier = CarrierWatch()
        self._planes = {
            self._device.config.port_id[plane]: plane for plane in range(self._device.config.plane_count)
        }
        self._subscribers: dict[asyncio.StreamWriter, frozenset[str] | None] = {}
        self._arrivals = asyncio.Event()
        self._probe_timer: asyncio.TimerHandle | None = None
        self._heartbeat: asyncio.TimerHandle | None = None
        self._beats = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_ending = False

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serves until cancelled; *on_ready* is called once the socket answers."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._device.events.fileno(), self._on_kernel_events)
        self._beat()
        loop.add_reader(self._carrier.socket.fileno(), self._on_carrier)
        if self._config.link_probe_interval_ns:
            self._verbs.start_link_probes(
                self._config.link_probe_interval_ns, self._config.link_probe_lag_rounds
            )
        self._config.socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(
            self._serve, path=str(self._config.socket), limit=_LINE_BYTES_MAX
        )
        self._config.socket.chmod(0o600)
        _log.info("%s listens on %s", self._config.host, self._config.socket)
        try:
            on_ready()
            async with server:
                await server.serve_forever()
        finally:
            self._is_ending = True
            self._config.socket.unlink(missing_ok=True)
            loop.remove_reader(self._device.events.fileno())
            loop.remove_reader(self._carrier.socket.fileno())
            if self._heartbeat is not None:
                self._heartbeat.cancel()
            self._verbs.stop_link_probes()
            self._verbs.close_streams()
            self._carrier.close()
            self._device.close()
            _log.info("%s has ended", self._config.host)

    def _beat(self) -> None:
        """Tells the kernel that somebody is there to end what QPs do; without it they end by themselves.

        Now and then each QP is lent a frame: whatever it makes of it, the kernel then sees whether the QP's
        clock still ticks.
        """
        self._device.config.heartbeat_ns = time.monotonic_ns()
        self._beats += 1
        if self._beats % _BEATS_PER_LOOK == 0:
            for qp_index in self._verbs.sending():
                self._device.lend_frames(qp_index, 1)
            self._verbs.observe_streams()
        self._heartbeat = asyncio.get_running_loop().call_later(_HEARTBEAT_SECONDS, self._beat)

    # -- requests ---------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owned = Holdings()
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
                self._release(owned)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _release(self, owned: Holdings) -> None:
        """Takes back what a client that is gone had created: nothing goes on sending for nobody."""
        for qpn in owned.qpns:
            with contextlib.suppress(UsageError):  # another client destroyed it
                self._verbs.destroy_qp(qpn)
            self._schedule.remove_qp(qpn - Limit.QPN_BASE)
        for r_key in owned.r_keys:
            with contextlib.suppress(UsageError):
                self._verbs.deregister_memory(r_key)

    async def _answer(
        self, line: bytes, writer: asyncio.StreamWriter, owned: Holdings
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
        told = {"event": "refused", "time_ns": time.monotonic_ns(), "host": self._config.host}
        qpn = request.get("arguments", {}).get("qpn")
        return told | {"verb": request["verb"], "qpn": qpn, "error": reply["error"]}

    async def _carry_out(
        self, request: dict[str, Any], line: bytes, writer: asyncio.StreamWriter, owned: Holdings
    ) -> dict[str, Any]:
        """The result of a request, or why it was refused."""
        try:
            verb = request["verb"]
            arguments = request.get("arguments", {})
            if verb in {"create_qp", "create_rc_qp"}:
                self._on_kernel_events()  # the last QP of that number may have left some
            if verb == "subscribe":
                self._subscribers[writer] = _checked_kinds(**arguments)
                result: Any = None
            elif verb in self._patient:
                check_arguments(self._patient[verb], arguments)
                result = await self._patient[verb](**arguments)
            elif verb in self._verbs.table:
                check_arguments(self._verbs.table[verb], arguments)
                result = self._verbs.table[verb](**arguments)
                owned.book(verb, arguments, result)
                if verb in {"connect_qp", "modify_qp"}:
                    self._announce_to_new_peer(arguments["qpn"])
                if verb == "destroy_qp":
                    self._schedule.remove_qp(arguments["qpn"] - Limit.QPN_BASE)
            else:
                return {"error": f"no verb {verb!r}"}
        except TestbedError as error:
            return {"error": error.message, "hint": error.hint}
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("bad request %r: %s", line[:200], error)
            return {"error": f"bad request: {error}"}
        return {"result": result}

    async def probe_evs(self, peer_host: int, evs: list[int], wait_ns: int) -> list[dict[str, Any]]:
        """Probes paths to a host without a QP; for each EV `ev`, `port`, `req_id`, and `rtt_ns` or None.

        Args:
            peer_host: index of the host.
            evs: EVs of any plane, each probed once.
            wait_ns: how long an answer may take; returns at once when all have come.
        """
        self._path_probes.check(peer_host, evs, wait_ns)
        return await self._path_probes.probe(peer_host, evs, wait_ns)

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
        kicks: dict[int, int] = {}
        fallen: dict[int, list[int]] = {}
        for record in self._device.events.drain():
            event = Event.from_buffer_copy(record)
            if event.kind == EventKind.KICK:
                kicks[event.qp_index] = max(kicks.get(event.qp_index, 0), event.a)
                continue
            if event.kind == EventKind.PROBE:
                self._path_probes.answered(event)
                continue
            if event.kind == EventKind.PEER_PORTS:
                self._return_to_planes(event.b, peer_host=event.a)
                continue
            if event.kind == EventKind.PORT_STATUS:
                self._on_port_status_answer(event)
                continue
            if event.kind == EventKind.EV_STATE and event.c == EvState.ASSUMED_BAD:
                fallen.setdefault(event.qp_index, []).append(event.a)
            told = self._verbs.take_event(event)
            if told is not None:
                self._publish(told)
        for qp_index, packets in kicks.items():
            self._device.lend_frames(qp_index, packets)
        self._arrivals.set()
        if fallen:
            self._schedule_probes(fallen)

    def _on_stream_event(self, told: dict[str, Any]) -> None:
        """A connection of the kernel's TCP has news."""
        self._publish(told)
        self._arrivals.set()

    def _on_carrier(self) -> None:
        for port_id, is_up in self._carrier.changes():
            plane = self._planes.get(port_id)
            if plane is None:
                continue
            mask = self._device.config.port_up_mask
            changed = mask | 1 << plane if is_up else mask & ~(1 << plane)
            if changed == mask:
                continue
            self._device.config.port_up_mask = changed
            _log.info("port to plane %d is %s", plane, "up" if is_up else "down")
            self._announcements.announce(self._verbs.peers(), time.monotonic_ns())
            if is_up:
                self._return_to_planes(1 << plane)
            self._arm_probes()
            self._publish(
                {
                    "event": "port_state",
                    "time_ns": time.monotonic_ns(),
                    "host": self._config.host,
                    "plane": plane,
                    "is_up": is_up,
                }
            )

    def _publish(self, told: dict[str, Any]) -> None:
        listeners = [
            writer for writer, kinds in self._subscribers.items() if kinds is None or told["event"] in kinds
        ]
        if not listeners:
            return
        line = json.dumps(told).encode() + b"\n"
        for writer in listeners:
            if writer.transport.get_write_buffer_size() > _BACKLOG_BYTES_MAX:
                _log.warning("a subscriber does not read; it is dropped")
                del self._subscribers[writer]
                writer.transport.abort()
            else:
                writer.write(line)

    # -- probes -----------------------------------------------------------------------------------

    def _schedule_probes(self, fallen: dict[int, list[int]]) -> None:
        now_ns = time.monotonic_ns()
        for qp_index, ev_indices in fallen.items():
            qp = self._device.qps.read(qp_index)
            for ev_index in ev_indices:
                self._schedule.add(qp_index, ev_index, qp.evs[ev_index].bad_count, now_ns)
        self._arm_probes()

    def _return_to_planes(self, mask: int, peer_host: int | None = None) -> None:
        """Probes the bad EVs of planes that have come back without delay; to one peer, or to all."""
        self._schedule.hasten(self._verbs.bad_evs(mask, peer_host), time.monotonic_ns())
        self._arm_probes()

    def _on_port_status_answer(self, event: Event) -> None:
        peer = self._verbs.peer_of(event.qp_index)
        if peer is not None and event.a == self._device.config.port_up_mask:
            self._announcements.answered(peer)

    def _announce_to_new_peer(self, qpn: int) -> None:
        """A peer takes it that all our ports work; a new one is told when that is not so."""
        config = self._device.config
        peer = self._verbs.peer_of(qpn - Limit.QPN_BASE)
        if peer is not None and config.port_up_mask != (1 << config.plane_count) - 1:
            self._announcements.announce([peer], time.monotonic_ns())
            self._arm_probes()

    def _arm_probes(self) -> None:
        if self._probe_timer is not None:
            self._probe_timer.cancel()
            self._probe_timer = None
        deadlines = (self._schedule.next_deadline_ns(), self._announcements.next_deadline_ns())
        deadline_ns = min((deadline for deadline in deadlines if deadline is not None), default=None)
        if deadline_ns is not None:
            delay_ns = max(0, deadline_ns - time.monotonic_ns())
            self._probe_timer = asyncio.get_running_loop().call_later(delay_ns / 1e9, self._on_probe_time)

    def _on_probe_time(self) -> None:
        now_ns = time.monotonic_ns()
        targets: list[tuple[int, int]] = []
        for qp_index, ev_indices in self._schedule.due(now_ns).items():
            qp = self._device.qps.read(qp_index)
            chosen = self._schedule.reschedule(qp_index, ev_indices, qp, now_ns)
            targets += [(qp_index, ev_index) for ev_index in chosen]
        if targets:
            self._device.send_probes(targets)
        updates = self._verbs.port_status_targets(self._announcements.due(now_ns))
        if updates:
            self._device.send_probes(updates, ProbeKind.PORT_STATUS)
        self._arm_probes()
