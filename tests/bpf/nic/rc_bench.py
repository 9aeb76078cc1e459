"""The NIC with its program of reliable connections, and the reference of both ends of one."""

import time
from ctypes import c_uint32
from dataclasses import dataclass, field
from random import Random
from typing import Final, Self

from far_end import FarEnd
from nic_bench import MEMORY_BYTES, NIC_OBJECT, QP_COUNT, NicBench, Outcome, Verdict
from reference.frame import decode_frame, encode_frame
from reference.psn import psn_expand, wire_psn
from reference.rc_packet import Cnp, RcAcknowledge, RcBth, RcOpcode, RcWrite
from reference.transport_header import AckKind, Aeth, NakCode

from mrc_testbed.agents.abi import (
    Command,
    Doorbell,
    Event,
    EventKind,
    KickMode,
    Limit,
    Qp,
    QpState,
    RcQp,
    Work,
)
from mrc_testbed.agents.bpf.libbpf import BpfObject, run_once
from mrc_testbed.agents.bpf.maps import ArrayMap, map_update
from mrc_testbed.agents.nic.rc_qp import RcAttributes, RcQueuePair, build_rc_qp
from mrc_testbed.agents.nic.work_queue import QPN_MIN, qp_index
from mrc_testbed.agents.protocol.dcqcn import DcqcnParameters
from mrc_testbed.fabric.data_plane import fabric_rodata

RC_OBJECT: Final = NIC_OBJECT.with_name("rc.bpf.o")
RTT_NS: Final = 750_000
NEVER_NS: Final = 60_000_000_000  # the longest RTO of a connection
REMOTE_KEY: Final = 0xC0FFEE41


class RcBench(NicBench):
    """The NIC of a host, with both programs."""

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            shared = {name: self.map_fd(name) for name in self._object.map_names()}
            rc = self._stack.enter_context(
                BpfObject(
                    RC_OBJECT,
                    rodata=fabric_rodata(self.clos),
                    max_entries={"rc_qps": QP_COUNT},
                    reuse=shared,
                )
            )
            map_update(self.map_fd("nic_transports"), c_uint32(0), c_uint32(rc.program_fd("rc")))
            self._rc_qps = ArrayMap(rc.map_fd("rc_qps"), RcQp, locked=True)
            self._clear_connections()
        except BaseException:
            self._stack.close()
            raise
        return self

    def reset(self) -> None:
        """Puts everything but the counters back to how a fresh NIC has it."""
        super().reset()
        if hasattr(self, "_rc_qps"):
            self._clear_connections()

    def _clear_connections(self) -> None:
        for index in range(QP_COUNT):
            self._rc_qps.write(index, RcQp(state=QpState.RESET))

    def connect(self, index: int, attributes: RcAttributes, peer_qpn: int) -> None:
        """A reliable connection in RTS."""
        value = build_rc_qp(RcQueuePair(QPN_MIN + index, attributes), self.config, time.monotonic_ns())
        value.state, value.peer_qpn = QpState.RTS, peer_qpn
        self._rc_qps.write(index, value)

    def maps_of_qps(self) -> tuple[ArrayMap[Qp], ArrayMap[RcQp]]:
        """Those of MRC, and of reliable connections."""
        return self._qps, self._rc_qps

    @property
    def program_fd(self) -> int:
        return self._program_fd

    def kick_once(self, index: int, mode: KickMode, frames_left: int) -> bytes | None:
        """The frame that one TX kick sends; *frames_left* buffers are announced, this one included."""
        self._kick.mode = mode
        self._kick.qp_index = index
        self._kick.frames_left = frames_left
        verdict, left = run_once(self._program_fd, bytes(Limit.FRAME_BYTES_MAX))
        return left if verdict == Verdict.REDIRECT else None

    def rc_qp(self, index: int = 0) -> RcQp:
        """A copy of a connection as it is now."""
        return self._rc_qps.read(index)

    def edit_rc_qp(self, index: int, **values: int) -> None:
        value = self._rc_qps.read(index)
        for name, each in values.items():
            setattr(value, name, each)
        self._rc_qps.write(index, value)

    def rc_command(self, command: Command, index: int, *arguments: int) -> bool:
        """Has the program change a connection; whether it did."""
        return self.command(command, index, *arguments, mode=KickMode.RC_COMMAND)

    def ring_doorbell(self, magic: int, index: int) -> Outcome:
        """Run a TX kick as an application's doorbell does."""
        frame = bytes(Doorbell(magic=magic, qp_index=index))
        return self._run(frame.ljust(Limit.FRAME_BYTES_MAX, b"\0"), 0)

    def kick_rc(self, index: int = 0) -> Outcome:
        """Run a TX kick for a connection."""
        self._kick.mode = KickMode.RC
        self._kick.qp_index = index
        self._kick.frames_left = 1
        return self._run(bytes(Limit.FRAME_BYTES_MAX), 0)


def attributes(far: FarEnd, *, evs: tuple[int, ...] = (0x0001_0007,), **changes: int) -> RcAttributes:
    """Attributes of a connection to the peer that never times out; the rate does not change."""
    cc = DcqcnParameters.scaled(10**10, RTT_NS, 2190, is_fixed=True)
    usual = {
        "window_packets": 64,
        "pmtu_bytes": 2048,
        "rto_ns": NEVER_NS,
        "retry_limit": 3,
        "cnp_interval_ns": 0,
        "first_psn": 0,
    }
    return RcAttributes(peer_host=far.peer, evs=evs, cc=cc, **(usual | changes))


@dataclass
class InOrder:
    """The reference responder: what each packet, by its counter, is answered with.

    Attributes:
        expected: counter of the next packet that is taken.
        messages: whole.
        payload: of all packets taken, by place.
    """

    expected: int = 0
    messages: int = 0
    is_nak_sent: bool = False
    taken: list[RcWrite] = field(default_factory=list)

    def receive(self, psn: int, write: RcWrite) -> Aeth | None:
        """The answer; None for silence."""
        if psn > self.expected:
            if self.is_nak_sent:
                return None
            self.is_nak_sent = True
            return Aeth(AckKind.NAK, NakCode.PSN_SEQUENCE_ERROR, self.messages)
        if psn == self.expected:
            self.expected += 1
            self.is_nak_sent = False
            self.taken.append(write)
            self.messages += write.bth.opcode.ends_message
        return Aeth.ack(self.messages)

    def answer(self, aeth: Aeth, qpn: int) -> RcAcknowledge:
        """The packet that carries *aeth*."""
        psn = self.expected if aeth.kind is AckKind.NAK else self.expected - 1
        return RcAcknowledge(RcBth(RcOpcode.ACKNOWLEDGE, qpn, wire_psn(psn)), aeth)


@dataclass(frozen=True)
class Left:
    """A data packet that left the NIC."""

    psn: int  # its counter
    plane: int  # it left through
    ev: int  # it carries
    write: RcWrite  # the packet


class RcSource:
    """A connection of the NIC that sends, with the reference responder at its far end.

    Args:
        nic: under test.
        far: the peer.
        chosen: attributes of the connection.
    """

    def __init__(self, nic: RcBench, far: FarEnd, chosen: RcAttributes) -> None:
        self.nic = nic
        self.far = far
        self.index = qp_index(far.qpn)
        self.responder = InOrder(expected=chosen.first_psn)
        nic.memory[:] = Random(4791).randbytes(MEMORY_BYTES)
        nic.connect(self.index, chosen, far.peer_qpn)

    def post(
        self, length: int, *, iterations: int = 1, depth: int = 16, immediate: int | None = None
    ) -> None:
        """Posts messages read from the start of memory and written at the start of the peer's region."""
        work = Work(
            id=1,
            length=length,
            iterations=iterations,
            local_slots=1,
            remote_slots=1,
            r_key=REMOTE_KEY,
            depth=depth,
            has_immediate=immediate is not None,
            immediate=immediate or 0,
        )
        self.nic.post(work, self.index)

    def send(self, most: int = 1024) -> list[Left]:
        """The packets that TX kicks send until the connection has none left."""
        left: list[Left] = []
        while len(left) < most:
            outcome = self.nic.kick_rc(self.index)
            if outcome.verdict is Verdict.DROP:
                break
            left.append(self.take(outcome))
        return left

    def take(self, outcome: Outcome) -> Left:
        """The data packet in *outcome*, its frame as the reference builds it."""
        assert outcome.verdict is Verdict.REDIRECT
        frame = decode_frame(outcome.frame)
        write = frame.packet
        assert isinstance(write, RcWrite), write
        (plane,) = outcome.planes
        expected = self.far.leaving(write, plane, frame.ev >> 16 & 0xFFF, frame.ev)
        assert outcome.frame == encode_frame(expected)
        assert write.bth.destination_qpn == self.far.peer_qpn
        return Left(psn_expand(self.responder.expected, wire_psn(write.bth.psn)), plane, frame.ev, write)

    def receive(self, packet: RcAcknowledge | Cnp, plane: int, ev: int) -> tuple[Outcome, Left | None]:
        """Receive a response; the outcome, and the data packet that its frame became."""
        outcome = self.nic.receive(self.far.arriving_octets(packet, plane, ev), plane)
        return outcome, None if outcome.verdict is Verdict.DROP else self.take(outcome)

    def completions(self) -> list[tuple[int, int]]:
        """(iterations, bytes of each) of the completions that wait."""
        return [(event.b, event.d) for event in self.events() if event.kind == EventKind.COMPLETION]

    def events(self) -> list[Event]:
        return self.nic.events()
