"""A QP under random and damaged frames, and the judge of what each may do: it writes what a packet may write,
is answered, processed or refused under one counter, and can always continue.

The reference judges each frame by itself, from its bytes. So it holds in both directions: nothing is written
that is not allowed, and no damage that the protocol ignores keeps a packet from being placed.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from far_end import FarEnd
from frame_offsets import OUTER_AT, PAYLOAD_AT
from nic_bench import MEMORY_BYTES, NicBench, Outcome
from program_bench import Verdict
from reference.ev_partition import ev_partition
from reference.frame import Frame, decode_frame
from reference.layout import WireError
from reference.opcode import Opcode
from reference.packet import Packet, Write, make_write
from reference.psn import psn_expand, wire_psn
from reference.reliability_header import NackReason, Seth
from reference.transport_header import P_KEY_DEFAULT, ImmDt, Meth, NakCode, Reth, Tseth
from write_source import WriteSource
from write_target import REGION_OFFSET, WriteTarget

from mrc_agents.abi import Command, EventKind, Limit, NicCounter, Qp, QpState, ReservedKey
from mrc_testbed.topology.usid import Role, Usid, pack_carrier

WINDOW: Final = 32
PROBES: Final = 4
MAILBOX_PAGE: Final = 100
ERROR_EVERY: Final = 400
"""Frames, on average, after which the QP is put into ERROR for a while."""

RECEIVED: Final = frozenset(
    {
        NicCounter.RX_SACK,
        NicCounter.RX_ACK,
        NicCounter.RX_NAK,
        NicCounter.RX_NACK,
        NicCounter.RX_PROBE_RESPONSE,
    }
)
UNMET: Final = frozenset({NicCounter.DROP_ICRC, NicCounter.DROP_OUT_OF_ORDER})
"""Refusals that this NIC has no use for: its iCRC is off, and it has no reliable connection."""

REFUSALS: Final = frozenset(
    counter for counter in NicCounter if counter.name.startswith("DROP_") and counter != NicCounter.DROP_NO_EV
)
"""Reasons to drop a frame that came in; without an EV it is the next one out that does not leave."""

_PLACEABLE: Final = (
    Opcode.WRITE_FIRST,
    Opcode.WRITE_MIDDLE,
    Opcode.WRITE_LAST,
    Opcode.WRITE_ONLY,
    Opcode.WRITE_LAST_IMMEDIATE,
    Opcode.WRITE_ONLY_IMMEDIATE,
)
_SEND_KEYS: Final = frozenset({ReservedKey.SEND_PART, ReservedKey.SEND_LAST, ReservedKey.SEND_LAST_IMMEDIATE})
_WHOLE: Final = frozenset({Opcode.WRITE_ONLY, Opcode.WRITE_ONLY_IMMEDIATE})


class FuzzedQp:
    """A QP that both sends and receives, and the judge of what may happen to it.

    Args:
        nic: under test.
        far: the peer.
        random: of all choices.
        compare_every: frames between two looks at all of the NIC's memory.
        has_sends: parts of SENDs are among the frames.
    """

    def __init__(
        self, nic: NicBench, far: FarEnd, random: Random, *, compare_every: int = 1, has_sends: bool = False
    ) -> None:
        self.nic = nic
        self._compare_every = compare_every
        self._receives = 0
        self.frames = 0
        self.far = far
        self.random = random
        self.source = WriteSource(
            nic, far, far.attributes(window_packets=WINDOW, loss_threshold_acks=2 * WINDOW)
        )
        self.target = WriteTarget(nic, far)
        self.target.expected[:] = nic.memory
        self._has_sends = has_sends
        self.renew()

    def renew(self) -> None:
        """A fresh QP with packets under way."""
        first_psn = self.random.choice([0, 2**24 - 100, self.random.getrandbits(31)])
        self.source = WriteSource(self.nic, self.far, self.source.attributes, first_psn)
        self.target.expected[:] = self.nic.memory
        self.target.reference = type(self.target.reference).starting_at(first_psn)
        self.nic.work[0].mailbox = 1 + MAILBOX_PAGE
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
            self._immediate_write,
            self._sack,
            self._ack,
            self._nack,
            lambda: self.far.nak(NakCode.REMOTE_ACCESS_ERROR),
            lambda: self.far.probe_request(random.getrandbits(16)),
        ]
        if not random.randrange(len(makers) + 1):
            request_id = random.randrange(self.nic.next_kick.next_probe_id + PROBES)
            probed = self.nic.probe_under_way(request_id).entropy
            ev = plane << 28 | probed & (1 << 28) - 1
            return self.far.arriving_octets(self.far.probe_response(request_id), plane, ev)
        ev = plane << 28 | random.randrange(4) << 16 | random.getrandbits(16)
        return self.far.arriving_octets(random.choice(makers)(), plane, ev)

    def _write(self) -> Packet:
        random = self.random
        psn = self.target.reference.next_psn + random.choice([0, 0, 1, 2, 70, -1, 1023, 1024, -40_000])
        payload = random.randbytes(random.choice([0, 1, 5, 64, 300, 2048]))
        va = random.choice([0, 77, MEMORY_BYTES // 2, MEMORY_BYTES - REGION_OFFSET - len(payload)])
        opcode = random.choice(_PLACEABLE[:4])
        message_bytes = len(payload) + (0 if opcode == Opcode.WRITE_ONLY else random.choice([0, 1, 4000]))
        return self.target.packet(psn, payload, va, opcode=opcode, message_bytes=message_bytes)

    def _immediate_write(self) -> Packet:
        random = self.random
        if not random.randrange(20):
            self.nic.post_receives(1)
            self._receives += 1
        qp = self.nic.qp()
        payload = random.randbytes(random.choice([0, 3, 100]))
        return make_write(
            Opcode.WRITE_ONLY_IMMEDIATE,
            self.far.qpn,
            wire_psn(self.target.reference.next_psn + random.choice([0, 1, 3])),
            Meth((qp.resp.completed_wimm + random.choice([1, 1, 2, 0, -1, 200])) % (1 << 16), 0),
            self._reth(len(payload)),
            payload,
            tseth=Tseth(1),
            immediate=ImmDt(random.getrandbits(32)),
        )

    def _reth(self, length: int) -> Reth:
        """A place in the region or, where there are SENDs, in the mailbox or beyond it."""
        random = self.random
        if not self._has_sends:
            return Reth(random.choice([0, 500]), self.target.r_key, length)
        va = random.choice([0, 500, Limit.MAILBOX_BYTES - 50, 1 << 40])
        return Reth(va, random.choice([self.target.r_key, *ReservedKey]), length)

    def _ack(self) -> Packet:
        qp, random = self.nic.qp(), self.random
        return self.far.ack(qp.req.next_psn + random.randrange(-40, 3), random.randrange(-1, 3) % (1 << 24))

    def _nack(self) -> Packet:
        qp, random = self.nic.qp(), self.random
        psn = qp.comp.una_psn + random.randrange(-2, WINDOW)
        sent = qp.req.tx[psn % Limit.PSN_RING].ev_index
        ev = random.choice([self.source.attributes.evs[sent], random.getrandbits(32)])
        return self.far.nack(psn, random.choice(list(NackReason)), ev)

    def _sack(self) -> Packet:
        random = self.random
        oldest = self.source.nic.qp().comp.una_psn
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
        length = len(write.payload)
        is_whole = write.bth.opcode not in _WHOLE or length == write.reth.message_bytes
        if length > Limit.PMTU_MAX or length > write.reth.message_bytes or not is_whole:
            return None
        psn = self.counter_of(write)
        if not self.target.reference.accepts(psn) or self.target.reference.has(psn):
            return None
        is_inside = self.place(write) is not None
        is_awaited = write.immediate is None or self._is_awaited(write)
        return write if (is_inside or not length) and is_awaited else None

    def place(self, write: Write) -> int | None:
        """Where in memory the payload goes; None: nowhere."""
        start, size = REGION_OFFSET, MEMORY_BYTES - REGION_OFFSET
        if write.reth.r_key in _SEND_KEYS:
            start, size = MAILBOX_PAGE * Limit.PAGE_BYTES, int(Limit.MAILBOX_BYTES)
        elif write.reth.r_key != self.target.r_key:
            return None
        return start + write.reth.va if write.reth.va + len(write.payload) <= size else None

    def _is_awaited(self, write: Write) -> bool:
        """Return True if a receive is posted for the number of a WRITE with immediate."""
        qp = self.nic.qp()
        ahead = (write.meth.rqmsn - qp.resp.completed_wimm) % (1 << 16)
        number = qp.resp.completed_wimm + ahead
        return (
            0 < ahead < 1 << 15
            and number - qp.resp.delivered_wimm <= qp.resp.max_wimm_dest
            and number <= self._receives
        )

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
            and write.bth.opcode in _PLACEABLE
            and write.tseth is not None
            and write.bth.p_key == P_KEY_DEFAULT
            and write.bth.destination_qpn == self.far.qpn
        )

    def judge(self, octets: bytes, plane: int) -> None:
        """Lets a frame come in; all it did must be what it may do."""
        self.frames += 1
        if not self.random.randrange(ERROR_EVERY):
            self._refuse_in_error(octets, plane)
        allowed = self.allowed_write(octets, plane)
        if allowed is not None:
            start = self.place(allowed) or 0  # for no bytes any place will do
            self.target.expected[start : start + len(allowed.payload)] = allowed.payload
            self.target.reference.receive(self.counter_of(allowed), 0, entropy=0, timestamp=0)
        outcome = self.nic.receive(octets, plane)
        placed = outcome.counters.get(NicCounter.RX_PLACED_BYTES, 0)
        assert placed == (0 if allowed is None else len(allowed.payload)), octets.hex()
        if self.frames % self._compare_every == 0:
            self.target.check_memory()
        check_account(outcome, octets)
        qp = self.nic.qp()
        assert qp.resp.cack_next == self.target.reference.next_psn % 2**32
        if qp.state == QpState.ERROR:
            self.renew()

    def _refuse_in_error(self, octets: bytes, plane: int) -> None:
        """A QP in ERROR places nothing, whatever comes; afterwards there is a fresh one."""
        assert self.nic.command(Command.ERROR, 0)
        outcome = self.nic.receive(octets, plane)
        assert NicCounter.RX_PLACED_BYTES not in outcome.counters
        check_account(outcome, octets)
        self.renew()

    def check_alive(self) -> None:
        """The QP is whole, and what it still has to do completes once its peer answers as it should."""
        self.target.check_memory()
        state = self.nic.qp()
        ev_partition(state)
        assert state.req.inflight <= WINDOW
        assert state.req.lost_count == sum(word.bit_count() for word in state.req.lost_bits)
        self.nic.events()
        self.source.post(10_000, work_id=77)
        # a damaged frame may have said that the peer has no port
        update = self.far.port_update(0b1111, (state.evs.peer_port_update + 1) % (1 << 16))
        self.nic.receive(self.far.arriving_octets(update, 0, 0), 0)
        for _ in range(200):
            self.nic.send_all()
            qp = self.nic.qp()
            assert qp.state == QpState.RTS
            packets: list[Packet] = [
                self.far.sack(Seth(wire_psn(qp.req.next_psn - 1), 0)),
                self.far.ack(_last_end(qp), qp.req.work.next_msn),
            ]
            for packet in packets:
                self.nic.receive(self.far.arriving_octets(packet, 0, 0), 0)
            done = [event.a for event in self.nic.events() if event.kind == EventKind.COMPLETION]
            if 77 in done:
                return
        raise AssertionError(f"the QP is stuck: {self.nic.qp().comp.una_psn} of {self.nic.qp().req.next_psn}")


def _last_end(qp: Qp) -> int:
    """The PSN of the last packet sent that ends a message, or of the last one."""
    sent = range(qp.req.next_psn - 1, qp.req.next_psn - 1 - Limit.PSN_RING, -1)
    ends = (psn for psn in sent if qp.req.tx[psn % Limit.PSN_RING].opcode >= Opcode.WRITE_LAST)
    return next(ends, sent[0])


def check_account(outcome: Outcome, octets: bytes) -> None:
    """Each frame is passed to the kernel, answered, processed, or refused under exactly one counter."""
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
