"""The responder's packet bookkeeping in plain Python: sets and integers, no rings and no bits.

PSNs are free-running counters of any size; only what is sent is cut to the wire's width.

Source: docs/reference/protocol.md, "Responder", "SETH" and "CC_STATE".
"""

from dataclasses import dataclass, field

from mrc_agents.abi import Limit
from mrc_agents.protocol.sizes import nominal_bytes
from reference.psn import wire_psn
from reference.received_bytes import received_units
from reference.reliability_header import CcState, Seth
from reference.sack import LOW_BASE_OFFSET, build_bitmap, high_base_offset

WINDOW_PSNS = Limit.PSN_RING.value
OFFSET_MIN = -(1 << 15)


@dataclass(frozen=True, slots=True)
class MessagesDone:
    """The content of a transport ACK."""

    psn: int  # wire PSN of the last packet of the last message completed in order
    count: int  # messages completed, modulo 2^24
    stands_for_another: bool = False  # another packet caused it than the first transmission of that one


class AckPathProbe:
    """An EV probe that replaces a SACK, to find EVs on which SACKs arrive."""


@dataclass(slots=True)
class ReferenceResponder:
    """The receive state of one QP."""

    next_psn: int = 0  # the first PSN not received
    above: set[int] = field(default_factory=set)  # PSNs received beyond it
    newest: int = -1  # highest PSN received; one below the first while there is none
    received_bytes: int = 0  # nominal, each packet once
    sack_count: int = 0  # SACKs sent
    ends: set[int] = field(default_factory=set)  # PSNs received that end a message
    done: int = 0  # messages complete, with all before them
    done_psn: int = -1  # counter of the last packet of the last of them
    owes_ack: bool = False  # messages are done that no ACK has reported
    probes_ack_path: bool = False  # an ACK-path probe is sent after so many packets whose response can wait
    since_probe: int = 0  # such packets since the last one

    @classmethod
    def starting_at(cls, first_psn: int) -> "ReferenceResponder":
        """A QP that expects *first_psn*."""
        return cls(next_psn=first_psn, newest=first_psn - 1)

    def accepts(self, psn: int) -> bool:
        """Return True if *psn* lies below the end of the window."""
        return psn < self.next_psn + WINDOW_PSNS

    def has(self, psn: int) -> bool:
        return psn < self.next_psn or psn in self.above

    def receive(
        self,
        psn: int,
        udp_bytes: int,
        *,
        entropy: int,
        timestamp: int,
        ends_message: bool = False,
        is_marked: bool = False,
        is_retransmission: bool = False,
    ) -> tuple[Seth, CcState] | MessagesDone | AckPathProbe:
        """The headers of the SACK, or the content of the ACK, for a packet inside the window, new or not."""
        is_new = not self.has(psn)
        if is_new:
            self.ends |= {psn} if ends_message else set()
            self.above.add(psn)
            self.newest = max(self.newest, psn)
            self.received_bytes += nominal_bytes(udp_bytes)
            while self.next_psn in self.above:
                self.above.remove(self.next_psn)
                if self.next_psn in self.ends:
                    self.done += 1
                    self.done_psn = self.next_psn
                    self.owes_ack = True
                self.next_psn += 1
        if (self.owes_ack and not is_marked) or (not is_new and self.done and psn <= self.done_psn):
            self.owes_ack = False
            is_another = is_retransmission or not is_new or psn != self.done_psn
            return MessagesDone(wire_psn(self.done_psn), self.done % (1 << 24), is_another)
        if self.probes_ack_path and is_new and not is_marked and not is_retransmission:
            self.since_probe += 1
            if self.since_probe == Limit.ACK_PATH_SPACING:
                self.since_probe = 0
                return AckPathProbe()
        self.sack_count += 1
        return self._sack(psn, entropy, timestamp)

    def _sack(self, psn: int, entropy: int, timestamp: int) -> tuple[Seth, CcState]:
        cack = self.next_psn - 1
        wire_cack = wire_psn(cack)
        # Where the bitmap does not reach the newest packet from below, every second one ends there.
        ends_high = self.sack_count % 2 == 1
        offset = high_base_offset(wire_cack, wire_psn(self.newest)) if ends_high else LOW_BASE_OFFSET
        above = {wire_psn(received) for received in self.above}
        seth = Seth(
            cack_psn=wire_cack,
            entropy=entropy,
            sack_bitmap=build_bitmap(wire_cack, above, offset),
            sack_offset=offset,
            # The field has 16 bits. What lies further back is no longer of interest to anybody.
            ack_psn_offset=max(psn - cack, OFFSET_MIN),
        )
        return seth, CcState(timestamp, len(self.above), received_units=received_units(self.received_bytes))
