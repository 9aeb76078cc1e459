"""The reactions of an agent: to a request, an event of the NIC, a carrier, a timer.

Nothing here waits: whoever drives it, the daemon or a simulation, calls `on_time` at `next_deadline_ns`, and
looks at that again after each call.
"""

import contextlib
import heapq
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mrc_agents.abi import Event, EventKind, EvState, ProbeKind, Qp
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.arguments import check_arguments
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.page_memory import Allocations
from mrc_agents.nic.qp import nic_path
from mrc_agents.nic.verbs import Verbs
from mrc_agents.nic.work_queue import qp_index as index_of

_FALL_FACTOR = 4


def excess_falls(own: int, all_falls: Sequence[int]) -> int:
    """Times that a path fell beyond what is expected: 0 for the first, or when all paths fall alike."""
    expected = 2 * sum(all_falls) // max(1, len(all_falls))
    return max(0, own - 1 - expected)


class ProbeSchedule:
    """Deadlines of the next probe of each bad EV.

    The first probe leaves at once. An EV that keeps coming back to lose again, more often than others, as on
    a link that drops some packets, is left alone first, four times longer each time.

    Args:
        base_ns: a round-trip time.
        ceiling_ns: of the time between two probes of an EV.
    """

    def __init__(self, base_ns: int, ceiling_ns: int) -> None:
        self._base_ns = base_ns
        self._ceiling_ns = ceiling_ns
        self._queue: list[tuple[int, int, int]] = []
        self._spacing_ns: dict[tuple[int, int], int] = {}

    def add(self, qp_index: int, ev_index: int, excess: int, now_ns: int) -> None:
        """An EV has become bad; *excess* is `excess_falls` of its path."""
        pause_ns = min(self._base_ns * _FALL_FACTOR ** min(excess, 16), self._ceiling_ns) if excess else 0
        is_new = (qp_index, ev_index) not in self._spacing_ns
        self._spacing_ns[qp_index, ev_index] = max(pause_ns, self._base_ns)
        if is_new:
            heapq.heappush(self._queue, (now_ns + pause_ns, qp_index, ev_index))

    def hasten(self, evs: Iterable[tuple[int, int]], now_ns: int) -> None:
        """Makes the next probe of these bad EVs, as (QP index, EV index), due at once."""
        chosen = set(evs) & self._spacing_ns.keys()
        self._queue = [(now_ns if entry[1:] in chosen else entry[0], *entry[1:]) for entry in self._queue]
        heapq.heapify(self._queue)
        self._spacing_ns |= dict.fromkeys(chosen, self._base_ns)

    def remove_qp(self, qp_index: int) -> None:
        self._queue = [entry for entry in self._queue if entry[1] != qp_index]
        heapq.heapify(self._queue)
        self._spacing_ns = {key: value for key, value in self._spacing_ns.items() if key[0] != qp_index}

    def next_deadline_ns(self) -> int | None:
        """When the next probe is due; None when no EV is bad."""
        return self._queue[0][0] if self._queue else None

    def due(self, now_ns: int) -> dict[int, list[int]]:
        """EVs whose probe is due, by QP index; each must come back through `reschedule`."""
        found: dict[int, list[int]] = {}
        while self._queue and self._queue[0][0] <= now_ns:
            _, qp_index, ev_index = heapq.heappop(self._queue)
            found.setdefault(qp_index, []).append(ev_index)
        return found

    def reschedule(self, qp_index: int, ev_indices: list[int], qp: Qp, now_ns: int) -> list[int]:
        """The EVs among those due that are still bad and shall be probed now."""
        to_probe = []
        for ev_index in ev_indices:
            ev = qp.evs.ev[ev_index]
            key = (qp_index, ev_index)
            if ev.state != EvState.ASSUMED_BAD:
                self._spacing_ns.pop(key, None)
                continue
            if ev.is_probe_pending:
                self._spacing_ns[key] = min(self._spacing_ns[key] * 2, self._ceiling_ns)
            elif ev.probe_successes:
                self._spacing_ns[key] = self._base_ns
            heapq.heappush(self._queue, (now_ns + self._spacing_ns[key], qp_index, ev_index))
            to_probe.append(ev_index)
        return to_probe


_SPACING_FACTOR = 10

_log = logging.getLogger(__name__)
HEARTBEAT_NS: Final = 200_000_000
_BEATS_PER_LOOK: Final = 5


class PortAnnouncements:
    """Deadlines of the next update to each peer, by host index.

    Args:
        base_ns: a round-trip time; an update is repeated after ten of them, then twice as long each time,
            up to the ceiling.
        ceiling_ns: of the time between two updates to a peer.
    """

    def __init__(self, base_ns: int, ceiling_ns: int) -> None:
        self._ceiling_ns = ceiling_ns
        self._first_ns = base_ns * _SPACING_FACTOR
        self._waiting: dict[int, tuple[int, int]] = {}

    def announce(self, peers: Iterable[int], now_ns: int) -> None:
        """Ports have changed, or a peer is new: these are to be notified from *now_ns* on."""
        self._waiting |= dict.fromkeys(peers, (now_ns, self._first_ns))

    def answered(self, peer: int) -> None:
        """The peer knows how our ports are now."""
        self._waiting.pop(peer, None)

    def next_deadline_ns(self) -> int | None:
        """When a peer is to be notified next; None when all have acknowledged."""
        return min((deadline for deadline, _ in self._waiting.values()), default=None)

    def due(self, now_ns: int) -> list[int]:
        """Peers to notify now."""
        peers = [peer for peer, (deadline, _) in self._waiting.items() if deadline <= now_ns]
        for peer in peers:
            spacing_ns = self._waiting[peer][1]
            self._waiting[peer] = (now_ns + spacing_ns, min(spacing_ns * 2, self._ceiling_ns))
        return peers


class ClientResources:
    """QPs, memory regions and pages that one connection created and did not give back.

    They live as long as the connection, as those of a process do in libibverbs.
    """

    def __init__(self) -> None:
        self.qpns: set[int] = set()
        self.r_keys: set[int] = set()
        self.allocations = Allocations()

    def record(self, verb: str, arguments: dict[str, Any], result: Any) -> None:
        """Notes what a verb that succeeded created or gave back."""
        if verb in {"create_qp", "create_rc_qp"}:
            self.qpns.add(result)
        elif verb == "register_memory":
            self.r_keys.add(result["r_key"])
        elif verb == "modify_qp" and arguments["qpn"] in self.qpns:
            self.qpns.remove(arguments["qpn"])
            self.qpns.add(result)
        elif verb == "destroy_qp":
            self.qpns.discard(arguments["qpn"])
        elif verb == "deregister_memory":
            self.r_keys.discard(arguments["r_key"])
            self.allocations.let_go(arguments["r_key"])


class Reactions:
    """The reactions of one agent.

    Args:
        publish: called with each event that subscribers may want.
        on_path_answer: called with the answer to a probe of a path without a QP.
    """

    def __init__(
        self,
        config: NicSettings,
        device: NicDevice,
        publish: Callable[[dict[str, Any]], None],
        on_path_answer: Callable[[Event], None],
    ) -> None:
        self._config = config
        self._device = device
        self._publish = publish
        self._on_path_answer = on_path_answer
        self.verbs = Verbs(config, device)  # of the NIC
        self._schedule = ProbeSchedule(config.probe_base_ns, config.probe_ceiling_ns)
        self._announcements = PortAnnouncements(config.probe_base_ns, config.probe_ceiling_ns)
        self._planes = {device.config.port_id[plane]: plane for plane in range(device.config.plane_count)}
        self._has_carrier = self.verbs.port_status()  # by plane, whether enabled or not
        self.is_enabled = [True] * len(self._planes)  # by plane, the administrative states of the ports
        self._beats = 0
        self._heartbeat_ns = monotonic_ns()

    def start(self) -> None:
        """Does what an agent does first."""
        self.on_time()
        if self._config.link_probe_interval_ns:
            self.verbs.start_link_probes(
                self._config.link_probe_interval_ns, self._config.link_probe_lag_rounds
            )

    # -- requests ---------------------------------------------------------------------------------

    def call(self, verb: str, arguments: dict[str, Any], resources: ClientResources) -> Any:
        """The result of a verb of the NIC's table.

        Raises:
            TestbedError: it is refused.
            KeyError: there is no such verb.
        """
        function = self.verbs.table[verb]
        check_arguments(function, arguments)
        result = function(**arguments)
        resources.record(verb, arguments, result)
        if verb in {"connect_qp", "modify_qp"}:
            # A peer assumes that all our ports work; a new one is notified when that is not so
            all_ports = (1 << self._device.config.plane_count) - 1
            peer = self.verbs.peer_of(index_of(arguments["qpn"]))
            if peer is not None and self._device.control.port_up_mask != all_ports:
                self._announcements.announce([peer], monotonic_ns())
        if verb == "destroy_qp":
            self._schedule.remove_qp(index_of(arguments["qpn"]))
        return result

    def release(self, resources: ClientResources) -> None:
        """Takes back what a client that is gone had created: nothing goes on sending for nobody."""
        for qpn in resources.qpns:
            with contextlib.suppress(UsageError):  # another client destroyed it
                self.verbs.destroy_qp(qpn)
            self._schedule.remove_qp(index_of(qpn))
        for r_key in resources.r_keys:
            with contextlib.suppress(UsageError):
                self.verbs.deregister_memory(r_key)
        for start, length in resources.allocations:
            self.verbs.free(start, length)

    # -- NIC --------------------------------------------------------------------------------------

    def on_events(self, events: Iterable[Event]) -> None:
        kicks: dict[int, int] = {}
        fallen: dict[int, list[int]] = {}
        for event in events:
            if event.kind == EventKind.KICK:
                kicks[event.qp_index] = max(kicks.get(event.qp_index, 0), event.a)
                continue
            if event.kind == EventKind.PROBE:
                self._on_path_answer(event)
                continue
            if event.kind == EventKind.PEER_PORTS:
                self._return_to_planes(event.b, peer_host=event.a)
                continue
            if event.kind == EventKind.PORT_STATUS:
                peer = self.verbs.peer_of(event.qp_index)
                if peer is not None and event.a == self._device.control.port_up_mask:
                    self._announcements.answered(peer)
                continue
            if event.kind == EventKind.EV_STATE and event.c == EvState.ASSUMED_BAD:
                fallen.setdefault(event.qp_index, []).append(event.a)
            fields = self.verbs.take_event(event)
            if fields is not None:
                self._publish(fields)
        for qp_index, packets in kicks.items():
            self._device.request_tx(qp_index, packets)
        if fallen:
            self._schedule_probes(fallen)

    def on_carrier(self, port_id: int, *, is_up: bool) -> None:
        """A port's carrier is so now; *port_id* counts over the whole lab."""
        plane = self._planes.get(port_id)
        if plane is None:
            return
        self._has_carrier[plane] = is_up
        self._settle_port(plane)

    def enable_port(self, plane: int, *, is_enabled: bool) -> None:
        """Sets the administrative state of a port; one that is disabled is down for everybody."""
        self.is_enabled[plane] = is_enabled
        self._settle_port(plane)

    def _settle_port(self, plane: int) -> None:
        """Has everybody know when a port has gone up or down."""
        mask = self._device.control.port_up_mask
        is_up = self._has_carrier[plane] and self.is_enabled[plane]
        changed = mask | 1 << plane if is_up else mask & ~(1 << plane)
        if changed == mask:
            return
        self._device.control.port_up_mask = changed
        _log.info("port to plane %d is %s", plane, "up" if is_up else "down")
        self._announcements.announce(self.verbs.peers(), monotonic_ns())
        if is_up:
            self._return_to_planes(1 << plane)
        self._publish(
            {
                "event": "port_state",
                "time_ns": monotonic_ns(),
                "host": self._config.host,
                "plane": plane,
                "is_up": is_up,
            }
        )

    # -- time -------------------------------------------------------------------------------------

    def next_deadline_ns(self) -> int:
        """When `on_time` has something to do."""
        deadlines = (
            self._heartbeat_ns,
            self._schedule.next_deadline_ns(),
            self._announcements.next_deadline_ns(),
            self.verbs.link_prober.next_ns,
        )
        return min(deadline for deadline in deadlines if deadline is not None)

    def on_time(self) -> None:
        now_ns = monotonic_ns()
        if self._heartbeat_ns <= now_ns:
            self._heartbeat(now_ns)
        targets: list[tuple[int, int]] = []
        for qp_index, ev_indices in self._schedule.due(now_ns).items():
            qp = self._device.qps.peek(qp_index)
            chosen = self._schedule.reschedule(qp_index, ev_indices, qp, now_ns)
            targets += [(qp_index, ev_index) for ev_index in chosen]
        if targets:
            self._device.send_probes(targets)
        updates = self.verbs.port_status_targets(self._announcements.due(now_ns))
        if updates:
            self._device.send_probes(updates, ProbeKind.PORT_STATUS)
        self.verbs.link_prober.send_due(now_ns)

    def _heartbeat(self, now_ns: int) -> None:
        """Shows the kernel that the agent is alive; without a heartbeat QPs end by themselves.

        Now and then each QP gets a transmit buffer, used or not: the kernel then sees whether the QP's timer
        still runs.
        """
        self._device.control.heartbeat_ns = now_ns
        self._heartbeat_ns = now_ns + HEARTBEAT_NS
        self._beats += 1
        if self._beats % _BEATS_PER_LOOK == 0:
            for qp_index in self.verbs.sending():
                self._device.request_tx(qp_index, 1)

    def _schedule_probes(self, fallen: dict[int, list[int]]) -> None:
        now_ns = monotonic_ns()
        for qp_index, ev_indices in fallen.items():
            qp = self._device.qps.peek(qp_index)
            for ev_index in ev_indices:
                self._schedule.add(qp_index, ev_index, self._excess_falls(qp, ev_index), now_ns)

    def _excess_falls(self, qp: Qp, ev_index: int) -> int:
        evs = qp.evs.ev[: qp.evs.plane_count * qp.evs.per_plane]
        if not qp.paths.is_shared:
            return excess_falls(evs[ev_index].bad_count, [ev.bad_count for ev in evs])
        falls = {ev.path: self._device.paths[nic_path(qp, ev.entropy)].falls for ev in evs}
        return excess_falls(falls[evs[ev_index].path], list(falls.values()))

    def _return_to_planes(self, mask: int, peer_host: int | None = None) -> None:
        """Probes the bad EVs of planes that have come back without delay; to one peer, or to all."""
        self._schedule.hasten(self.verbs.bad_evs(mask, peer_host), monotonic_ns())
