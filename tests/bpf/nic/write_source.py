"""QPs that send: the data packets that leave the NIC are taken apart and answered as a responder would."""

import time
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Final, Generic, TypeVar

from far_end import RC_PATH, FarEnd, InOrder
from nic_bench import MEMORY_BYTES, NicBench, Outcome
from program_bench import Verdict
from reference.frame import decode_frame
from reference.packet import Packet, Write
from reference.psn import psn_expand, wire_psn
from reference.rc_packet import RcWrite
from reference.received_bytes import received_units
from reference.reliability_header import CcState, Seth
from reference.responder import AckPathProbe, MessagesDone, ReferenceResponder
from reference.transport_header import AckKind
from write_target import reply_to

from mrc_agents.abi import CompletionStatus, Event, EventKind, KickMode, Limit, NicCounter, Work
from mrc_agents.nic.qp import QpAttributes
from mrc_agents.nic.rc_qp import RcAttributes
from mrc_agents.protocol.sizes import write_nominal_bytes

REMOTE_KEY: Final = 0xC0FFEE41

_TIMESTAMP_UNIT_NS: Final = 128
_TIMESTAMP_COUNT: Final = 1 << 16

AnyWrite = TypeVar("AnyWrite", Write, RcWrite)


@dataclass(frozen=True, slots=True)
class Sent(Generic[AnyWrite]):
    """A data packet that left the NIC."""

    psn: int  # its counter
    ev: int  # index of its EV in the QP
    entropy: int  # its EV
    plane: int  # it left through
    write: AnyWrite  # the packet
    dscp: int  # of the outer header


@dataclass(frozen=True, slots=True)
class Completed:
    work_id: int
    iterations: int
    status: CompletionStatus
    length: int


class Source(Generic[AnyWrite]):
    """A QP of the NIC in RTS, and random bytes in memory to send."""

    kind: type[AnyWrite]
    mode: ClassVar[KickMode]

    def __init__(self, nic: NicBench, far: FarEnd, attributes: QpAttributes | RcAttributes) -> None:
        self.nic = nic
        self.far = far
        self.evs = attributes.evs
        self.index = far.index
        self.sent: list[Sent[AnyWrite]] = []  # every data packet so far
        nic.memory[:] = Random(4791).randbytes(MEMORY_BYTES)

    @property
    def due_psn(self) -> int:
        """The counter that the responder expects."""
        raise NotImplementedError

    def post(
        self,
        length: int,
        *,
        work_id: int = 1,
        local: tuple[int, int] = (0, 1),
        remote: tuple[int, int] = (0, 1),
        immediate: int | None = None,
        **options: int,
    ) -> None:
        """Posts messages of *length* bytes; *local* and *remote* are an offset and a number of slots."""
        (local_offset, local_slots), (remote_offset, remote_slots) = local, remote
        work = Work(id=work_id, length=length, r_key=REMOTE_KEY, **({"iterations": 1, "depth": 16} | options))
        work.local_offset, work.local_slots = local_offset, local_slots
        work.remote_offset, work.remote_slots = remote_offset & 0xFFFFFFFF, remote_slots
        work.remote_high = remote_offset >> 32
        work.has_immediate, work.immediate = immediate is not None, immediate or 0
        self.nic.post(work, self.index)

    def send(self, frames_max: int = Limit.PSN_RING) -> list[Sent[AnyWrite]]:
        """The packets that TX kicks send, at most *frames_max*, until the QP has none left."""
        packets: list[Sent[AnyWrite]] = []
        while len(packets) < frames_max:
            outcome = self.nic.kick(self.index, frames_left=frames_max - len(packets), mode=self.mode)
            if outcome.verdict is Verdict.DROP:
                assert outcome.counters.keys() <= {NicCounter.DROP_NO_EV}
                break
            packets.append(self.take(outcome))
            assert outcome.counters[NicCounter.KICK_PACKETS] == 1
        return packets

    def receive(
        self, packet: Packet, plane: int, entropy: int, model_ns: int | None = None
    ) -> tuple[Outcome, Sent[AnyWrite] | None]:
        """Lets any packet come in, at *model_ns*; the outcome, and what its frame turned into."""
        frame = self.far.arriving_octets(packet, plane, entropy)
        outcome = self.nic.receive(frame, plane, model_ns=model_ns)
        return outcome, None if outcome.verdict is Verdict.DROP else self.take(outcome)

    def take(self, outcome: Outcome) -> Sent[AnyWrite]:
        """The data packet in *outcome*, all that surrounds it checked against the reference."""
        frame = decode_frame(outcome.frame)
        write = frame.packet
        assert isinstance(write, self.kind), write
        self.far.check_leaves(outcome, write, frame.ev)
        assert write.bth.destination_qpn == self.far.peer_qpn
        assert outcome.counters[NicCounter.TX_DATA] == 1
        if isinstance(write, Write):
            assert write.tseth is not None
            since = write.tseth.tx_timestamp - outcome.began_ns // _TIMESTAMP_UNIT_NS
            most = (time.monotonic_ns() - outcome.began_ns) // _TIMESTAMP_UNIT_NS + 1
            assert since % _TIMESTAMP_COUNT <= most
        psn = psn_expand(self.due_psn, wire_psn(write.bth.psn))
        ev, dscp = self.evs.index(frame.ev), frame.traffic_class.dscp
        self.sent.append(Sent(psn, ev, frame.ev, frame.ev >> 28, write, dscp))
        return self.sent[-1]

    def completions(self) -> list[Completed]:
        """Completion events that wait; besides them there may be wishes for frames, and nothing else."""
        events = self.nic.events()
        assert {event.kind for event in events} <= {EventKind.COMPLETION, EventKind.KICK}
        return [completed(event) for event in events if event.kind == EventKind.COMPLETION]


class WriteSource(Source[Write]):
    """A QP of MRC, and a responder for what is delivered."""

    kind = Write
    mode = KickMode.DATA

    def __init__(
        self, nic: NicBench, far: FarEnd, attributes: QpAttributes | None = None, first_psn: int = 0
    ) -> None:
        self.attributes = attributes or far.attributes()
        super().__init__(nic, far, self.attributes)
        self.reference = ReferenceResponder.starting_at(first_psn)  # the responder
        self._reported: set[int] = set()
        nic.create_qp(self.index, self.attributes, far.peer_qpn, first_psn=first_psn)

    @property
    def due_psn(self) -> int:
        return self.reference.next_psn

    def hasten(self, **times_ns: int) -> None:
        """Sets times of the QP, which waits, and starts its timer: before, the machine may stand still."""
        now_ns = time.monotonic_ns()  # a store from outside stops the timer
        self.nic.edit_qp(self.index, progress_ns=now_ns, is_timer_armed=0, is_tlp_due=0, **times_ns)
        assert self.nic.kick(self.index).verdict is Verdict.DROP

    def send_when_asked(self) -> tuple[list[Sent[Write]], list[Event]]:
        """The packets that leave once the clock has asked for frames, and the events until then."""
        events: list[Event] = []
        while not (sent := self.send()):
            events += self.nic.await_events()
        return sent, events

    def reply_to(self, packet: Sent[Write], **options: Any) -> tuple[Seth, CcState] | MessagesDone:
        """The reply of the responder as *packet* arrives; *options* as its `receive` has them."""
        options = {"entropy": packet.entropy, "timestamp": 0} | options
        said = reply_to(self.reference, packet.psn, packet.write, **options)
        assert not isinstance(said, AckPathProbe)
        return said

    def deliver(self, packet: Sent[Write], *, plane: int | None = None) -> Sent[Write] | None:
        """Lets *packet* arrive and its SACK or ACK return, through *plane*; what that frame became."""
        said = self.reply_to(packet)
        through = packet.plane if plane is None else plane
        rtx = packet.write.bth.is_retransmission
        if isinstance(said, MessagesDone):
            return self.acknowledge(said.psn, said.count, through, packet.entropy, is_retransmission=rtx)
        return self.feed(*said, plane=through, is_retransmission=rtx)

    def acknowledge(
        self, psn: int, count: int, plane: int = 0, entropy: int = 0, *, is_retransmission: bool = False
    ) -> Sent[Write] | None:
        """Lets a transport ACK come in that the NIC accepts; what its frame turned into."""
        ack = self.far.ack(psn, count, is_retransmission=is_retransmission)
        outcome, sent = self.receive(ack, plane, entropy)
        assert outcome.counters[NicCounter.RX_ACK] == 1
        return sent

    def feed(self, seth: Seth, state: CcState | None = None, **options: Any) -> Sent[Write] | None:
        """Lets a SACK come in that the NIC accepts; what its frame turned into."""
        outcome, sent = self.try_feed(seth, state, **options)
        assert outcome.counters[NicCounter.RX_SACK] == 1
        return sent

    def try_feed(
        self, seth: Seth, state: CcState | None = None, *, plane: int = 0, is_retransmission: bool = False
    ) -> tuple[Outcome, Sent[Write] | None]:
        """Lets any SACK come in; the outcome, and what its frame turned into.

        Without a *state* the bytes received are those of all packets that SACKs have reported so far.
        """
        received = self._note_reported(seth)
        state = state or CcState(0, received_units=received)
        return self.receive(
            self.far.sack(seth, state, is_retransmission=is_retransmission), plane, seth.entropy
        )

    def _note_reported(self, seth: Seth) -> int:
        """Note the packets that a SACK reports; CC_STATE's count of all reported so far."""
        cack = psn_expand(self.reference.next_psn, wire_psn(seth.cack_psn))
        reported = {cack + seth.sack_offset + bit for bit in range(64) if seth.sack_bitmap >> bit & 1}
        if not seth.is_probe_response:
            reported.add(cack + seth.ack_psn_offset)
        sizes = {sent.psn: write_nominal_bytes(len(sent.write.payload)) for sent in self.sent}
        self._reported |= {psn for psn in sizes if psn <= cack or psn in reported}
        known = (psn for psn in sizes if psn in self._reported or self.reference.has(psn))
        return received_units(sum(sizes[psn] for psn in known))


class RcSource(Source[RcWrite]):
    """A reliable connection, with *changes* of its attributes, and the reference responder at its far end."""

    kind = RcWrite
    mode = KickMode.RC

    def __init__(self, nic: NicBench, far: FarEnd, **changes: Any) -> None:
        attributes = far.rc_attributes(**changes)
        super().__init__(nic, far, attributes)
        self.responder = InOrder(expected=attributes.first_psn)
        nic.connect(self.index, attributes, far.peer_qpn)

    @property
    def due_psn(self) -> int:
        return self.responder.expected

    def ack(self, psn: int, messages: int = 0) -> tuple[Outcome, Sent[RcWrite] | None]:
        """Lets an ACK come in; the outcome, and what its frame turned into."""
        return self.receive(self.far.rc_ack(psn, messages), 0, RC_PATH)

    def nak(self, psn: int, code: int, kind: AckKind = AckKind.NAK) -> tuple[Outcome, Sent[RcWrite] | None]:
        """The same for a NAK."""
        return self.receive(self.far.rc_nak(psn, code, kind), 0, RC_PATH)


def completed(event: Event) -> Completed:
    return Completed(event.a, event.b, CompletionStatus(event.c), event.d)
