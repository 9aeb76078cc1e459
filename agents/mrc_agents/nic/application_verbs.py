"""Verbs about work; and requests of applications through their verbs library: pages, regions over them, QPs
without a peer.

Source: mrc_agents/include/mrc/application_abi.h.
"""

from ctypes import c_uint32
from typing import Any

from mrc_agents.abi import ApplicationTransport, Command, CompletionStatus, Limit, QpState, Work
from mrc_agents.entropy import randbits
from mrc_agents.errors import UsageError
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.memory import MemoryRegistration, RegionPlace
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.qp import CONNECTED
from mrc_agents.nic.qp_verbs import QueuePairVerbs
from mrc_agents.nic.verb import verb
from mrc_agents.nic.work_queue import QpLimits, is_under_way, qp_index

_EV_DRAW_BITS = 32
_U32_MAX = 0xFFFFFFFF


class WorkVerbs(NicState):
    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self._next_work_id = 1

    @verb
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
        qp = self._queue(qpn)
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
        ring = self._device.work[qp.index]
        if is_under_way(ring.entries[(ring.tail + 1) % Limit.WORK_RING]):
            raise UsageError(f"QP {qpn} holds {Limit.WORK_RING - 1} work requests already")
        work_id = self._next_work_id
        self._next_work_id += 1
        work = Work(
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
        qp.posted.append(work_id)
        ring.entries[ring.tail % Limit.WORK_RING] = work
        ring.tail += 1
        packets = max(1, -(-length // qp.attributes.pmtu_bytes)) * min(depth, iterations)
        self._device.request_tx(qp.index, min(packets, qp.attributes.window_packets))
        return work_id

    @verb
    def stop_work(self, qpn: int, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        qp = self._queue(qpn)
        if work_id not in qp.posted:
            return
        ring = self._device.work[qp.index]
        for entry in ring.entries:
            if entry.id == work_id:
                entry.stop = 1
        self._device.request_tx(qp.index, 1)

    @verb
    def poll(self, qpn: int) -> list[dict[str, Any]]:
        """Takes the completions of a QP that wait, oldest first."""
        qp = self._queue(qpn)
        completions = [completion._asdict() for completion in qp.completions]
        qp.completions.clear()
        return completions

    @verb
    def post_receive(self, qpn: int, count: int = 1) -> None:
        """Lets the peer's next *count* WRITEs with immediate come in, beyond those already posted."""
        qp = self._queue(qpn)
        if qp.state not in {QpState.INIT, QpState.RTR, QpState.RTS}:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; post_receive needs INIT, RTR or RTS")
        if count < 1:
            raise UsageError(f"count: {count}; at least 1 is accepted")
        ring = self._device.work[qp.index]
        ring.receive_tail = c_uint32(ring.receive_tail + count).value

    @verb
    def poll_receive(self, qpn: int) -> list[dict[str, Any]]:
        """Takes the WRITEs with immediate that have arrived, in the order they were sent."""
        qp = self._queue(qpn)
        return [arrival._asdict() for arrival in qp.take_arrivals()]


class ApplicationVerbs(WorkVerbs, QueuePairVerbs):
    """Requests that are no verbs of the agent's socket."""

    def allocate(self, length: int, wanted: int | None) -> int:
        """Offset of pages of the NIC's memory for an application, at *wanted* if there is room.

        Raises:
            UsageError: it cannot be, and the NIC's memory cannot grow.
        """
        return self._regions.allocate(length, wanted, grows=True)

    def free(self, offset: int, length: int) -> None:
        """Takes back pages of an application."""
        self._regions.free(offset, length)

    def give_back_memory(self) -> None:
        """Has memory removed that was added for applications, as far as none has any of it."""
        self._regions.give_back()

    def register_over(
        self, address: int, length: int, place: RegionPlace, *, is_remote_writable: bool, pd: int
    ) -> MemoryRegistration:
        """A region over pages of an application.

        Raises:
            UsageError: it cannot be.
        """
        return self._regions.register_over(
            address, length, place, is_remote_writable=is_remote_writable, pd=pd
        )

    def join_domain(self, qpn: int, pd: int) -> None:
        """Put a new QP into the protection domain whose regions its peer may write to."""
        self._queue(qpn).pd = pd

    def limit_qp(self, qpn: int, limits: QpLimits) -> None:
        """Puts limits of a QP in force; of one without a peer, with its change to RTR."""
        qp = self._queue(qpn)
        qp.limits = limits
        if qp.state in CONNECTED:
            values = (limits.give_up_us, limits.rnr_timer_us, limits.rnr_limit, limits.is_writable)
            self._device.command(Command.LIMITS, qp.index, *values)

    def creation(self, transport: int) -> tuple[str, dict[str, Any]]:
        """The verb that creates a QP, and its arguments; its peer becomes known on the way to RTR.

        Raises:
            UsageError: the NIC has no such transport.
        """
        arguments: dict[str, Any] = {"peer_host": int(self._device.config.host_index)}
        match transport:
            case ApplicationTransport.MRC:
                return "create_qp", arguments
            case ApplicationTransport.ROCEV2 if self._config.rocev2 is not None:
                evs = self._automatic_evs()
                chosen = evs[randbits(_EV_DRAW_BITS) % len(evs)]
                return "create_rc_qp", arguments | {"evs": [chosen], **self._config.rocev2}
            case ApplicationTransport.ROCEV2:
                raise UsageError(
                    "transport: rocev2 takes packets in order only, which this fabric does not keep"
                )
        raise UsageError(f"transport: {transport}; there is none of that number")

    def profile_qp(self, qpn: int, ev_profile: int | None, cc_profile: int | None) -> None:
        """Give a QP in INIT the EVs and the congestion control of profiles; without one the NIC's own.

        Raises:
            UsageError: the QP is not in INIT, or a profile is not ONLINE.
        """
        qp = self._find(qpn)
        if qp.state != QpState.INIT:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; profiles are set in INIT")
        qp.attributes = self._attributes(qp.attributes.peer_host, None, ev_profile, None, cc_profile, {})
        qp.ev_profile, qp.cc_profile = ev_profile, cc_profile
        self._write(qp, QpState.INIT)

    def sending_of(self, qpn: int) -> tuple[int, int]:
        """Packets that a QP may have under way at most, and the payload bytes of one."""
        attributes = self._queue(qpn).attributes
        return attributes.window_packets, attributes.pmtu_bytes

    def forget_reports(self, qpn: int) -> None:
        """Drops completions and arrivals of a QP, which its application reads from the ring."""
        queue = self._queue(qpn)
        queue.completions.clear()
        queue.arrivals.clear()

    def publish_failure(self, qpn: int, status: str) -> None:
        """Lets the application of a QP in ERROR see why it is."""
        self._device.work[qp_index(qpn)].failure = CompletionStatus[status.upper()] + 1
