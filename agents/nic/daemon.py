"""The agent's event loop: requests from its socket, events from the kernel, carriers, probes."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from agents.nic.carrier import CarrierWatch
from agents.nic.config import AgentConfig
from agents.nic.device import NicDevice
from agents.nic.port_status import PortAnnouncements
from agents.nic.prober import ProbeSchedule
from agents.nic.verbs import Verbs
from agents.wire_abi import Event, EventKind, EvState, Limit, ProbeKind
from testbed.errors import TestbedError, UsageError

_log = logging.getLogger(__name__)
_LINE_BYTES_MAX = 1 << 20
_BACKLOG_BYTES_MAX = 8 << 20


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


class Holdings:
    """QPs and memory regions that one connection created and did not give back.

    They live as long as the connection, as those of a process do in libibverbs.
    """

    def __init__(self) -> None:
        self.qpns: set[int] = set()
        self.r_keys: set[int] = set()

    def book(self, verb: str, arguments: dict[str, Any], result: Any) -> None:
        """Notes what a verb that succeeded created or gave back."""
        if verb == "create_qp":
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
        self._announcements = PortAnnouncements(config.probe_base_ns)
        self._carrier = CarrierWatch()
        self._planes = {
            self._device.config.port_id[plane]: plane for plane in range(self._device.config.plane_count)
        }
        self._subscribers: set[asyncio.StreamWriter] = set()
        self._arrivals = asyncio.Event()
        self._probe_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serves until cancelled; *on_ready* is called once the socket answers."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._device.events.fileno(), self._on_kernel_events)
        loop.add_reader(self._carrier.socket.fileno(), self._on_carrier)
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
            self._config.socket.unlink(missing_ok=True)
            self._carrier.close()
            self._device.close()

    # -- requests ---------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        owned = Holdings()
        try:
            while line := await reader.readline():
                reply = await self._answer(line, writer, owned)
                writer.write(json.dumps(reply).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:
            _log.info("a client left: %s", error)
        finally:
            self._subscribers.discard(writer)
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

    async def _answer(self, line: bytes, writer: asyncio.StreamWriter, owned: Holdings) -> dict[str, Any]:
        request: dict[str, Any] = {}
        try:
            request = _parse_request(line)
            verb = request["verb"]
            arguments = request.get("arguments", {})
            if verb == "create_qp":
                self._on_kernel_events()  # the last QP of that number may have left some
            if verb == "subscribe":
                self._subscribers.add(writer)
                result: Any = None
            elif verb == "wait":
                result = await self._wait(**arguments)
            elif verb in self._verbs.table:
                result = self._verbs.table[verb](**arguments)
                owned.book(verb, arguments, result)
                if verb in {"connect_qp", "modify_qp"}:
                    self._announce_to_new_peer(arguments["qpn"])
                if verb == "destroy_qp":
                    self._schedule.remove_qp(arguments["qpn"] - Limit.QPN_BASE)
            else:
                return {"id": request.get("id"), "error": f"no verb {verb!r}"}
        except TestbedError as error:
            return {"id": request.get("id"), "error": error.message, "hint": error.hint}
        except (KeyError, TypeError, ValueError) as error:
            _log.warning("bad request %r: %s", line[:200], error)
            return {"id": request.get("id"), "error": f"bad request: {error}"}
        return {"id": request.get("id"), "result": result}

    async def _wait(self, qpn: int, wait_ns: int) -> list[dict[str, Any]]:
        """Completions of a QP as soon as there are any; none when the time-out passes first."""
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
        line = json.dumps(told).encode() + b"\n"
        for writer in list(self._subscribers):
            if writer.transport.get_write_buffer_size() > _BACKLOG_BYTES_MAX:
                _log.warning("a subscriber does not read; it is dropped")
                self._subscribers.discard(writer)
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
