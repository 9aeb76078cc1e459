"""The requester's bookkeeping in plain Python: packets in flight, loss, EVs set aside, EVs that return.

Which EV carries a packet, and which backup replaces one that became bad, are free choices within rules: they
are taken over from the NIC if they follow the rules. All else must be equal. There is no clock, every port
is up, and no two EVs of a plane share a path.

Source: docs/reference/protocol.md, "Requester", "SACK processing", "Loss", "EV states".
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from mrc_agents.abi import Limit
from mrc_agents.nic.qp import QpAttributes, path_numbers
from mrc_agents.protocol.sizes import write_nominal_bytes
from reference.congestion import CcReason, SackFeedback
from reference.ev_partition import PlanePartition
from reference.nscc import Nscc
from reference.psn import Psn, psn_expand
from reference.received_bytes import received_units
from reference.reliability_header import CcState, PathAdvice, Seth
from reference.responder import MessagesDone

UNIT_BYTES = 256
"""Unit of CC_STATE.rcvd_bytes: rounding alone never leaves so much in flight when nothing is."""

ACK_MISSING_BYTES = 32
"""Bytes by which an ACK is shorter than a SACK."""

NEW_BITS_PER_SACK = 16
"""Bits of one SACK that are processed; the next SACK repeats the others."""


@dataclass(slots=True)
class Packet:
    """A packet that was sent."""

    ev: int  # of its last copy
    path: int  # that EV names
    acked_at_send: int  # acknowledgements when that left
    window_packets: int  # that the window let go then
    order: int  # of all copies sent, from 0
    nominal_bytes: int  # of each copy
    sent_ns: int  # of the last one
    payload_bytes: int  # of each copy
    copies: int = 1  # sent so far
    is_lost: bool = False  # it waits for retransmission


@dataclass(slots=True)
class ReferenceRequester:
    """One QP that sends."""

    attributes: QpAttributes  # of the QP
    planes: list[PlanePartition]  # the EVs of each plane
    nscc: Nscc  # congestion control
    next_psn: int = 0  # of the next new packet
    oldest_psn: int = 0  # not acknowledged
    end_psn: int = 0  # one above the last packet of the work posted
    message_ends: list[int] = field(default_factory=list)  # last PSN of each message not completed
    packets: dict[int, Packet] = field(default_factory=dict)  # not acknowledged, by PSN
    # all that were sent, by PSN; the last copy of each
    history: dict[int, Packet] = field(default_factory=dict)
    acked_total: int = 0  # packets acknowledged
    peer_next_psn: int = 0  # one above the highest cack_psn received
    completed: int = 0  # messages
    fallen: list[int] = field(default_factory=list)  # EVs that became bad, in order
    has_asked: bool = False  # a packet was sent again to ask for an ACK, and nothing has completed since
    probe_pending: set[int] = field(default_factory=set)  # EVs whose last probe has no response
    successes: dict[int, int] = field(default_factory=dict)  # probe responses in a row, of bad EVs
    path_of: list[int] = field(init=False)  # the path of each EV
    # those with packets under way, the one without acknowledgement for longest first
    busy_paths: list[int] = field(default_factory=list)
    # acknowledgements when a path was last acknowledged on, or first used since
    last_ack: dict[int, int] = field(default_factory=dict)
    passed: Counter[int] = field(default_factory=Counter)  # packets that have passed the oldest one of a path
    sent_order: int = 0  # copies sent
    acked_nominal_bytes: int = 0  # of packets acknowledged
    # how often the window changed, by reason
    window_changes: Counter[CcReason] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        are_named = bool(self.attributes.evs_name_paths)
        self.path_of = path_numbers(self.attributes.evs, are_named=are_named)

    # -- sending ----------------------------------------------------------------------------------

    def post(self, packet_count: int) -> None:
        """A message of so many packets is to be sent."""
        self.end_psn += packet_count
        self.message_ends.append(self.end_psn - 1)

    @property
    def lost_psns(self) -> list[int]:
        """Packets that wait for retransmission, lowest first."""
        return sorted(psn for psn, packet in self.packets.items() if packet.is_lost)

    @property
    def under_way(self) -> int:
        """Packets sent, neither acknowledged nor lost."""
        return sum(not packet.is_lost for packet in self.packets.values())

    def next_to_send(self) -> int | None:
        """The PSN that must leave with the next frame; None if none may."""
        if not self.under_way:
            assert self.lost_psns or abs(self.nscc.inflight_bytes) < UNIT_BYTES
            self.nscc.on_drained()
            if not self.lost_psns:
                self.nscc.on_idle()
        if self.lost_psns:
            return self.lost_psns[0] if self.nscc.may_send() else None
        if self.next_psn < self.end_psn:
            is_in_range = self.next_psn - self.oldest_psn < Limit.PSN_RING
            return self.next_psn if is_in_range and self.nscc.may_send() else None
        is_ack_missing = not self.packets and self.message_ends
        return self.next_psn - 1 if is_ack_missing and not self.has_asked else None

    def send(self, psn: int, ev: int, payload_bytes: int, sent_ns: int) -> None:
        """Takes note that `next_to_send` left on *ev*."""
        plane = self.plane_of(ev)
        assert ev in self.planes[plane].active
        if psn != self.next_psn and psn not in self.packets:
            self.has_asked = True
            return
        copies = self.packets[psn].copies if psn in self.packets else 0
        if not copies:
            self.next_psn += 1
            self.has_asked = False
        size = write_nominal_bytes(payload_bytes)
        # What the window was when it was decided: counting the packet does not change it.
        window = min(self.nscc.cwnd_bytes >> self.attributes.pmtu_bytes.bit_length() - 1, Limit.PSN_RING)
        path = self.path_of[ev]
        if path not in self.busy_paths:
            self.busy_paths.append(path)
            self.last_ack[path] = self.acked_total
            self.passed[path] = 0
        self.history[psn] = self.packets[psn] = Packet(
            ev, path, self.acked_total, window, self.sent_order, size, sent_ns, payload_bytes, copies + 1
        )
        self.sent_order += 1
        self.nscc.on_send(size)

    def oldest_on(self, path: int) -> int | None:
        """The PSN under way on a path whose copy left first."""
        under_way = [
            psn for psn, packet in self.packets.items() if packet.path == path and not packet.is_lost
        ]
        return min(under_way, key=lambda psn: self.packets[psn].order, default=None)

    # -- receiving --------------------------------------------------------------------------------

    def on_sack(self, seth: Seth, state: CcState, now_ns: int, *, is_retransmission: bool) -> bool:
        """Takes note of a SACK; false if it is stale."""
        cack_psn = psn_expand(self.oldest_psn, Psn(seth.cack_psn))
        if cack_psn >= self.next_psn:
            return False
        self.peer_next_psn = max(self.peer_next_psn, cack_psn + 1)
        cause = self.packets.get(cack_psn + seth.ack_psn_offset)
        is_sample = cause is not None and cause.copies == 1 and not is_retransmission
        rtt_ns = self._full_packet_rtt_ns(cause, now_ns, 0) if cause is not None and is_sample else None
        bits = range(64)
        reported = [cack_psn + seth.sack_offset + bit for bit in bits if seth.sack_bitmap >> bit & 1]
        holes = {cack_psn + seth.sack_offset + bit for bit in bits} - set(reported)
        psn = cack_psn + seth.ack_psn_offset
        passing = self._certain_copy(psn, seth.entropy, is_retransmission=is_retransmission)
        self._acknowledge(psn)
        has_passed = passing is not None and self._detect_overtaken(passing, holes)
        is_marked = seth.advice is PathAdvice.SKIP_ONCE
        self._note(self.nscc.on_sack(SackFeedback(now_ns, state, rtt_ns, is_marked)))
        for arrived in [each for each in reported if each in self.packets][:NEW_BITS_PER_SACK]:
            self._acknowledge(arrived)
        self._post_process()
        while passing is not None and has_passed and self._is_passed(passing, holes):
            self._lose(passing.path)
        self._detect_idle()
        return True

    def _full_packet_rtt_ns(self, cause: Packet, now_ns: int, missing_bytes: int) -> int:
        """The RTT of *cause*, had it been full and its response a SACK, which is so many bytes longer."""
        rtt_ns = now_ns - cause.sent_ns
        missing_bytes += self.attributes.pmtu_bytes - cause.payload_bytes
        return rtt_ns + missing_bytes * self.attributes.byte_time_ps // 1000 if rtt_ns > 0 else rtt_ns

    def _certain_copy(self, psn: int, entropy: int, *, is_retransmission: bool) -> Packet | None:
        """The last copy of *psn*, if it surely caused a SACK."""
        packet = self.history.get(psn)
        if packet is None or self.attributes.evs[packet.ev] != entropy:
            return None
        return packet if packet.copies - 1 == is_retransmission else None

    def _is_passed(self, passing: Packet, holes: set[int]) -> bool:
        psn = self.oldest_on(passing.path)
        if psn is None or psn not in holes:
            return False
        packet = self.packets[psn]
        return packet.order < passing.order and packet.sent_ns <= passing.sent_ns

    def _detect_overtaken(self, passing: Packet, holes: set[int]) -> bool:
        if not self._is_passed(passing, holes):
            return False
        self.passed[passing.path] += 1
        return self.passed[passing.path] > self.attributes.reorder_packets

    def on_ack(self, ack: MessagesDone, entropy: int, now_ns: int) -> None:
        """Takes note of a transport ACK that came on the EV *entropy*."""
        psn = psn_expand(self.oldest_psn, Psn(ack.psn))
        cause = self.packets.get(psn)
        is_sample = cause is not None and cause.copies == 1 and self.attributes.evs[cause.ev] == entropy
        rtt_ns = self._full_packet_rtt_ns(cause, now_ns, ACK_MISSING_BYTES) if cause and is_sample else None
        self.peer_next_psn = max(self.peer_next_psn, psn + 1)
        while self.completed < ack.count:
            self.message_ends.pop(0)
            self.completed += 1
            self.has_asked = False
        self._post_process()
        state = CcState(0, received_units=received_units(self.acked_nominal_bytes))
        self._note(self.nscc.on_sack(SackFeedback(now_ns, state, rtt_ns)))
        self._detect_idle()

    def on_trimmed(self, psn: int, entropy: int, now_ns: int) -> bool:
        """Takes note of a NACK that says a packet was trimmed; false if it is stale."""
        packet = self.packets.get(psn_expand(self.oldest_psn, Psn(psn)))
        if packet is None or packet.is_lost or self.attributes.evs[packet.ev] != entropy:
            return False
        self._unlink(psn_expand(self.oldest_psn, Psn(psn)))
        packet.is_lost = True
        self._path_acked(packet.path)
        self._note(self.nscc.on_nack(now_ns, packet.nominal_bytes, is_trimmed=True))
        self._post_process()
        self._detect_idle()
        return True

    def _note(self, reason: CcReason) -> None:
        if reason:
            self.window_changes[reason] += 1

    def _post_process(self) -> None:
        for psn in [psn for psn in self.packets if psn < self.peer_next_psn]:
            self._acknowledge(psn)
        self.oldest_psn = min(self.packets, default=self.next_psn)

    def _detect_idle(self) -> None:
        """While the path without acknowledgement for longest is idle, its oldest packet is lost."""
        while self.busy_paths:
            path = self.busy_paths[0]
            psn = self.oldest_on(path)
            assert psn is not None
            packet = self.packets[psn]
            limit = min(3 * packet.window_packets + 8, self.attributes.loss_threshold_acks)
            if min(self.acked_total - packet.acked_at_send, self.acked_total - self.last_ack[path]) <= limit:
                return
            self._lose(path)

    def _lose(self, path: int) -> None:
        """Declare the oldest packet of a path lost; the path is then the last to have its turn again."""
        psn = self.oldest_on(path)
        assert psn is not None
        packet = self.packets[psn]
        self._unlink(psn)
        packet.is_lost = True
        if path in self.busy_paths:
            self.busy_paths.append(self.busy_paths.pop(self.busy_paths.index(path)))
        self._note(self.nscc.on_inferred_loss(packet.nominal_bytes))
        self._leave(packet.ev)

    def _unlink(self, psn: int) -> None:
        """A packet under way no longer is; to be called while it still counts as such."""
        path = self.packets[psn].path
        if self.oldest_on(path) == psn:
            self.passed[path] = 0
        if sum(packet.path == path and not packet.is_lost for packet in self.packets.values()) == 1:
            self.busy_paths.remove(path)

    def _path_acked(self, path: int) -> None:
        self.last_ack[path] = self.acked_total
        if path in self.busy_paths:
            self.busy_paths.append(self.busy_paths.pop(self.busy_paths.index(path)))

    def _acknowledge(self, psn: int) -> None:
        packet = self.packets.get(psn)
        if packet is None:
            return
        self.acked_total += 1
        self.acked_nominal_bytes += packet.nominal_bytes
        if packet.is_lost:
            self.nscc.on_false_loss(packet.nominal_bytes)
        else:
            self._unlink(psn)
        del self.packets[psn]
        self._path_acked(packet.path)

    # -- EVs --------------------------------------------------------------------------------------

    def plane_of(self, ev: int) -> int:
        return ev // (len(self.attributes.evs) // len(self.planes))

    @property
    def _active_total(self) -> int:
        return sum(len(part.active) for part in self.planes)

    def _leave(self, ev: int) -> None:
        """An EV that lost a packet falls, unless the floor holds it; `adopt` finds out who stands in."""
        plane = self.plane_of(ev)
        part = self.planes[plane]
        if ev in part.bad:
            return
        if ev in part.active and not part.backup and self._active_total <= self.attributes.min_active:
            return
        self.fallen.append(ev)
        self.successes[ev] = 0
        active, backup = part.active - {ev}, part.backup - {ev}
        if ev in part.active and part.backup:
            # Any backup will do; a nameless one stands for whichever the NIC takes.
            raise_one = min(part.backup)
            active, backup = active | {raise_one}, backup - {raise_one}
        self.planes[plane] = PlanePartition(active, backup, part.bad | {ev})

    def adopt(self, observed: tuple[PlanePartition, ...]) -> None:
        """Checks the NIC's partition against the reference's and takes over its choice of backups."""
        for plane, (mine, seen) in enumerate(zip(self.planes, observed, strict=True)):
            assert seen.bad == mine.bad
            assert (len(seen.active), len(seen.backup)) == (len(mine.active), len(mine.backup))
            self.planes[plane] = seen

    def probe(self, ev: int) -> None:
        """A probe leaves on an EV; the one before it, if unanswered, has failed."""
        if ev in self.probe_pending:
            self.successes[ev] = 0
        self.probe_pending.add(ev)

    def on_probe_response(self, ev: int) -> bool:
        """Return True if a response to a probe on an EV brings the EV back."""
        self.probe_pending.discard(ev)
        plane = self.plane_of(ev)
        part = self.planes[plane]
        if ev not in part.bad:
            return False
        self.successes[ev] += 1
        if self.successes[ev] < self.attributes.probe_success_target:
            return False
        target = len(self.attributes.evs) // len(self.planes) - self.attributes.backup_per_plane
        is_short = len(part.active) < target
        self.planes[plane] = PlanePartition(
            part.active | {ev} if is_short else part.active,
            part.backup if is_short else part.backup | {ev},
            part.bad - {ev},
        )
        return True

    def outstanding(self) -> Iterator[int]:
        """The EV of each packet under way."""
        return (packet.ev for packet in self.packets.values() if not packet.is_lost)
