"""The far end of the NIC's packets: builds frames as the last T0 hands them over, reads what comes back."""

from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from nic_bench import Outcome
from program_bench import Verdict
from reference.endpoint_header import Eeth, EndpointOperation, Erth
from reference.frame import Frame, Route, build_frame, decode_frame, encode_frame, traffic_class_of
from reference.network_header import parse_mac
from reference.opcode import Opcode
from reference.packet import (
    Acknowledge,
    EndpointRequest,
    EndpointResponse,
    Nack,
    Packet,
    Sack,
    Write,
    make_write,
)
from reference.psn import wire_psn
from reference.rc_packet import RcAcknowledge, RcBth, RcOpcode, RcWrite
from reference.reliability_header import CcState, Neth, Seth
from reference.traffic_class import Ecn, TrafficClass
from reference.transport_header import ENDPOINT_QPN, AckKind, Aeth, Bth, Meth, NakCode, Reth, Tseth

from mrc_agents.nic.qp import QpAttributes
from mrc_agents.nic.rc_qp import RcAttributes
from mrc_agents.nic.work_queue import QPN_MIN, qp_index
from mrc_agents.protocol.dcqcn import DcqcnParameters
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import path_carrier
from mrc_testbed.topology.usid import Role, Usid, pack_carrier

SWITCHES_CROSSED: Final = 3
NEVER_NS: Final = 3_600_000_000_000
"""A time-out that no test lives to see."""
RC_PATH: Final = 0x0001_0007
"""EV of the only path of a reliable connection."""
_RC_NEVER_NS: Final = 60_000_000_000  # the longest RTO of a connection

AnyPacket = TypeVar("AnyPacket", bound=Packet)


def packet_of(frame: bytes, kind: type[AnyPacket]) -> AnyPacket:
    """The packet in *frame*, which must be one of *kind*."""
    packet = decode_frame(frame).packet
    assert isinstance(packet, kind), packet
    return packet


@dataclass
class InOrder:
    """The reference responder of a connection: what each packet, by its counter, is answered with."""

    expected: int = 0  # counter of the next packet that is taken
    messages: int = 0  # whole
    is_nak_sent: bool = False
    taken: list[RcWrite] = field(default_factory=list)  # all packets taken, in order

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


@dataclass(frozen=True, slots=True)
class FarEnd:
    """Host *peer* as seen from the NIC of *host*."""

    clos: Clos
    host: int
    peer: int
    qpn: int = QPN_MIN
    peer_qpn: int = 0xBEEF

    @property
    def index(self) -> int:
        """Index of the NIC's QP."""
        return qp_index(self.qpn)

    @property
    def is_tunnelled(self) -> bool:
        """Return True if frames have an outer IPv6 header, with the carrier."""
        return self.clos.spec.forwarding == "srv6"

    def attributes(self, **changes: Any) -> QpAttributes:
        """Attributes of a QP to the peer, with *changes*; it never times out."""
        evs = build_ev_set(self.clos, self.host, self.peer, 4 * self.clos.spec.planes)
        usual = {
            "backup_per_plane": 1,
            "min_active": 1,
            "window_packets": 64,
            "loss_threshold_acks": 128,
            "pmtu_bytes": 2048,
            "rto_ns": NEVER_NS,
            "retry_limit": 3,
            "probe_success_target": 3,
            "seed": 0,
            "first_psn": 0,
        }
        return QpAttributes(peer_host=self.peer, **({"evs": evs} | usual | changes))

    def rc_attributes(self, **changes: Any) -> RcAttributes:
        """Attributes of a connection to the peer, with *changes*: no time-outs, and a fixed rate."""
        usual: dict[str, Any] = {
            "evs": (RC_PATH,),
            "cc": DcqcnParameters.scaled(10**10, 750_000, 2190, is_fixed=True),
            "window_packets": 64,
            "pmtu_bytes": 2048,
            "rto_ns": _RC_NEVER_NS,
            "retry_limit": 3,
            "cnp_interval_ns": 0,
            "first_psn": 0,
        }
        return RcAttributes(peer_host=self.peer, **(usual | changes))

    def evs_on_uplinks(self, *uplinks: int) -> tuple[int, ...]:
        """EVs of all planes, the same in each: one for each of *uplinks*, equal ones as copies."""
        planes = range(self.clos.spec.planes)
        return tuple(self.clos.ev(plane, uplinks[i], i) for plane in planes for i in range(len(uplinks)))

    # -- what arrives at the NIC ------------------------------------------------------------------

    def arriving(
        self, packet: Packet, plane: int, ev: int | None = None, *, is_marked: bool = False
    ) -> Frame:
        """*packet* on an EV of *plane* behind the last switch; marked: ECN CE in the outermost header."""
        port = self.clos.port(self.clos.host_link(self.host, plane).lower.id)
        downlink = Usid(Role.DOWNLINK, plane, self.clos.numbering.downlink(self.host))
        route = Route(
            source_mac=parse_mac(self.clos.mac(port.peer_id)),
            destination_mac=parse_mac(port.mac),
            source=self.clos.inner_address(self.peer, plane),
            destination=self.clos.inner_address(self.host, plane),
            carrier=pack_carrier((downlink,)) if self.is_tunnelled else None,
            ev=plane << 28 if ev is None else ev,
        )
        frame = build_frame(route, packet)
        traffic_class = traffic_class_of(packet)
        if is_marked:
            traffic_class = TrafficClass(traffic_class.dscp, Ecn.CE)
        outermost = frame.outer or frame.inner
        hop_limit = outermost.hop_limit - SWITCHES_CROSSED
        outermost = replace(outermost, traffic_class=traffic_class.octet, hop_limit=hop_limit)
        return replace(frame, outer=outermost) if frame.outer else replace(frame, inner=outermost)

    def arriving_octets(self, packet: Packet, plane: int, ev: int | None = None, **options: bool) -> bytes:
        """The bytes of `arriving`."""
        return encode_frame(self.arriving(packet, plane, ev, **options))

    def write(
        self,
        psn: int,
        payload: bytes,
        *,
        va: int,
        r_key: int,
        opcode: Opcode = Opcode.WRITE_ONLY,
        message_bytes: int | None = None,
        msn: int = 0,
        rqmsn: int = 0,
        timestamp: int = 0x1234,
        **options: Any,
    ) -> Write:
        """A data packet; *psn* may be any counter, its low 24 bits are sent. *options* are make_write's."""
        reth = Reth(va, r_key, len(payload) if message_bytes is None else message_bytes)
        meth, tseth = Meth(rqmsn, msn), Tseth(timestamp)
        return make_write(opcode, self.qpn, wire_psn(psn), meth, reth, payload, tseth=tseth, **options)

    def sack(self, seth: Seth, state: CcState | None = None, *, is_retransmission: bool = False) -> Sack:
        """A SACK for the NIC's QP."""
        bth = Bth(Opcode.SACK, self.qpn, wire_psn(seth.cack_psn), is_retransmission=is_retransmission)
        return Sack(bth, seth, state or CcState(0))

    def ack(self, psn: int, count: int, *, is_retransmission: bool = False) -> Acknowledge:
        """A transport ACK for the NIC's QP: *count* messages are complete, the last one ends with *psn*."""
        bth = Bth(Opcode.ACKNOWLEDGE, self.qpn, wire_psn(psn), is_retransmission=is_retransmission)
        return Acknowledge(bth, Aeth.ack(count % (1 << 24)))

    def nak(self, code: NakCode, psn: int = 0, msn: int = 0) -> Acknowledge:
        """A transport NAK for the NIC's QP."""
        return Acknowledge(Bth(Opcode.ACKNOWLEDGE, self.qpn, wire_psn(psn)), Aeth.nak(code, msn))

    def nack(self, psn: int, reason: int, ev: int) -> Nack:
        """A NACK for the NIC's QP."""
        return Nack(Bth(Opcode.NACK, self.qpn, wire_psn(psn)), Neth(reason, wire_psn(psn), ev, 0))

    def rc_ack(self, psn: int, messages: int = 0) -> RcAcknowledge:
        """An ACK for the NIC's connection."""
        return RcAcknowledge(RcBth(RcOpcode.ACKNOWLEDGE, self.qpn, wire_psn(psn)), Aeth.ack(messages))

    def rc_nak(self, psn: int, code: int, kind: AckKind = AckKind.NAK) -> RcAcknowledge:
        """A NAK for the NIC's connection."""
        return RcAcknowledge(RcBth(RcOpcode.ACKNOWLEDGE, self.qpn, wire_psn(psn)), Aeth(kind, code, 0))

    def probe_request(self, request_id: int, timestamp: int = 0x4321) -> EndpointRequest:
        """An EV probe of the peer."""
        bth = Bth(Opcode.ENDPOINT_REQUEST, ENDPOINT_QPN, request_id)
        return EndpointRequest(bth, Erth(EndpointOperation.EV_PROBE, timestamp))

    def probe_response(
        self, request_id: int, timestamp: int = 0, operation: EndpointOperation = EndpointOperation.EV_PROBE
    ) -> EndpointResponse:
        """The peer's answer to an EV probe, or another request, of the NIC."""
        bth = Bth(Opcode.ENDPOINT_RESPONSE, ENDPOINT_QPN, request_id)
        return EndpointResponse(bth, Eeth(operation, timestamp))

    def port_update(self, mask: int, request_id: int) -> EndpointRequest:
        """The peer's message that its ports to the planes of *mask* work."""
        erth = Erth(EndpointOperation.PORT_STATUS_UPDATE, 0x4321, port_status_mask=mask)
        return EndpointRequest(Bth(Opcode.ENDPOINT_REQUEST, ENDPOINT_QPN, request_id), erth)

    # -- what the NIC should send -----------------------------------------------------------------

    def leaving(self, packet: Packet, ev: int) -> Frame:
        """*packet* as the NIC should send it to the peer on the path that *ev* names."""
        plane, uplink, is_tunnelled = ev >> 28, ev >> 16 & 0xFFF, self.is_tunnelled
        port = self.clos.port(self.clos.host_link(self.host, plane).lower.id)
        route = Route(
            source_mac=parse_mac(port.mac),
            destination_mac=parse_mac(self.clos.mac(port.peer_id)),
            source=self.clos.inner_address(self.host, plane),
            destination=self.clos.inner_address(self.peer, plane),
            carrier=path_carrier(self.clos, self.host, self.peer, plane, uplink) if is_tunnelled else None,
            ev=ev,
        )
        return build_frame(route, packet)

    def check_leaves(self, outcome: Outcome, packet: Packet, ev: int) -> None:
        """*outcome* is that *packet* is on its way to the peer, byte for byte."""
        expected = self.leaving(packet, ev)
        assert decode_frame(outcome.frame) == expected
        assert outcome.frame == encode_frame(expected)
        assert (outcome.verdict, outcome.planes) == (Verdict.REDIRECT, (ev >> 28,))
