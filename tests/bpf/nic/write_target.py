"""QPs that receive: they deliver data packets to the NIC and compare all that follows with the reference."""

from dataclasses import replace
from random import Random
from typing import Any, Final

from far_end import RC_PATH, FarEnd, InOrder, packet_of
from nic_bench import MEMORY_BYTES, NicBench, Outcome
from program_bench import Verdict
from reference.opcode import Opcode
from reference.packet import Acknowledge, EndpointRequest, Packet, Sack, Write
from reference.psn import wire_psn
from reference.rc_packet import RcAcknowledge, RcOpcode, RcWrite, make_rc_write
from reference.reliability_header import CcState, PathAdvice, Seth
from reference.responder import AckPathProbe, MessagesDone, ReferenceResponder
from reference.transport_header import AckKind, Aeth, Bth, ImmDt, NakCode, Reth

from mrc_agents.abi import NicCounter

REGION_SLOT: Final = 5
REGION_OFFSET: Final = 4096
UDP_OVERHEAD_BYTES: Final = 8 + 12 + 4 + 4 + 16 + 4
"""UDP, BTH, METH, TSETH, RETH and iCRC."""
MESSAGE_ENDS: Final = frozenset(
    {Opcode.WRITE_LAST, Opcode.WRITE_ONLY, Opcode.WRITE_LAST_IMMEDIATE, Opcode.WRITE_ONLY_IMMEDIATE}
)
Reply = tuple[Seth, CcState] | MessagesDone | AckPathProbe
"""A reply of the reference."""


def random_bytes(count: int, seed: int = 0) -> bytes:
    """The same bytes for the same arguments."""
    return Random(f"{seed}/{count}").randbytes(count)


def reply_to(reference: ReferenceResponder, psn: int, packet: Write, **options: Any) -> Reply:
    """The reply of *reference* when *packet* arrives; *options* as its `receive` has them."""
    udp_bytes = UDP_OVERHEAD_BYTES + len(packet.payload) + packet.bth.pad_bytes
    return reference.receive(psn, udp_bytes, ends_message=packet.bth.opcode in MESSAGE_ENDS, **options)


class Target:
    """A region that takes all memory of a NIC from REGION_OFFSET on, for a QP of it.

    Args:
        nic: under test.
        far: who sends.
        expected: what is in memory; shared by the QPs of one NIC.
    """

    def __init__(self, nic: NicBench, far: FarEnd, expected: bytearray | None = None) -> None:
        self.nic = nic
        self.far = far
        self.index = far.index
        self.expected = bytearray(MEMORY_BYTES) if expected is None else expected
        self.r_key = nic.register(REGION_SLOT, REGION_OFFSET, MEMORY_BYTES - REGION_OFFSET)  # of the region

    def expect(self, va: int, payload: bytes) -> None:
        """*payload* ought to stand in the region from now on."""
        self.expected[REGION_OFFSET + va : REGION_OFFSET + va + len(payload)] = payload

    def arrive(
        self, packet: Packet, plane: int = 0, ev: int | None = None, *, is_marked: bool = False
    ) -> Outcome:
        """Lets *packet* come in, by default on plane 0 and its uplink 0."""
        return self.nic.receive(self.far.arriving_octets(packet, plane, ev, is_marked=is_marked), plane)

    def check_memory(self) -> None:
        """All of the NIC's memory is as expected."""
        assert bytes(self.nic.memory) == self.expected


class WriteTarget(Target):
    """A QP in RTS whose packets start at *first_psn*."""

    def __init__(
        self, nic: NicBench, far: FarEnd, first_psn: int = 0, *, expected: bytearray | None = None
    ) -> None:
        super().__init__(nic, far, expected)
        self.reference = ReferenceResponder.starting_at(first_psn)  # what the QP ought to have received
        self.reference.probes_ack_path = True
        nic.create_qp(far.index, far.attributes(), far.peer_qpn, first_psn=first_psn)

    def packet(self, psn: int, payload: bytes, va: int = 0, **options: Any) -> Write:
        """A data packet that the QP accepts if its PSN is in the window; it ends no message by default."""
        options = {"opcode": Opcode.WRITE_MIDDLE, "r_key": self.r_key} | options
        return self.far.write(psn, payload, va=va, **options)

    def frame(self, psn: int, payload: bytes, va: int = 0, **options: Any) -> bytes:
        """The frame of such a packet on plane 0."""
        return self.far.arriving_octets(self.packet(psn, payload, va, **options), 0)

    def deliver(
        self, packet: Write, psn: int, *, plane: int = 0, ev: int | None = None, is_marked: bool = False
    ) -> Sack | Acknowledge | EndpointRequest:
        """The SACK or ACK for *packet*, or an ACK-path probe instead, once all else is as it should be.

        Args:
            packet: comes in.
            psn: its counter.
            plane: it comes through.
            ev: it came on; by default one with uplink 0.
            is_marked: with congestion experienced.
        """
        entropy = plane << 28 if ev is None else ev
        is_new = not self.reference.has(psn)
        if is_new:
            self.expect(packet.reth.va, packet.payload)
        reply = self._expected_reply(packet, psn, entropy, is_marked=is_marked)
        outcome = self.arrive(packet, plane, entropy, is_marked=is_marked)
        self.check_memory()
        answer = packet_of(outcome.frame, EndpointRequest) if reply is None else reply
        if reply is not None:
            self.far.check_leaves(outcome, reply, entropy)
        sent = {Sack: NicCounter.TX_SACK, Acknowledge: NicCounter.TX_ACK}.get(
            type(answer), NicCounter.TX_PROBE
        )
        placed = {NicCounter.RX_PLACED_BYTES: len(packet.payload)} if packet.payload else {}
        more = placed if is_new else {NicCounter.RX_DUPLICATE: 1}
        assert outcome.counters == {NicCounter.RX_DATA: 1, sent: 1} | more
        return answer

    def deliver_for_sack(self, packet: Write, psn: int, **options: Any) -> Sack:
        """The same for a packet that is answered by a SACK."""
        reply = self.deliver(packet, psn, **options)
        assert isinstance(reply, Sack)
        return reply

    def _expected_reply(
        self, packet: Write, psn: int, entropy: int, *, is_marked: bool
    ) -> Sack | Acknowledge | None:
        """None where an ACK-path probe takes its place."""
        assert packet.tseth is not None
        rtx, timestamp = packet.bth.is_retransmission, packet.tseth.tx_timestamp
        options = {"is_marked": is_marked, "is_retransmission": rtx}
        said = reply_to(self.reference, psn, packet, entropy=entropy, timestamp=timestamp, **options)
        if isinstance(said, AckPathProbe):
            return None
        if isinstance(said, MessagesDone):
            rtx = said.stands_for_another
            bth = Bth(Opcode.ACKNOWLEDGE, self.far.peer_qpn, said.psn, is_retransmission=rtx)
            return Acknowledge(bth, Aeth.ack(said.count))
        seth, state = said
        seth = replace(
            seth,
            advice=PathAdvice.SKIP_ONCE if is_marked else PathAdvice.NONE,
            source_qpn_low=self.far.qpn & 0xFFFF,
            destination_qpn_low=self.far.peer_qpn & 0xFFFF,
        )
        return Sack(Bth(Opcode.SACK, self.far.peer_qpn, seth.cack_psn, is_retransmission=rtx), seth, state)

    def refuse(self, frame: bytes, counter: NicCounter, *, plane: int = 0) -> None:
        """Lets *frame* come in, which must be dropped, counted under *counter* alone, and leave no trace."""
        before = bytes(self.nic.qp(self.index))
        outcome = self.nic.receive(frame, plane)
        assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {counter: 1})
        assert outcome.planes == ()
        assert bytes(self.nic.qp(self.index)) == before
        self.check_memory()


class RcTarget(Target):
    """A reliable connection in RTS that receives, with *changes* of its attributes, and its reference."""

    def __init__(self, nic: NicBench, far: FarEnd, first_psn: int = 0, **changes: Any) -> None:
        super().__init__(nic, far)
        self.reference = InOrder(expected=first_psn)
        self._va = 0
        nic.connect(far.index, far.rc_attributes(peer_first_psn=first_psn, **changes), far.peer_qpn)

    def packet(
        self,
        psn: int,
        payload: bytes,
        opcode: RcOpcode = RcOpcode.WRITE_ONLY,
        *,
        va: int = 0,
        whole: int | None = None,
        immediate: int = 0x1234,
    ) -> RcWrite:
        """A data packet of a message of *whole* bytes; a part of it that *opcode* has not is left out."""
        reth = Reth(va, self.r_key, len(payload) if whole is None else whole) if opcode.has_reth else None
        imm_dt = ImmDt(immediate) if opcode.has_immediate else None
        return make_rc_write(opcode, self.far.qpn, wire_psn(psn), payload, reth=reth, immediate=imm_dt)

    def come(
        self, psn: int, payload: bytes, opcode: RcOpcode = RcOpcode.WRITE_ONLY, **options: Any
    ) -> Outcome:
        """Lets such a packet come in on the path of the connection."""
        return self.arrive(self.packet(psn, payload, opcode, **options), 0, RC_PATH)

    def deliver(self, psn: int, packet: RcWrite) -> None:
        """Lets *packet* come in; answer, memory and silence must be the reference's."""
        is_taken = psn == self.reference.expected
        said = self.reference.receive(psn, packet)
        if is_taken:
            self._va = packet.reth.va if packet.reth else self._va
            self.expect(self._va, packet.payload)
            self._va += len(packet.payload)
        outcome = self.arrive(packet, 0, RC_PATH)
        if said is None:
            assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {NicCounter.DROP_OUT_OF_ORDER: 1})
        else:
            self.far.check_leaves(outcome, self.reference.answer(said, self.far.peer_qpn), RC_PATH)
        self.check_memory()

    def refuse(self, packet: RcWrite, code: NakCode) -> None:
        """Lets *packet* come in, which must be answered by that NAK, and placed nowhere."""
        aeth = aeth_of(self.arrive(packet, 0, RC_PATH))
        assert (aeth.kind, aeth.value) == (AckKind.NAK, code)
        self.check_memory()


def aeth_of(outcome: Outcome) -> Aeth:
    """The AETH in the answer of a connection."""
    return packet_of(outcome.frame, RcAcknowledge).aeth
