"""A QP that sends: takes the data packets that leave the NIC apart, and answers them as a responder would."""

import time
from dataclasses import dataclass
from random import Random
from typing import Final

from far_end import FarEnd
from nic_bench import MEMORY_BYTES, NicBench, Outcome, Verdict
from reference.frame import decode_frame, encode_frame
from reference.packet import Packet, Write
from reference.psn import psn_expand, wire_psn
from reference.received_bytes import received_units
from reference.reliability_header import CcState, Seth
from reference.responder import AckPathProbe, MessagesDone, ReferenceResponder
from write_target import MESSAGE_ENDS

from mrc_testbed.agents.abi import Event, EventKind, Limit, NicCounter, Status, Work
from mrc_testbed.agents.nic.qp import QpAttributes
from mrc_testbed.agents.nic.work_queue import qp_index
from mrc_testbed.agents.protocol.sizes import write_nominal_bytes

REMOTE_KEY: Final = 0xC0FFEE41
UDP_OVERHEAD_BYTES: Final = 8 + 12 + 4 + 4 + 16 + 4

_TIMESTAMP_UNIT_NS: Final = 128
_TIMESTAMP_COUNT: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Sent:
    """A data packet that left the NIC."""

    psn: int  # its counter
    ev: int  # index of its EV in the QP
    plane: int  # it left through
    write: Write  # the packet
    dscp: int  # of the outer header


@dataclass(frozen=True, slots=True)
class Completed:
    work_id: int
    iterations: int
    status: Status
    length: int


class WriteSource:
    """A QP of the NIC in RTS, random bytes in memory to send, and a responder for what is delivered.

    Args:
        nic: under test.
        far: the peer.
        attributes: of the QP.
        first_psn: counter of the first packet.

    Attributes:
        reference: the responder.
        sent: every data packet so far.
    """

    def __init__(
        self, nic: NicBench, far: FarEnd, attributes: QpAttributes | None = None, first_psn: int = 0
    ) -> None:
        self.nic = nic
        self.far = far
        self.attributes = attributes or far.attributes()
        self.index = qp_index(far.qpn)
        self.reference = ReferenceResponder.starting_at(first_psn)
        self.sent: list[Sent] = []
        self._reported: set[int] = set()
        nic.memory[:] = Random(4791).randbytes(MEMORY_BYTES)
        nic.create_qp(self.index, self.attributes, far.peer_qpn, first_psn=first_psn)

    def post(
        self,
        length: int,
        *,
        work_id: int = 1,
        iterations: int = 1,
        depth: int = 16,
        local: tuple[int, int] = (0, 1),
        remote: tuple[int, int] = (0, 1),
    ) -> None:
        """Posts messages of *length* bytes; *local* and *remote* are an offset and a number of slots."""
        work = Work(
            id=work_id,
            length=length,
            iterations=iterations,
            local_offset=local[0],
            local_slots=local[1],
            remote_offset=remote[0],
            remote_slots=remote[1],
            r_key=REMOTE_KEY,
            depth=depth,
        )
        self.nic.post(work, self.index)

    def send(self, frames_max: int = Limit.PSN_RING) -> list[Sent]:
        """The packets that TX kicks send, at most *frames_max*, until the QP has none left."""
        packets: list[Sent] = []
        while len(packets) < frames_max:
            before_ns = time.monotonic_ns()
            outcome = self.nic.kick(self.index, frames_left=frames_max - len(packets))
            if outcome.verdict is Verdict.DROP:
                assert outcome.counters.keys() <= {NicCounter.DROP_NO_EV}
                break
            packets.append(self._take(outcome, before_ns))
            assert outcome.counters[NicCounter.KICK_PACKETS] == 1
        return packets

    def hasten(self, **times_ns: int) -> None:
        """Sets times of the QP, which waits, and starts its timer: before, the machine may stand still."""
        with self.nic.editing_qp(self.index) as qp:  # a store from outside stops the timer
            for name, time_ns in times_ns.items():
                setattr(qp, name, time_ns)
            qp.progress_ns = time.monotonic_ns()
            qp.is_timer_armed = qp.is_tlp_due = 0
        assert self.nic.kick(self.index).verdict is Verdict.DROP

    def deliver(self, packet: Sent, *, plane: int | None = None) -> Sent | None:
        """Lets *packet* arrive and its SACK or ACK return, through *plane*; what that frame became."""
        udp_bytes = UDP_OVERHEAD_BYTES + len(packet.write.payload) + packet.write.bth.pad_bytes
        entropy = self.attributes.evs[packet.ev]
        said = self.reference.receive(
            packet.psn,
            udp_bytes,
            entropy=entropy,
            timestamp=0,
            ends_message=packet.write.bth.opcode in MESSAGE_ENDS,
        )
        through = packet.plane if plane is None else plane
        if isinstance(said, MessagesDone):
            return self.acknowledge(
                said.psn,
                said.count,
                plane=through,
                entropy=entropy,
                is_retransmission=packet.write.bth.is_retransmission,
            )
        assert not isinstance(said, AckPathProbe)
        return self.feed(
            said[0],
            said[1],
            plane=through,
            is_retransmission=packet.write.bth.is_retransmission,
        )

    def acknowledge(
        self, psn: int, count: int, *, plane: int, entropy: int, is_retransmission: bool = False
    ) -> Sent | None:
        """Lets a transport ACK come in that the NIC accepts; what its frame turned into."""
        ack = self.far.ack(psn, count, is_retransmission=is_retransmission)
        outcome, sent = self.try_packet(ack, plane=plane, entropy=entropy)
        assert outcome.counters[NicCounter.RX_ACK] == 1
        return sent

    def try_packet(
        self, packet: Packet, *, plane: int, entropy: int, model_ns: int | None = None
    ) -> tuple[Outcome, Sent | None]:
        """Lets any packet come in, at *model_ns*; the outcome, and what its frame turned into."""
        before_ns = time.monotonic_ns()
        frame = self.far.arriving_octets(packet, plane, entropy)
        outcome = self.nic.receive(frame, plane, model_ns=model_ns)
        if outcome.verdict is Verdict.DROP:
            return outcome, None
        return outcome, self._take(outcome, before_ns)

    def feed(
        self,
        seth: Seth,
        state: CcState | None = None,
        *,
        plane: int = 0,
        is_retransmission: bool = False,
    ) -> Sent | None:
        """Lets a SACK come in that the NIC accepts; what its frame turned into."""
        outcome, sent = self.try_feed(seth, state, plane=plane, is_retransmission=is_retransmission)
        assert outcome.counters[NicCounter.RX_SACK] == 1
        return sent

    def try_feed(
        self,
        seth: Seth,
        state: CcState | None = None,
        *,
        plane: int = 0,
        is_retransmission: bool = False,
    ) -> tuple[Outcome, Sent | None]:
        """Lets any SACK come in; the outcome, and what its frame turned into.

        Without a *state* the bytes received are those of all packets that SACKs have reported so far.
        """
        received = self._note_reported(seth)
        sack = self.far.sack(
            seth, state or CcState(0, received_units=received), is_retransmission=is_retransmission
        )
        return self.try_packet(sack, plane=plane, entropy=seth.entropy)

    def _note_reported(self, seth: Seth) -> int:
        """Note the packets that a SACK reports; CC_STATE's count of all reported so far."""
        cack = psn_expand(self.reference.next_psn, wire_psn(seth.cack_psn))
        reported = {cack + seth.sack_offset + bit for bit in range(64) if seth.sack_bitmap >> bit & 1}
        if not seth.is_probe_response:
            reported.add(cack + seth.ack_psn_offset)
        sizes = {sent.psn: write_nominal_bytes(len(sent.write.payload)) for sent in self.sent}
        self._reported |= {psn for psn in sizes if psn <= cack or psn in reported}
        return received_units(
            sum(sizes[psn] for psn in sizes if psn in self._reported or self.reference.has(psn))
        )

    def _take(self, outcome: Outcome, before_ns: int) -> Sent:
        """The data packet in *outcome*, all that surrounds it checked against the reference."""
        frame = decode_frame(outcome.frame)
        write = frame.packet
        assert isinstance(write, Write), write
        evs = self.attributes.evs
        assert frame.ev in evs
        ev = evs.index(frame.ev)
        plane, uplink = frame.ev >> 28, frame.ev >> 16 & 0xFFF
        assert frame == self.far.leaving(write, plane, uplink, frame.ev)
        assert outcome.frame == encode_frame(frame)
        assert (outcome.verdict, outcome.planes) == (Verdict.REDIRECT, (plane,))
        assert outcome.counters[NicCounter.TX_DATA] == 1
        assert write.tseth is not None
        since = (write.tseth.tx_timestamp - before_ns // _TIMESTAMP_UNIT_NS) % _TIMESTAMP_COUNT
        assert since <= (time.monotonic_ns() - before_ns) // _TIMESTAMP_UNIT_NS + 1
        psn = psn_expand(self.reference.next_psn, wire_psn(write.bth.psn))
        sent = Sent(psn, ev, plane, write, frame.traffic_class.dscp)
        self.sent.append(sent)
        return sent

    def completions(self) -> list[Completed]:
        """Completion events that wait; besides them there may be wishes for frames, and nothing else."""
        events = self.nic.events()
        assert {event.kind for event in events} <= {EventKind.COMPLETION, EventKind.KICK}
        return [completed(event) for event in events if event.kind == EventKind.COMPLETION]


def completed(event: Event) -> Completed:
    return Completed(event.a, event.b, Status(event.c), event.d)
