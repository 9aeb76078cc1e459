"""The verbs of a NIC, by name: memory regions, QPs, posting and polling, EVs.

A verb checks its arguments, changes the kernel's maps, and returns a plain JSON value. It does no waiting and
no I/O of its own; the daemon does both. docs/reference/verbs.md describes each.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

from mrc_agents.abi import (
    CompletionStatus,
    Event,
    EventKind,
    EvLayout,
    EvReason,
    EvState,
    Limit,
    LinkProbing,
    QpState,
)
from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.application_verbs import ApplicationVerbs
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_profile import EVENT_STATES
from mrc_agents.nic.ev_verbs import EvVerbs
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.pattern import count_wrong, fill
from mrc_agents.nic.profile_control import ProfileControl
from mrc_agents.nic.qp import CONNECTED, MrcQueuePair
from mrc_agents.nic.rc_verbs import RcVerbs
from mrc_agents.nic.verb import all_verbs, verb
from mrc_agents.nic.work_queue import DeliveredWrite, FinishedWork, WorkQueue

_PIN = "link_probing"
_INTERVAL_MIN_NS = 1_000_000


class LinkProber:
    """Sends rounds of link probes at a steady pace; the kernel matches, judges and counts.

    A round that comes late is no failure: a probe is judged when that of `lag_rounds` rounds later leaves.
    """

    def __init__(self, device: NicDevice) -> None:
        self._device = device
        self._probing: LinkProbing | None = None
        self._interval_ns = 0
        self.next_ns: int | None = None  # when the next round is due; None when none are sent

    def start(self, interval_ns: int, lag_rounds: int) -> None:
        """Begins to send a round every *interval_ns*, or goes on at another pace."""
        if self._probing is None:
            with ExitStack() as opened:
                self._probing = MappedArray(open_map_in(opened, self._device.pins, _PIN), LinkProbing)[0]
        if not self._probing.path_count:
            raise UsageError("link probes need a fabric with source routes (forwarding: srv6)")
        self._probing.lag_rounds = lag_rounds
        self._interval_ns = interval_ns
        self.next_ns = monotonic_ns()
        self.send_due(self.next_ns)

    def stop(self) -> None:
        """Sends no more; what has been counted stays."""
        self.next_ns = None

    def send_due(self, now_ns: int) -> None:
        """Sends a round if one is due; rounds that this process had no time for are not made up for."""
        if self._probing is None or self.next_ns is None or self.next_ns > now_ns:
            return
        self._device.send_link_probes(self._probing.path_count)
        self.next_ns += self._interval_ns
        if self.next_ns < now_ns:
            self.next_ns = now_ns + self._interval_ns


class LinkProbeVerbs(NicState):
    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self.link_prober = LinkProber(device)  # sends them, once they are wanted

    @verb
    def start_link_probes(self, interval_ns: int, lag_rounds: int) -> None:
        """Sends a probe on every probe path of the NIC, again and again.

        Args:
            interval_ns: from one round to the next, at least 1 ms.
            lag_rounds: rounds after which a probe that is not back has failed; 1 to 63.
        """
        if interval_ns < _INTERVAL_MIN_NS:
            raise UsageError(f"interval_ns: {interval_ns}; {_INTERVAL_MIN_NS} or more is accepted")
        if not 1 <= lag_rounds < Limit.LINK_PROBE_ROUNDS:
            raise UsageError(f"lag_rounds: {lag_rounds}; 1 to {Limit.LINK_PROBE_ROUNDS - 1} is accepted")
        self.link_prober.start(interval_ns, lag_rounds)

    @verb
    def stop_link_probes(self) -> None:
        """Sends no more link probes."""
        self.link_prober.stop()


class MemoryVerbs(NicState):
    @verb
    def register_memory(self, length: int) -> dict[str, int]:
        """A new zeroed region: its offset in the NIC's memory, length in bytes, and R_Key.

        Args:
            length: bytes, as far as the NIC's memory has room.
        """
        region = self._regions.register(length)
        return {"offset": region.offset, "length": region.length, "r_key": region.r_key}

    @verb
    def deregister_memory(self, r_key: int) -> None:
        """Invalidates an R_Key.

        Args:
            r_key: of a region.
        """
        self._regions.deregister(r_key)

    @verb
    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed* into registered memory.

        Args:
            offset: in the NIC's memory; all of it inside one region.
            length: bytes.
            seed: any number.
        """
        fill(self._regions.check(offset, length), length, seed)

    @verb
    def verify(self, offset: int, length: int, seed: int) -> int:
        """Number of bytes that differ from the test pattern of *seed*.

        Args:
            offset: in the NIC's memory; all of it inside one region.
            length: bytes.
            seed: as it was given to `fill`.
        """
        return count_wrong(self._regions.check(offset, length), length, seed)


class Verbs(MemoryVerbs, RcVerbs, ApplicationVerbs, EvVerbs, LinkProbeVerbs, ProfileControl):
    """All of them, over one state; and what the agent asks of it and notes in it by itself."""

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        # the verbs that clients may call, by name
        self.table: dict[str, Callable[..., Any]] = all_verbs(self, that_wait=False)

    @verb
    def hello(self) -> dict[str, Any]:
        """The agent's host."""
        return {
            "host": self._config.host,
            "host_index": self._device.config.host_index,
            "memory_bytes": self._device.memory.length_bytes,
            "qps_max": self._device.qp_count,
        }

    @verb
    def counters(self) -> dict[str, int]:
        """Counters since the NIC was loaded."""
        return self._device.counters()

    @verb
    def port_status(self) -> list[bool]:
        """Carrier of each port, by plane."""
        mask = self._device.control.port_up_mask
        return [bool(mask >> plane & 1) for plane in range(self._device.config.plane_count)]

    def peers(self) -> set[int]:
        """Hosts that a QP of ours receives from or sends to."""
        return {qp.attributes.peer_host for qp in self._qps.values() if qp.state in CONNECTED}

    def peer_of(self, qp_index: int) -> int | None:
        """The host a QP is connected to; None when it is not."""
        qp = self._qps.get(qp_index)
        return qp.attributes.peer_host if qp is not None and qp.state in CONNECTED else None

    def port_status_targets(self, peers: Iterable[int]) -> list[tuple[int, int]]:
        """For each peer and each plane whose port works, an EV of a QP to it, as (QP index, EV index)."""
        config = self._device.config
        found = []
        for peer in peers:
            qp = next((qp for qp in self._qps.values() if self.peer_of(qp.index) == peer), None)
            if qp is None:
                continue
            per_plane = len(qp.attributes.evs) // config.plane_count
            value = self._device.qps.peek(qp.index)
            for plane in range(config.plane_count):
                if self._device.control.port_up_mask >> plane & 1:
                    indices = range(plane * per_plane, (plane + 1) * per_plane)
                    # One that works, else any: the update is repeated until it is answered.
                    best = min((value.evs.ev[index].state, index) for index in indices)[1]
                    found.append((qp.index, best))
        return found

    def bad_evs(self, plane_mask: int, peer_host: int | None) -> list[tuple[int, int]]:
        """EVs of some planes that are ASSUMED_BAD, as (QP index, EV index); to one peer, or to all."""
        found = []
        for qp in self._qps.values():
            if peer_host in {None, qp.attributes.peer_host}:
                value = self._device.qps.peek(qp.index)
                found += [
                    (qp.index, index)
                    for index in range(len(qp.attributes.evs))
                    if value.evs.ev[index].state == EvState.ASSUMED_BAD
                    and plane_mask >> value.evs.ev[index].plane & 1
                ]
        return found

    def take_event(self, event: Event) -> dict[str, Any] | None:
        """Records one kernel event; returns the event for subscribers, None if there is none."""
        qp: WorkQueue | None = self._qps.get(event.qp_index) or self._rc_qps.get(event.qp_index)
        if qp is None:
            return None
        fields: dict[str, Any] = {"time_ns": event.time_ns, "host": self._config.host, "qpn": qp.qpn}
        if event.kind == EventKind.COMPLETION:
            status = CompletionStatus(event.c).name.lower()
            qp.completions.append(FinishedWork(event.a, event.b, status, event.time_ns))
            if event.a in qp.posted:
                qp.posted.remove(event.a)
            return fields | {
                "event": "completion",
                "work_id": event.a,
                "iterations": event.b,
                "status": status,
                "length": event.d,
            }
        if event.kind == EventKind.EV_STATE and isinstance(qp, MrcQueuePair):
            return fields | self._ev_state_fields(qp, event) if self._is_wanted(qp, event) else None
        if event.kind == EventKind.RECEIVE:
            qp.arrivals[event.a] = DeliveredWrite(event.a, event.b, event.d, event.time_ns)
            return fields | {
                "event": "receive",
                "number": event.a,
                "immediate": event.b,
                "length": event.d,
            }
        if event.kind == EventKind.QP_STATE:
            qp.state = QpState(event.b)
            qp.status = CompletionStatus(event.c).name.lower()
            self._flush(qp, event)
            return fields | {
                "event": "qp_state",
                "from": QpState(event.a).name,
                "to": qp.state.name,
                "status": qp.status,
            }
        return None

    def _is_wanted(self, qp: MrcQueuePair, event: Event) -> bool:
        """Return True if the profile of the QP's EVs lets this change be reported; without one all are."""
        profile = self._profiles.get(qp.ev_profile) if qp.ev_profile is not None else None
        name = EvState(event.c).name
        return profile is None or name not in EVENT_STATES or name in profile.event_mask

    @staticmethod
    def _ev_state_fields(qp: MrcQueuePair, event: Event) -> dict[str, Any]:
        entropy = qp.attributes.evs[event.a]
        return {
            "event": "ev_state",
            "ev": event.a,
            "entropy": entropy,
            "plane": entropy >> EvLayout.PLANE_SHIFT,
            "peer_host": qp.attributes.peer_host,
            "from": EvState(event.b).name,
            "to": EvState(event.c).name,
            "reason": EvReason(event.d).name.lower(),
            "drop_count": event.drop_count,
        }

    def _flush(self, qp: WorkQueue, event: Event) -> None:
        """Completes what a failed QP still had to do: the first with the reason, the rest as flushed."""
        status = qp.status
        while qp.posted:
            qp.completions.append(FinishedWork(qp.posted.popleft(), 0, status, event.time_ns))
            status = CompletionStatus.FLUSHED.name.lower()
