"""Damaged and random frames: the NIC writes what the reference says a packet may write, and nothing else.

The reference judges each frame by itself, from its bytes. So the test holds in both directions: nothing is
written that is not allowed, and no damage that the protocol ignores keeps a packet from being placed.
"""

from collections.abc import Callable
from random import Random

import pytest
from ev_partition import ev_partition
from far_end import FarEnd
from frame_offsets import OUTER_AT, PAYLOAD_AT
from nic_bench import MEMORY_BYTES, NicBench, Outcome, Verdict
from write_source import WriteSource
from write_target import REGION_OFFSET, WriteTarget

from agents.wire_abi import Limit, NicCounter, QpState
from testbed.errors import WireError
from testbed.topology.usid import Role, Usid, pack_carrier
from testbed.wire.frame import Frame, decode_frame
from testbed.wire.opcode import Opcode
from testbed.wire.packet import Packet, Write
from testbed.wire.psn import psn_expand, wire_psn
from testbed.wire.reliability_header import Seth
from testbed.wire.transport_header import P_KEY_DEFAULT, NakCode

pytestmark = pytest.mark.root

FRAME_COUNT = 5000
WINDOW = 32
PROBES = 4
PLACEABLE = {Opcode.WRITE_FIRST, Opcode.WRITE_MIDDLE, Opcode.WRITE_LAST, Opcode.WRITE_ONLY}
RECEIVED = {NicCounter.RX_SACK, NicCounter.RX_NAK, NicCounter.RX_PROBE_ANSWER}
UNMET = {
    NicCounter.DROP_QP_STATE,
    NicCounter.DROP_NO_RECEIVE,
    NicCounter.DROP_STALE_ACK,
    NicCounter.DROP_STALE_NACK,
}
"""Refusals of what the fuzz does not send: immediates, ACKs and NACKs."""
REFUSALS = {counter for counter in NicCounter if counter.name.startswith("DROP_")} - {NicCounter.DROP_NO_EV}
"""Reasons to drop a frame that came in; without an EV it is the next one out that does not leave."""


class FuzzedQp:
    """A QP that both sends and receives, and the judge of what may happen to it."""

    def __init__(self, nic: NicBench, far: FarEnd, random: Random) -> None:
        self.nic = nic
        self.far = far
        self.random = random
        self.source = WriteSource(
            nic, far, far.attributes(window_packets=WINDOW, loss_threshold_acks=2 * WINDOW)
        )
        self.target = WriteTarget(nic, far)
        self.target.expected[:] = nic.memory
        self.renew()

    def renew(self) -> None:
        """A fresh QP with packets under way."""
        first_psn = self.random.choice([0, 2**24 - 100, self.random.getrandbits(31)])
        self.source = WriteSource(self.nic, self.far, self.source.attributes, first_psn)
        self.target.expected[:] = self.nic.memory
        self.target.reference = type(self.target.reference).starting_at(first_psn)
        self.source.post(100_000)
        self.source.send()
        self.nic.probe(range(PROBES))

    # -- frames -----------------------------------------------------------------------------------

    def good_frame(self, plane: int) -> bytes:
        """Any well-formed frame, most of them data."""
        random = self.random
        makers: list[Callable[[], Packet]] = [
            self._write,
            self._write,
            self._write,
            self._sack,
            lambda: self.far.nak(NakCode.REMOTE_ACCESS_ERROR),
            lambda: self.far.probe_request(random.getrandbits(16)),
            lambda: self.far.probe_response(random.randrange(self.nic.next_probe_id + PROBES)),
        ]
        ev = plane << 28 | random.randrange(4) << 16 | random.getrandbits(16)
        return self.far.arriving_octets(random.choice(makers)(), plane, ev)

    def _write(self) -> Packet:
        random = self.random
        psn = self.target.reference.next_psn + random.choice([0, 0, 1, 2, 70, -1, 1023, 1024, -40_000])
        payload = random.randbytes(random.choice([0, 1, 5, 64, 300, 2048]))
        va = random.choice([0, 77, MEMORY_BYTES // 2, MEMORY_BYTES - REGION_OFFSET - len(payload)])
        opcode = random.choice(sorted(PLACEABLE))
        message_bytes = len(payload) + (0 if opcode == Opcode.WRITE_ONLY else random.choice([0, 1, 4000]))
        return self.target.packet(psn, payload, va, opcode=opcode, message_bytes=message_bytes)

    def _sack(self) -> Packet:
        random = self.random
        oldest = self.source.nic.qp().una_psn
        seth = Seth(
            cack_psn=wire_psn(oldest + random.randrange(-3, 8)),
            entropy=random.getrandbits(32),
            sack_bitmap=random.getrandbits(64) & random.getrandbits(64),
            sack_offset=random.choice([1, 1, -60, 20, 1000]),
            ack_psn_offset=random.randrange(-5, 40),
        )
        return self.far.sack(seth)

    def damaged(self, frame: bytes) -> bytes:
        """*frame* with some bits or bytes of its headers changed, or cut, or longer, or all random."""
        random = self.random
        octets = bytearray(frame)
        kind = random.randrange(12)
        if kind == 0:
            return frame
        if kind == 1:
            return frame[: random.randrange(14, len(frame))]
        if kind == 2:
            return frame + random.randbytes(random.randrange(1, 64))
        if kind == 3:
            return frame[: OUTER_AT + 40] + random.randbytes(random.randrange(0, 400))
        if kind == 4:
            return random.randbytes(random.randrange(14, 400))
        headers = min(len(octets), PAYLOAD_AT)
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(headers)
            octets[at] = random.getrandbits(8) if kind < 9 else octets[at] ^ 1 << random.randrange(8)
        return bytes(octets)

    # -- judgement --------------------------------------------------------------------------------

    def allowed_write(self, octets: bytes, plane: int) -> Write | None:
        """The data packet in a frame that comes through *plane*, if its payload is to be placed."""
        try:
            frame = decode_frame(octets)
        except WireError:
            return None
        write = frame.packet
        if not isinstance(write, Write) or not self._is_addressed(frame, write, plane):
            return None
        length, region_bytes = len(write.payload), MEMORY_BYTES - REGION_OFFSET
        is_whole = write.bth.opcode != Opcode.WRITE_ONLY or length == write.reth.message_bytes
        if length > Limit.PMTU_MAX or length > write.reth.message_bytes or not is_whole:
            return None
        psn = self.counter_of(write)
        if not self.target.reference.accepts(psn) or self.target.reference.has(psn):
            return None
        is_inside = write.reth.r_key == self.target.r_key and write.reth.va + length <= region_bytes
        return write if is_inside or not length else None

    def counter_of(self, write: Write) -> int:
        return psn_expand(self.target.reference.next_psn, wire_psn(write.bth.psn))

    def _is_addressed(self, frame: Frame, write: Write, plane: int) -> bool:
        clos = self.far.clos
        downlink = Usid(Role.DOWNLINK, plane, clos.numbering.downlink(self.far.host))
        return (
            frame.outer is not None
            and frame.outer.destination == pack_carrier((downlink,))
            and frame.inner.destination == clos.inner_address(self.far.host, plane)
            and int(frame.inner.source) & 2**64 - 1 == self.far.peer + 1
            and write.bth.opcode in PLACEABLE
            and write.tseth is not None
            and write.bth.p_key == P_KEY_DEFAULT
            and write.bth.destination_qpn == self.far.qpn
        )

    def judge(self, octets: bytes, plane: int) -> None:
        """Lets a frame come in; all it did must be what it may do."""
        allowed = self.allowed_write(octets, plane)
        if allowed is not None:
            start = REGION_OFFSET + allowed.reth.va
            self.target.expected[start : start + len(allowed.payload)] = allowed.payload
            self.target.reference.receive(self.counter_of(allowed), 0, entropy=0, timestamp=0)
        outcome = self.nic.receive(octets, plane)
        placed = outcome.counters.get(NicCounter.RX_PLACED_BYTES, 0)
        assert placed == (0 if allowed is None else len(allowed.payload)), octets.hex()
        self.target.check_memory()
        check_account(outcome, octets)
        qp = self.nic.qp()
        assert qp.cack_next == self.target.reference.next_psn % 2**32
        if qp.state == QpState.ERROR:
            self.renew()


def check_account(outcome: Outcome, octets: bytes) -> None:
    """Each frame is left to the kernel, or answered, or heard, or refused under exactly one counter."""
    refusals = sum(outcome.counters.get(counter, 0) for counter in REFUSALS)
    match outcome.verdict:
        case Verdict.PASS:
            assert not outcome.counters
            assert outcome.frame == octets
        case Verdict.REDIRECT:
            assert len(outcome.planes) == 1
        case verdict:
            assert verdict is Verdict.DROP
            assert refusals + sum(outcome.counters.get(counter, 0) for counter in RECEIVED) == 1


def test_damaged_frames(nic: NicBench, distant: FarEnd) -> None:
    random = Random(4791)
    before = nic.counters()
    qp = FuzzedQp(nic, distant, random)
    for _ in range(FRAME_COUNT):
        plane = random.randrange(4)
        frame = qp.damaged(qp.good_frame(plane))
        qp.judge(frame, plane if random.randrange(20) else random.randrange(4))
    state = nic.qp()
    ev_partition(state)
    assert state.inflight <= WINDOW
    assert state.lost_count == sum(word.bit_count() for word in state.lost_bits)
    # the test is worth something only if it met every outcome that a frame can have
    grown = {counter for counter, value in nic.counters().items() if value > before[counter]}
    assert grown >= RECEIVED | REFUSALS - UNMET
    assert grown >= {NicCounter.RX_PLACED_BYTES, NicCounter.RX_DUPLICATE, NicCounter.TX_NAK}
