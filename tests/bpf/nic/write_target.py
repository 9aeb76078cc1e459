"""A QP that receives: delivers data packets to the NIC and compares all that follows with the reference."""

from dataclasses import replace
from random import Random
from typing import Final

from far_end import FarEnd, packet_of
from nic_bench import MEMORY_BYTES, NicBench, Outcome, Verdict
from reference.frame import decode_frame, encode_frame
from reference.opcode import Opcode
from reference.packet import Acknowledge, EndpointRequest, Sack, Write
from reference.reliability_header import PathAdvice
from reference.responder import AckPathProbe, MessagesDone, ReferenceResponder
from reference.transport_header import Aeth, Bth

from mrc_testbed.agents.abi import NicCounter
from mrc_testbed.agents.nic.work_queue import qp_index

REGION_SLOT: Final = 5
REGION_OFFSET: Final = 4096
UDP_OVERHEAD_BYTES: Final = 8 + 12 + 4 + 4 + 16 + 4
MESSAGE_ENDS: Final = frozenset(
    {Opcode.WRITE_LAST, Opcode.WRITE_ONLY, Opcode.WRITE_LAST_IMMEDIATE, Opcode.WRITE_ONLY_IMMEDIATE}
)
"""UDP, BTH, METH, TSETH, RETH and iCRC."""


def random_bytes(count: int, seed: int = 0) -> bytes:
    """The same bytes for the same arguments."""
    return Random(f"{seed}/{count}").randbytes(count)


class WriteTarget:
    """A QP of the NIC in RTS, a region that takes all memory from REGION_OFFSET on, and the reference.

    Args:
        nic: under test.
        far: who sends.
        first_psn: counter of the first packet.
        expected: what is in memory; shared by the QPs of one NIC.

    Attributes:
        reference: what the QP ought to have received.
        r_key: of the region.
    """

    def __init__(
        self, nic: NicBench, far: FarEnd, first_psn: int = 0, *, expected: bytearray | None = None
    ) -> None:
        self.nic = nic
        self.far = far
        self.reference = ReferenceResponder.starting_at(first_psn)
        self.reference.probes_ack_path = True
        self.expected = bytearray(MEMORY_BYTES) if expected is None else expected
        self.r_key = nic.register(REGION_SLOT, REGION_OFFSET, MEMORY_BYTES - REGION_OFFSET)
        nic.create_qp(qp_index(far.qpn), far.attributes(), far.peer_qpn, first_psn=first_psn)

    def packet(
        self,
        psn: int,
        payload: bytes,
        va: int = 0,
        *,
        opcode: Opcode = Opcode.WRITE_MIDDLE,
        message_bytes: int | None = None,
        msn: int = 0,
        timestamp: int = 0x1234,
        is_retransmission: bool = False,
    ) -> Write:
        """A data packet that the QP accepts if its PSN is in the window; it ends no message by default."""
        return self.far.write(
            psn,
            payload,
            va=va,
            r_key=self.r_key,
            opcode=opcode,
            message_bytes=message_bytes,
            msn=msn,
            timestamp=timestamp,
            is_retransmission=is_retransmission,
        )

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
            start = REGION_OFFSET + packet.reth.va
            self.expected[start : start + len(packet.payload)] = packet.payload
        reply = self._expected_reply(packet, psn, entropy, is_marked=is_marked)
        arriving = self.far.arriving(packet, plane, entropy, is_marked=is_marked)
        outcome = self.nic.receive(encode_frame(arriving), plane)
        if reply is None:
            self._check_counters(outcome, NicCounter.TX_PROBE, len(packet.payload))
            self.check_memory()
            return packet_of(outcome.frame, EndpointRequest)
        answer = self.far.leaving(reply, plane, entropy >> 16 & 0xFFF, entropy)
        assert decode_frame(outcome.frame) == answer
        assert outcome.frame == encode_frame(answer)
        assert outcome.verdict is Verdict.REDIRECT
        assert outcome.planes == (plane,)
        sent = NicCounter.TX_SACK if isinstance(reply, Sack) else NicCounter.TX_ACK
        self._check_counters(outcome, sent, len(packet.payload) if is_new else None)
        self.check_memory()
        return reply

    def deliver_for_sack(
        self, packet: Write, psn: int, *, plane: int = 0, ev: int | None = None, is_marked: bool = False
    ) -> Sack:
        """The same for a packet that is answered by a SACK."""
        reply = self.deliver(packet, psn, plane=plane, ev=ev, is_marked=is_marked)
        assert isinstance(reply, Sack)
        return reply

    def _expected_reply(
        self, packet: Write, psn: int, entropy: int, *, is_marked: bool
    ) -> Sack | Acknowledge | None:
        """None where an ACK-path probe takes its place."""
        assert packet.tseth is not None
        udp_bytes = UDP_OVERHEAD_BYTES + len(packet.payload) + packet.bth.pad_bytes
        timestamp = packet.tseth.tx_timestamp
        said = self.reference.receive(
            psn,
            udp_bytes,
            entropy=entropy,
            timestamp=timestamp,
            ends_message=packet.bth.opcode in MESSAGE_ENDS,
            is_marked=is_marked,
            is_retransmission=packet.bth.is_retransmission,
        )
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
        rtx = packet.bth.is_retransmission
        return Sack(Bth(Opcode.SACK, self.far.peer_qpn, seth.cack_psn, is_retransmission=rtx), seth, state)

    @staticmethod
    def _check_counters(outcome: Outcome, sent: NicCounter, placed_bytes: int | None) -> None:
        expected = {NicCounter.RX_DATA: 1, sent: 1}
        if placed_bytes is None:
            expected[NicCounter.RX_DUPLICATE] = 1
        elif placed_bytes:
            expected[NicCounter.RX_PLACED_BYTES] = placed_bytes
        assert outcome.counters == expected

    def refuse(self, frame: bytes, counter: NicCounter, *, plane: int = 0) -> None:
        """Lets *frame* come in, which must be dropped, counted under *counter* alone, and leave no trace."""
        before = bytes(self.nic.qp(qp_index(self.far.qpn)))
        outcome = self.nic.receive(frame, plane)
        assert (outcome.verdict, outcome.counters) == (Verdict.DROP, {counter: 1})
        assert outcome.planes == ()
        assert bytes(self.nic.qp(qp_index(self.far.qpn))) == before
        self.check_memory()

    def check_memory(self) -> None:
        """All of the NIC's memory is as expected."""
        assert bytes(self.nic.memory) == self.expected
