"""The requestor's bookkeeping in plain Python: packets under way, loss, EVs set aside, EVs that return.

Which EV carries a packet, and which backup stands in for one that fell, are free choices within rules: they
are taken over from the NIC once they obey the rules. All else must be equal. There is no clock, every port is
up, and no two EVs of a plane share a path.

Source: docs/protocol.md, "Requestor", "SACK processing", "Loss", "EV states".
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ev_partition import PlanePartition
from reference_responder import MessagesDone

from agents.nic.qp import QpAttributes
from agents.wire_abi import Limit
from testbed.wire.psn import Psn, psn_expand
from testbed.wire.reliability_header import Seth

BITMAP_NEWS_MAX = 16
"""What the bitmap of one SACK tells beyond this is heard with the next."""


@dataclass(slots=True)
class Packet:
    """A packet that was sent.

    Attributes:
        ev: of its last copy.
        acked_at_send: acknowledgements when that left.
        copies: sent so far.
        is_lost: it waits for retransmission.
    """

    ev: int
    acked_at_send: int
    copies: int = 1
    is_lost: bool = False


@dataclass(slots=True)
class ReferenceRequestor:
    """One QP that sends.

    Attributes:
        attributes: of the QP.
        planes: the EVs of each plane.
        next_psn: of the next new packet.
        oldest_psn: not acknowledged.
        end_psn: one above the last packet of the work posted.
        message_ends: last PSN of each message not completed.
        packets: not acknowledged, by PSN.
        acked_total: packets acknowledged.
        peer_next_psn: one above the highest cack_psn heard.
        completed: messages.
        fallen: EVs that became bad, in order.
        has_asked: a packet was sent again to ask for an ACK, and nothing has completed since.
        probe_pending: EVs whose last probe is not answered.
        successes: probe answers in a row, of bad EVs.
    """

    attributes: QpAttributes
    planes: list[PlanePartition]
    next_psn: int = 0
    oldest_psn: int = 0
    end_psn: int = 0
    message_ends: list[int] = field(default_factory=list)
    packets: dict[int, Packet] = field(default_factory=dict)
    acked_total: int = 0
    peer_next_psn: int = 0
    completed: int = 0
    fallen: list[int] = field(default_factory=list)
    has_asked: bool = False
    probe_pending: set[int] = field(default_factory=set)
    successes: dict[int, int] = field(default_factory=dict)

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
        if self.under_way >= self.attributes.window_packets:
            return None
        if self.lost_psns:
            return self.lost_psns[0]
        if self.next_psn < self.end_psn:
            return self.next_psn if self.next_psn - self.oldest_psn < Limit.PSN_RING else None
        is_ack_missing = not self.packets and self.message_ends
        return self.next_psn - 1 if is_ack_missing and not self.has_asked else None

    def send(self, psn: int, ev: int) -> None:
        """Takes note that `next_to_send` left on *ev*."""
        plane = self.plane_of(ev)
        assert ev in self.planes[plane].active
        if psn == self.next_psn:
            self.next_psn += 1
            self.packets[psn] = Packet(ev, self.acked_total)
            self.has_asked = False
            return
        if psn not in self.packets:
            self.has_asked = True
            return
        self.packets[psn] = Packet(ev, self.acked_total, self.packets[psn].copies + 1)

    # -- hearing ----------------------------------------------------------------------------------

    def hear(self, seth: Seth) -> bool:
        """Takes note of a SACK; false if it is stale."""
        cack_psn = psn_expand(self.oldest_psn, Psn(seth.cack_psn))
        if cack_psn >= self.next_psn:
            return False
        self.peer_next_psn = max(self.peer_next_psn, cack_psn + 1)
        self._acknowledge(cack_psn + seth.ack_psn_offset)
        reported = (cack_psn + seth.sack_offset + bit for bit in range(64) if seth.sack_bitmap >> bit & 1)
        for psn in [psn for psn in reported if psn in self.packets][:BITMAP_NEWS_MAX]:
            self._acknowledge(psn)
        self._conclude()
        return True

    def hear_ack(self, ack: MessagesDone) -> None:
        """Takes note of a transport ACK."""
        self.peer_next_psn = max(self.peer_next_psn, psn_expand(self.oldest_psn, Psn(ack.psn)) + 1)
        while self.completed < ack.count:
            self.message_ends.pop(0)
            self.completed += 1
            self.has_asked = False
        self._conclude()

    def _conclude(self) -> None:
        for psn in [psn for psn in self.packets if psn < self.peer_next_psn]:
            self._acknowledge(psn)
        self.oldest_psn = min(self.packets, default=self.next_psn)
        for psn in self._overdue():
            self.packets[psn].is_lost = True
            self._leave(self.packets[psn].ev)

    def _acknowledge(self, psn: int) -> None:
        if self.packets.pop(psn, None) is not None:
            self.acked_total += 1

    def _overdue(self) -> list[int]:
        """Packets passed by more than the threshold of acknowledgements: new ones first, as they left."""
        overdue = [
            (packet.copies > 1, packet.acked_at_send, psn)
            for psn, packet in self.packets.items()
            if not packet.is_lost
            and self.acked_total - packet.acked_at_send > self.attributes.loss_threshold_acks
        ]
        return [psn for *_, psn in sorted(overdue)]

    # -- EVs --------------------------------------------------------------------------------------

    def plane_of(self, ev: int) -> int:
        """The plane of an EV, by index."""
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

    def hear_answer(self, ev: int) -> bool:
        """An answer to any probe on an EV; whether the EV has returned."""
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
