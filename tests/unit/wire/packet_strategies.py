"""Hypothesis strategies for every header, packet and frame of the protocol."""

from ipaddress import IPv6Address
from typing import TypeVar

from hypothesis import strategies as st
from reference.endpoint_header import Eeth, Erth
from reference.frame import Frame
from reference.layout import RESERVED, Field, Header
from reference.link_probe_header import Lph
from reference.network_header import Ethernet, Ipv6, Udp
from reference.opcode import Opcode
from reference.packet import (
    Acknowledge,
    EndpointRequest,
    EndpointResponse,
    LinkProbe,
    Nack,
    Packet,
    Probe,
    Sack,
    Write,
    make_write,
)
from reference.reliability_header import CcState, Neth, Peth, Seth
from reference.traffic_class import Dscp
from reference.transport_header import Aeth, Bth, ImmDt, Meth, Reth, Tseth

HEADERS: list[type[Header]] = [
    Aeth, Bth, CcState, Eeth, Erth, Ethernet, ImmDt, Lph, Meth, Neth, Peth, Reth, Seth, Tseth, Udp
]  # fmt: skip

AnyHeader = TypeVar("AnyHeader", bound=Header)


def field_values(field: Field) -> st.SearchStrategy[int]:
    if field.values is not None:
        return st.sampled_from(list(field.values))
    if field.is_flag:
        return st.booleans()
    low = -(2 ** (field.width - 1)) if field.is_signed else 0
    return st.integers(low, low + 2**field.width - 1)


def headers(header: type[AnyHeader], **fixed: object) -> st.SearchStrategy[AnyHeader]:
    """Any header of that class, with the attributes in *fixed* as given."""
    named = {field.name: field_values(field) for field in header.LAYOUT.fields if field.name != RESERVED}
    return st.builds(header, **{**named, **{name: st.just(value) for name, value in fixed.items()}})


def bths(opcode: Opcode) -> st.SearchStrategy[Bth]:
    return headers(Bth, opcode=opcode, version=0)


@st.composite
def writes(draw: st.DrawFn) -> Write:
    opcode = draw(st.sampled_from([opcode for opcode in Opcode if opcode.is_write]))
    return make_write(
        opcode,
        draw(st.integers(0, 2**24 - 1)),
        draw(st.integers(0, 2**24 - 1)),
        draw(headers(Meth)),
        draw(headers(Reth)),
        draw(st.binary(max_size=40)),
        tseth=draw(st.none() | headers(Tseth)),
        immediate=draw(headers(ImmDt)) if opcode.has_immediate else None,
        wants_ack=draw(st.booleans()),
        is_retransmission=draw(st.booleans()),
    )


def packets() -> st.SearchStrategy[Packet]:
    """Any packet that is sent, of all opcodes."""
    return st.one_of(
        writes(),
        st.builds(Acknowledge, bths(Opcode.ACKNOWLEDGE), headers(Aeth)),
        st.builds(Sack, bths(Opcode.SACK), headers(Seth), headers(CcState)),
        st.builds(Nack, bths(Opcode.NACK), headers(Neth)),
        st.builds(Probe, bths(Opcode.PROBE), headers(Peth)),
        st.builds(LinkProbe, bths(Opcode.LINK_PROBE), headers(Lph)),
        st.builds(EndpointRequest, bths(Opcode.ENDPOINT_REQUEST), headers(Erth)),
        st.builds(EndpointResponse, bths(Opcode.ENDPOINT_RESPONSE), headers(Eeth)),
    )


def addresses() -> st.SearchStrategy[IPv6Address]:
    return st.builds(IPv6Address, st.integers(0, 2**128 - 1))


def ipv6_headers(classes: st.SearchStrategy[int]) -> st.SearchStrategy[Ipv6]:
    return st.builds(Ipv6, addresses(), addresses(), classes, st.integers(0, 2**20 - 1), st.integers(0, 255))


def frames() -> st.SearchStrategy[Frame]:
    """Any frame that is sent, inside and outside the tunnel, of any class but the trimmed ones."""
    trimmed = {Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP}
    classes = st.integers(0, 255).filter(lambda octet: octet >> 2 not in trimmed)
    macs = st.integers(0, 2**48 - 1)
    return st.builds(
        Frame,
        st.builds(Ethernet, macs, macs),
        st.none() | ipv6_headers(classes),
        ipv6_headers(classes),
        st.integers(0, 2**16 - 1),
        st.just(4791),
        packets(),
    )
