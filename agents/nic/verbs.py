"""The verbs of a NIC: memory regions, QPs, posting and polling, EV lists.

A verb checks its arguments, changes the kernel's maps, and returns a plain JSON value. It does no waiting and
no I/O of its own; the daemon does both.
"""

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from agents.nic.config import AgentConfig
from agents.nic.device import NicDevice
from agents.nic.memory import RegionTable
from agents.nic.pattern import count_wrong, fill
from agents.nic.qp import Completion, QpAttributes, QueuePair, build_qp
from agents.wire_abi import Event, EventKind, EvLayout, EvReason, EvState, Limit, QpState, Status, Work
from testbed.errors import UsageError

_PSN_MASK = 0xFFFFFF
_U32_MAX = 0xFFFFFFFF
_LOSS_WINDOWS = 2
_BACKUP_SHARE = 4
_FLOOR_SHARE = 4


class Verbs:
    """The state behind one agent's socket."""

    def __init__(self, config: AgentConfig, device: NicDevice) -> None:
        self._config = config
        self._device = device
        self._regions = RegionTable(device)
        self._qps: dict[int, QueuePair] = {}
        self._next_work_id = 1
        self.table: dict[str, Callable[..., Any]] = {
            name: getattr(self, name)
            for name in (
                "hello",
                "register_memory",
                "deregister_memory",
                "fill",
                "verify",
                "create_qp",
                "connect_qp",
                "destroy_qp",
                "list_qps",
                "post_write",
                "stop_work",
                "poll",
                "ev_list",
                "probe",
                "counters",
                "port_status",
            )
        }

    # -- the NIC ----------------------------------------------------------------------------------

    def hello(self) -> dict[str, Any]:
        """Who answers."""
        return {
            "host": self._config.host,
            "host_index": self._device.config.host_index,
            "memory_bytes": self._device.memory.length_bytes,
            "qps_max": self._device.qp_count,
        }

    def counters(self) -> dict[str, int]:
        """Counters since the NIC was loaded."""
        return self._device.counters()

    def port_status(self) -> list[bool]:
        """Carrier of each port, by plane."""
        config = self._device.config
        return [bool(config.port_up_mask >> plane & 1) for plane in range(config.plane_count)]

    # -- memory -----------------------------------------------------------------------------------

    def register_memory(self, length: int) -> dict[str, int]:
        """A new zeroed region: its offset in the NIC's memory, length in bytes, and R_Key."""
        return asdict(self._regions.register(length))

    def deregister_memory(self, r_key: int) -> None:
        """Invalidates an R_Key."""
        self._regions.deregister(r_key)

    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes the test pattern of *seed* into registered memory."""
        fill(self._regions.check(offset, length), length, seed)

    def verify(self, offset: int, length: int, seed: int) -> int:
        """Number of bytes that differ from the test pattern of *seed*."""
        return count_wrong(self._regions.check(offset, length), length, seed)

    # -- queue pairs ------------------------------------------------------------------------------

    def create_qp(self, peer_host: int, evs: list[int], **attributes: int) -> int:
        """A QP in state INIT; returns its number.

        Args:
            peer_host: index of the far host.
            evs: EVs, plane by plane.
            attributes: any of the other QpAttributes; what is left out gets the NIC's default.
        """
        known = {field.name for field in fields(QpAttributes)} - {"peer_host", "evs"}
        unknown = sorted(set(attributes) - known)
        if unknown:
            raise UsageError(f"create_qp: no attribute {unknown[0]}; known: {', '.join(sorted(known))}")
        window = attributes.get("window_packets", 64)
        per_plane = len(evs) // self._device.config.plane_count
        defaults = {
            "backup_per_plane": per_plane // _BACKUP_SHARE,
            "min_active": max(1, len(evs) // _FLOOR_SHARE),
            "window_packets": window,
            "loss_threshold_acks": _LOSS_WINDOWS * window,
            "pmtu_bytes": int(Limit.PMTU_MAX),
            "rto_ns": self._config.rto_ns,
            "retry_limit": self._config.retry_limit,
            "probe_success_target": self._config.probe_success_target,
            "seed": 0,
        }
        checked = QpAttributes(peer_host=peer_host, evs=tuple(evs), **(defaults | attributes))
        checked.check(self._device.config)
        index = next((i for i in range(self._device.qp_count) if i not in self._qps), None)
        if index is None:
            raise UsageError(f"all {self._device.qp_count} QPs of the NIC are in use")
        qp = QueuePair(index, checked)
        self._device.work[index].tail = 0
        self._device.qps.write(index, build_qp(qp, self._device.config))
        self._qps[index] = qp
        return qp.qpn

    def connect_qp(self, qpn: int, peer_qpn: int) -> None:
        """Moves a QP through RTR to RTS towards the peer's QP."""
        qp = self._find(qpn)
        if qp.state != QpState.INIT:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; connect_qp needs INIT")
        if not Limit.QPN_BASE <= peer_qpn <= _PSN_MASK:
            raise UsageError(f"peer_qpn: {peer_qpn}; {int(Limit.QPN_BASE)} to {_PSN_MASK} is accepted")
        value = self._device.qps.read(qp.index)
        value.peer_qpn = peer_qpn
        value.state = QpState.RTS
        self._device.qps.write(qp.index, value)
        qp.state = QpState.RTS

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use; packets for it are dropped from now on."""
        qp = self._find(qpn)
        value = build_qp(qp, self._device.config)
        value.state = QpState.RESET
        value.qpn = 0
        self._device.qps.write(qp.index, value)
        del self._qps[qp.index]

    def list_qps(self) -> list[dict[str, Any]]:
        """Every QP: number, state, peer, and what is under way."""
        rows = []
        for qp in self._qps.values():
            value = self._device.qps.read(qp.index)
            rows.append(
                {
                    "qpn": qp.qpn,
                    "peer_qpn": value.peer_qpn,
                    "peer_host": value.peer_host,
                    "state": QpState(value.state).name,
                    "status": qp.status,
                    "inflight": value.inflight,
                    "next_psn": value.next_psn,
                    "una_psn": value.una_psn,
                    "lost_waiting": value.lost_count,
                    "active_evs": value.active_total,
                }
            )
        return rows

    # -- work -------------------------------------------------------------------------------------

    def post_write(
        self,
        qpn: int,
        *,
        length: int,
        local_offset: int,
        remote_offset: int,
        r_key: int,
        iterations: int = 1,
        depth: int = 16,
        local_slots: int = 1,
        remote_slots: int = 1,
    ) -> int:
        """Posts an RDMA WRITE, `iterations` times over; returns the work request's id.

        Args:
            qpn: the QP, in RTS.
            length: bytes of each message.
            local_offset: where the first message's bytes are, in this NIC's memory.
            remote_offset: where they go, counted from the start of the peer's region.
            r_key: the peer's key.
            iterations: messages to send.
            depth: messages outstanding at most.
            local_slots: message i is read at local_offset + (i % local_slots) * length.
            remote_slots: and written at remote_offset + (i % remote_slots) * length.
        """
        qp = self._find(qpn)
        if qp.state != QpState.RTS:
            raise UsageError(f"QP {qpn} is in state {qp.state.name} ({qp.status}); post_write needs RTS")
        for name, value, low, high in (
            ("length", length, 0, _U32_MAX),
            ("local_offset", local_offset, 0, _U32_MAX),
            ("remote_offset", remote_offset, 0, _U32_MAX),
            ("r_key", r_key, 0, _U32_MAX),
            ("iterations", iterations, 1, _U32_MAX),
            ("depth", depth, 1, Limit.WORK_RING - 1),
            ("local_slots", local_slots, 1, _U32_MAX),
            ("remote_slots", remote_slots, 1, _U32_MAX),
        ):
            if not low <= value <= high:
                raise UsageError(f"{name}: {value}; {low} to {high} is accepted")
        if remote_offset + remote_slots * length > 1 << 32:
            raise UsageError(
                f"remote_offset: {remote_offset}; with {remote_slots} slots of {length} bytes it passes 2^32"
            )
        if length:
            self._regions.check(local_offset, local_slots * length)
        if len(qp.posted) >= Limit.WORK_RING - 1:
            raise UsageError(f"QP {qpn} holds {len(qp.posted)} work requests already")
        ring = self._device.work[qp.index]
        work_id = self._next_work_id
        self._next_work_id += 1
        ring.entries[ring.tail % Limit.WORK_RING] = Work(
            id=work_id,
            length=length,
            iterations=iterations,
            local_offset=local_offset,
            local_slots=local_slots,
            remote_offset=remote_offset,
            remote_slots=remote_slots,
            r_key=r_key,
            depth=depth,
        )
        ring.tail += 1
        qp.posted.append(work_id)
        packets = max(1, -(-length // qp.attributes.pmtu_bytes)) * min(depth, iterations)
        self._device.lend_frames(qp.index, min(packets, qp.attributes.window_packets))
        return work_id

    def stop_work(self, qpn: int, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        qp = self._find(qpn)
        if work_id not in qp.posted:
            return
        ring = self._device.work[qp.index]
        for entry in ring.entries:
            if entry.id == work_id:
                entry.stop = 1
        self._device.lend_frames(qp.index, 1)

    def poll(self, qpn: int) -> list[dict[str, Any]]:
        """Takes the completions of a QP that wait, oldest first."""
        qp = self._find(qpn)
        completions = [asdict(completion) for completion in qp.completions]
        qp.completions.clear()
        return completions

    # -- EVs --------------------------------------------------------------------------------------

    def ev_list(self, qpn: int) -> list[dict[str, Any]]:
        """Every EV of a QP: state, why and since when, and what it carried."""
        qp = self._find(qpn)
        value = self._device.qps.read(qp.index)
        rows = []
        for index in range(len(qp.attributes.evs)):
            ev = value.evs[index]
            plane = value.planes[ev.plane]
            rows.append(
                {
                    "index": index,
                    "entropy": ev.entropy,
                    "plane": ev.plane,
                    "state": EvState(ev.state).name,
                    "is_active": ev.state == EvState.GOOD and ev.position < plane.active_count,
                    "reason": EvReason(ev.reason).name.lower(),
                    "changed_ns": ev.changed_ns,
                    "bad_count": ev.bad_count,
                    "tx_packets": ev.tx_packets,
                    "lost_packets": ev.lost_packets,
                    "marks": ev.marks,
                    "rtt_ns": ev.rtt_ns,
                    "probe_successes": ev.probe_successes,
                }
            )
        return rows

    def probe(self, qpn: int, evs: list[int]) -> None:
        """Sends one EV probe on each EV of a QP, by index; the answer shows in `ev_list` and the counters."""
        qp = self._find(qpn)
        count = len(qp.attributes.evs)
        for index in evs:
            if not 0 <= index < count:
                raise UsageError(f"evs: {index}; 0 to {count - 1} is accepted")
        self._device.send_probes([(qp.index, index) for index in evs])

    # -- what the kernel reports ------------------------------------------------------------------

    def take_event(self, event: Event) -> dict[str, Any] | None:
        """Books one kernel event; returns what subscribers are told, None for what is no news to them."""
        qp = self._qps.get(event.qp_index)
        if qp is None:
            return None
        told: dict[str, Any] = {"time_ns": event.time_ns, "host": self._config.host, "qpn": qp.qpn}
        if event.kind == EventKind.COMPLETION:
            status = Status(event.c).name.lower()
            qp.completions.append(Completion(event.a, event.b, status, event.time_ns))
            if event.a in qp.posted:
                qp.posted.remove(event.a)
            return told | {
                "event": "completion",
                "work_id": event.a,
                "iterations": event.b,
                "status": status,
                "length": event.d,
            }
        if event.kind == EventKind.EV_STATE:
            entropy = qp.attributes.evs[event.a]
            return told | {
                "event": "ev_state",
                "ev": event.a,
                "entropy": entropy,
                "plane": entropy >> EvLayout.PLANE_SHIFT,
                "peer_host": qp.attributes.peer_host,
                "from": EvState(event.b).name,
                "to": EvState(event.c).name,
                "reason": EvReason(event.d).name.lower(),
            }
        if event.kind == EventKind.QP_STATE:
            qp.state = QpState(event.b)
            qp.status = Status(event.c).name.lower()
            self._flush(qp, event)
            return told | {
                "event": "qp_state",
                "from": QpState(event.a).name,
                "to": qp.state.name,
                "status": qp.status,
            }
        return None

    def _flush(self, qp: QueuePair, event: Event) -> None:
        """Completes what a failed QP still had to do: the first with the reason, the rest as flushed."""
        status = qp.status
        while qp.posted:
            qp.completions.append(Completion(qp.posted.popleft(), 0, status, event.time_ns))
            status = Status.FLUSHED.name.lower()

    def _find(self, qpn: int) -> QueuePair:
        qp = self._qps.get(qpn - Limit.QPN_BASE)
        if qp is None:
            raise UsageError(f"qpn: no QP {qpn}")
        return qp
