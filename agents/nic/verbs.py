"""The verbs of a NIC: memory regions, QPs, posting and polling, EV lists.

A verb checks its arguments, changes the kernel's maps, and returns a plain JSON value. It does no waiting and
no I/O of its own; the daemon does both.
"""

from collections.abc import Callable, Iterable
from ctypes import c_uint32
from dataclasses import asdict, fields
from typing import Any

from agents.nic.config import AgentConfig
from agents.nic.device import NicDevice
from agents.nic.memory import RegionTable
from agents.nic.pattern import count_wrong, fill
from agents.nic.qp import (
    CONNECTED,
    PSN_MASK,
    TRANSITIONS,
    Arrival,
    Completion,
    QpAttributes,
    QueuePair,
    build_qp,
)
from agents.wire_abi import (
    Command,
    Event,
    EventKind,
    EvLayout,
    EvReason,
    EvState,
    Limit,
    ProbeKind,
    QpState,
    Status,
    Work,
)
from testbed.errors import UsageError

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
                "modify_qp",
                "connect_qp",
                "destroy_qp",
                "list_qps",
                "post_write",
                "post_receive",
                "stop_work",
                "poll",
                "poll_receive",
                "ev_list",
                "ev_deny",
                "ev_allow",
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
        self._device.work[index].receive_tail = 0
        self._device.qps.write(index, build_qp(qp, self._device.config))
        self._qps[index] = qp
        return qp.qpn

    def modify_qp(self, qpn: int, state: str, **attributes: int) -> None:
        """Moves a QP from one state to another, and sets what goes with that.

        Args:
            qpn: the QP.
            state: RTR, from INIT: it receives. RTS, from RTR: it sends as well. ERROR, from any: what it had
                to do completes as flushed. RESET, from any; INIT, from RESET: as new.
            attributes: to RTR `peer_qpn`, and where they differ from what the QP was created with `mpr_dest`,
                `max_wimm_dest` and `peer_first_psn`; to RTS `mpr` and `max_wimm` likewise.
        """
        qp = self._find(qpn)
        self._check_transition(qp, state, attributes)
        target = QpState[state]
        if target == QpState.RTR:
            self._to_rtr(qp, attributes)
        elif target == QpState.RTS:
            qp.attributes = changed = qp.attributes.changed(attributes)
            changed.check(self._device.config)
            self._command(Command.RTS, qp, changed.mpr * Limit.MPR_UNIT, changed.max_wimm)
        elif target == QpState.ERROR:
            self._command(Command.ERROR, qp)
        else:
            value = build_qp(qp, self._device.config)
            value.state = target
            self._device.work[qp.index].tail = 0
            self._device.work[qp.index].receive_tail = 0
            self._device.qps.write(qp.index, value)
            qp.forget_work()
        qp.state = target

    @staticmethod
    def _check_transition(qp: QueuePair, state: str, attributes: dict[str, int]) -> None:
        if state not in TRANSITIONS:
            raise UsageError(f"state: {state}; {', '.join(TRANSITIONS)} are accepted")
        rule = TRANSITIONS[state]
        if qp.state not in rule.before:
            names = " or ".join(before.name for before in rule.before)
            raise UsageError(f"QP {qp.qpn} is in state {qp.state.name}; {state} follows {names}")
        for name in sorted(set(attributes) - rule.attributes):
            known = ", ".join(sorted(rule.attributes)) or "none"
            raise UsageError(f"{name}: not an attribute of the change to {state}; {known} may be given")

    def _to_rtr(self, qp: QueuePair, attributes: dict[str, int]) -> None:
        peer_qpn = attributes.pop("peer_qpn", 0)
        if not Limit.QPN_BASE <= peer_qpn <= PSN_MASK:
            raise UsageError(f"peer_qpn: {peer_qpn}; {int(Limit.QPN_BASE)} to {PSN_MASK} is accepted")
        changed = qp.attributes.changed(attributes)
        changed.check(self._device.config)
        qp.attributes = changed
        value = build_qp(qp, self._device.config)
        value.peer_qpn = peer_qpn
        value.state = QpState.RTR
        self._device.qps.write(qp.index, value)

    def _command(self, command: Command, qp: QueuePair, *arguments: int) -> None:
        if not self._device.command(command, qp.index, *arguments):
            raise UsageError(f"QP {qp.qpn} is in state {qp.state.name}; {command.name} was refused")

    def connect_qp(self, qpn: int, peer_qpn: int) -> None:
        """Moves a QP through RTR to RTS towards the peer's QP."""
        qp = self._find(qpn)
        if qp.state != QpState.INIT:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; connect_qp needs INIT")
        self.modify_qp(qpn, QpState.RTR.name, peer_qpn=peer_qpn)
        self.modify_qp(qpn, QpState.RTS.name)

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
        immediate: int | None = None,
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
            immediate: 32 bits that each message hands to the peer's application; None for a plain WRITE.
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
        if immediate is not None and not 0 <= immediate <= _U32_MAX:
            raise UsageError(f"immediate: {immediate}; 0 to {_U32_MAX} is accepted")
        if immediate is not None and not qp.attributes.max_wimm:
            raise UsageError(
                f"immediate: QP {qpn} may have no WRITE with immediate outstanding (max_wimm: 0)"
            )
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
            has_immediate=immediate is not None,
            immediate=immediate or 0,
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

    def post_receive(self, qpn: int, count: int = 1) -> None:
        """Lets the peer's next *count* WRITEs with immediate come in, beyond those already posted."""
        qp = self._find(qpn)
        if qp.state not in {QpState.INIT, QpState.RTR, QpState.RTS}:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; post_receive needs INIT, RTR or RTS")
        if count < 1:
            raise UsageError(f"count: {count}; at least 1 is accepted")
        ring = self._device.work[qp.index]
        ring.receive_tail = c_uint32(ring.receive_tail + count).value

    def poll_receive(self, qpn: int) -> list[dict[str, Any]]:
        """Takes the WRITEs with immediate that have arrived, in the order they were sent."""
        qp = self._find(qpn)
        return [asdict(arrival) for arrival in qp.take_arrivals()]

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
                    "is_active": ev.state in {EvState.GOOD, EvState.SKIP}
                    and ev.position < plane.active_count,
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

    def ev_deny(self, qpn: int, evs: list[int]) -> None:
        """Takes EVs of a QP, by index, out of use until they are allowed again.

        They are denied one after another; the first that is refused ends the list.
        """
        qp = self._find(qpn)
        for index in self._checked_evs(qp, evs):
            if not self._device.command(Command.DENY, qp.index, index):
                raise UsageError(f"evs: {index} is the last active EV of QP {qpn}")

    def ev_allow(self, qpn: int, evs: list[int]) -> None:
        """Gives denied EVs of a QP, by index, back; those that are not denied are left as they are."""
        qp = self._find(qpn)
        for index in self._checked_evs(qp, evs):
            self._device.command(Command.ALLOW, qp.index, index)

    @staticmethod
    def _checked_evs(qp: QueuePair, evs: list[int]) -> list[int]:
        count = len(qp.attributes.evs)
        for index in evs:
            if not 0 <= index < count:
                raise UsageError(f"evs: {index}; 0 to {count - 1} is accepted")
        return evs

    def probe(self, qpn: int, evs: list[int], kind: str = "ev") -> None:
        """Sends one probe on each EV of a QP, by index; the answer shows in `ev_list` and the counters.

        Args:
            qpn: the QP.
            evs: indices of any of its EVs, in use or not.
            kind: `ev`: connectionless; `reliability`: asks the peer's QP for a SACK and brings a bad EV back.
        """
        qp = self._find(qpn)
        if kind not in {"ev", "reliability"}:
            raise UsageError(f"kind: {kind}; ev or reliability is accepted")
        targets = [(qp.index, index) for index in self._checked_evs(qp, evs)]
        self._device.send_probes(targets, ProbeKind[kind.upper()])

    # -- ports ------------------------------------------------------------------------------------

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
            value = self._device.qps.read(qp.index)
            for plane in range(config.plane_count):
                if config.port_up_mask >> plane & 1:
                    indices = range(plane * per_plane, (plane + 1) * per_plane)
                    # One that works, else any: the update is repeated until it is answered.
                    best = min((value.evs[index].state, index) for index in indices)[1]
                    found.append((qp.index, best))
        return found

    def bad_evs(self, plane_mask: int, peer_host: int | None) -> list[tuple[int, int]]:
        """EVs of some planes that are ASSUMED_BAD, as (QP index, EV index); to one peer, or to all."""
        found = []
        for qp in self._qps.values():
            if peer_host in {None, qp.attributes.peer_host}:
                value = self._device.qps.read(qp.index)
                found += [
                    (qp.index, index)
                    for index in range(len(qp.attributes.evs))
                    if value.evs[index].state == EvState.ASSUMED_BAD
                    and plane_mask >> value.evs[index].plane & 1
                ]
        return found

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
                "drop_count": event.drop_count,
            }
        if event.kind == EventKind.RECEIVE:
            qp.arrivals[event.a] = Arrival(event.a, event.b, event.d, event.time_ns)
            return told | {
                "event": "receive",
                "number": event.a,
                "immediate": event.b,
                "length": event.d,
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
