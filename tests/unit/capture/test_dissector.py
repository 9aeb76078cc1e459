"""The Wireshark dissector says of every opcode and field what the reference of the wire format says."""

import random
import re
from dataclasses import replace
from enum import IntEnum
from ipaddress import IPv6Address

import pytest
from dissection import fields, number, run_tshark
from reference.endpoint_header import Eeth, EndpointOperation, Erth
from reference.frame import Route, build_frame, encode_frame, trim_frame
from reference.layout import RESERVED, Layout
from reference.link_probe_header import Lph
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
    decode_packet,
    make_write,
)
from reference.reliability_header import CcState, NackReason, Neth, OwnCcState, PathAdvice, Peth, Seth
from reference.sack import acknowledged_psns, caused_by_psn, unreported_psns
from reference.traffic_class import Dscp
from reference.transport_header import AckKind, Aeth, Bth, FormatType, ImmDt, Meth, NakCode, Reth, Tseth

from mrc_testbed.capture.packet_recording import DISSECTOR
from mrc_testbed.cli.app import run
from mrc_testbed.topology.usid import Role, unpack_carrier

pytestmark = pytest.mark.tool("tshark")

NAMES: dict[str, type[IntEnum]] = {
    "opcode": Opcode,
    "reason": NackReason,
    "kind": AckKind,
    "advice": PathAdvice,
    "operation": EndpointOperation,
    "format_type": FormatType,
    "nak_code": NakCode,
    "dscp": Dscp,
}
LUA = DISSECTOR.read_text()

ROUTE = Route(
    source_mac=0x024D52000001,
    destination_mac=0x024D52000002,
    source=IPv6Address("fd6d:7263:0:2::2"),
    destination=IPv6Address("fd6d:7263:0:2::7"),
    carrier=IPv6Address("fcbb:0:4800:8801:4801:c802::"),
    ev=0x2001_ABCD,
)
SETH = Seth(
    0xFFFFFD,
    0x3002_0007,
    0x8000_0000_0000_0076,
    sack_offset=1,
    ack_psn_offset=7,
    advice=PathAdvice.ALWAYS_SKIP,
    source_qpn_low=0x456,
    destination_qpn_low=0xFFFF,
    cc_type=5,
    cc_flags=9,
    mpr=200,
)
OWN_STATE = OwnCcState(0xFEDC, received_units=0xABCDEF, word=0x923456)
CC_STATE = CcState(0xFEDC, 0x7FFE, restores_cwnd=True, cwnd_penalty=0x55, received_units=0xABCDEF)
CONTROL: list[Packet] = [
    Acknowledge(Bth(Opcode.ACKNOWLEDGE, 0x123, 9), Aeth.ack(0xABCDE)),
    Acknowledge(Bth(Opcode.ACKNOWLEDGE, 0x123), Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 3)),
    EndpointRequest(
        Bth(Opcode.ENDPOINT_REQUEST, 2, 0xBEEF),
        Erth(EndpointOperation.PORT_STATUS_UPDATE, 0x1234, 0xF00E, vendor_info=3, is_coarse=True),
    ),
    EndpointRequest(Bth(Opcode.ENDPOINT_REQUEST, 2, 1), Erth(EndpointOperation.EV_PROBE, 1)),
    EndpointResponse(Bth(Opcode.ENDPOINT_RESPONSE, 2, 1), Eeth(EndpointOperation.EV_PROBE, 0x4321)),
    Sack(Bth(Opcode.SACK, 0x456, 0xFFFFFD, is_retransmission=True), SETH, OWN_STATE),
    Sack(Bth(Opcode.SACK, 0x456, 4), Seth(4, 0, 0xFF, sack_offset=-5, ack_psn_offset=-2), CC_STATE),
    Sack(Bth(Opcode.SACK, 0x456, 4), Seth(4, 1, ack_psn_offset=-4097, is_probe_response=True), CcState(1)),
    Nack(
        Bth(Opcode.NACK, 0x456, 0xFFFFFF),
        Neth(NackReason.PSN_OUT_OF_WINDOW, 0xFFFFFF, 0x1003_0001, 0x8001, 7, 0x123, 0x456, 3, 4),
    ),
    Nack(Bth(Opcode.NACK, 0x456, 1), Neth(0x77, 1, 2, 3)),
    Probe(Bth(Opcode.PROBE, 0x456), Peth(0xBEEF, 0x1234, 1, 2, 3, is_coarse=True)),
    LinkProbe(Bth(Opcode.LINK_PROBE, 2), Lph(71, 0xFEDCBA98, 0x0123_4567_89AB_CDEF)),
]


def write(opcode: Opcode, payload_bytes: int, tseth: Tseth | None = None, **flags: bool) -> Write:
    immediate = ImmDt(0xCAFEBABE) if opcode.has_immediate else None
    reth = Reth(0xFEDC_BA98_7654_3210, 0xDEADBEEF, 0x8000_0001)
    payload = random.Random(payload_bytes).randbytes(payload_bytes)
    return make_write(
        opcode,
        0xABCDEF,
        0xFEDCBA,
        Meth(0x8001, 0xFFFE),
        reth,
        payload,
        tseth=tseth,
        immediate=immediate,
        **flags,
    )


WRITES = [
    *[write(opcode, 16) for opcode in Opcode if opcode.is_write],
    *[write(opcode, 13, Tseth(0x8001, is_coarse=True)) for opcode in Opcode if opcode.is_write],
    write(Opcode.WRITE_FIRST, 2048, Tseth(7), wants_ack=True),
    write(Opcode.WRITE_LAST, 1, Tseth(7), is_retransmission=True),
    write(Opcode.WRITE_ONLY, 0),
]
PACKETS: list[Packet] = [*WRITES, *CONTROL]
FRAMES = [encode_frame(build_frame(ROUTE, packet), with_icrc=True) for packet in PACKETS]
HEADERS = {type(each).__name__.lower(): type(each) for packet in PACKETS for each in packet.headers}
TROUBLE = ["_ws.expert.message", "_ws.malformed", "mrc.icrc.status"]


def filter_name(header: str, field: str) -> str:
    return f"mrc.{field}" if header == "bth" else f"mrc.{header}.{field}"


def lua_table(name: str) -> str:
    [body] = re.findall(rf"local {name} = \{{\n(.*?)\n\}}", LUA, re.DOTALL)
    return str(body)


@pytest.mark.parametrize("header", HEADERS)
def test_layout_is_the_one_of_the_wire_package(header: str) -> None:
    [declaration] = re.findall(rf"^   {header} = (\".*?\"),$", lua_table("LAYOUTS"), re.DOTALL | re.MULTILINE)
    text = "".join(re.findall(r'"(.*?)"', declaration))
    found = HEADERS[header].LAYOUT.fields
    expected = [field if field.values is bool else replace(field, values=None) for field in found]
    assert list(Layout(text).fields) == expected


@pytest.mark.parametrize("name", NAMES)
def test_values_have_the_names_of_the_wire_package(name: str) -> None:
    [body] = re.findall(rf"^   {name} = \{{(.*?)\}}", lua_table("NAMES"), re.DOTALL | re.MULTILINE)
    found = {int(value, 0): text for value, text in re.findall(r'\[(\w+)\] = "(\w+)"', body)}
    assert found == {member.value: member.name for member in NAMES[name]}


def test_all_opcodes_are_among_the_frames() -> None:
    assert {packet.bth.opcode for packet in PACKETS} == set(Opcode)
    assert [decode_packet(packet.encode()) for packet in PACKETS] == PACKETS


def test_every_field_is_what_the_wire_package_wrote() -> None:
    names = {
        filter_name(header, field.name)
        for header, kind in HEADERS.items()
        for field in kind.LAYOUT.fields
        if field.name != RESERVED
    }
    for packet, row in zip(PACKETS, fields(FRAMES, sorted(names)), strict=True):
        expected = {
            filter_name(type(header).__name__.lower(), field.name): int(getattr(header, field.name))
            for header in packet.headers
            for field in header.LAYOUT.fields
            if field.name != RESERVED
        }
        found = {name: number(values[0]) for name, values in row.items() if values}
        assert found == expected
        assert all(len(values) <= 1 for values in row.values())


def test_nothing_is_malformed_and_every_icrc_is_good() -> None:
    for row in fields(FRAMES, TROUBLE):
        assert row == {"_ws.expert.message": [], "_ws.malformed": [], "mrc.icrc.status": ["good"]}


def test_icrc_that_is_off_or_wrong_is_reported_apart() -> None:
    frame = build_frame(ROUTE, WRITES[0])
    wrong = bytearray(encode_frame(frame, with_icrc=True))
    wrong[-10] ^= 1
    on_the_way = bytearray(
        encode_frame(replace(frame, inner=replace(frame.inner, hop_limit=3)), with_icrc=True)
    )
    rows = fields([encode_frame(frame), bytes(wrong), bytes(on_the_way)], TROUBLE)
    assert [row["mrc.icrc.status"] for row in rows] == [["off"], ["bad"], ["good"]]
    assert [row["_ws.expert.message"] for row in rows] == [[], ["Wrong iCRC"], []]


@pytest.mark.parametrize("is_tunnelled", [True, False])
def test_ends_ev_and_carrier_are_decoded(is_tunnelled: bool) -> None:
    route = ROUTE if is_tunnelled else replace(ROUTE, carrier=None)
    frame = encode_frame(build_frame(route, WRITES[0]), with_icrc=True)
    names = [
        "mrc.ev",
        "mrc.ev.plane",
        "mrc.ev.uplink",
        "mrc.ev.copy",
        "mrc.source_host",
        "mrc.destination_host",
    ]
    usids = ["mrc.usid", "mrc.usid.role", "mrc.usid.plane", "mrc.usid.index", "mrc.carrier"]
    [row] = fields([frame], [*names, *usids, *TROUBLE])
    assert [row[name] for name in names] == [["0x2001abcd"], ["2"], ["1"], ["43981"], ["h1"], ["h6"]]
    assert row["_ws.expert.message"] == []
    assert row["mrc.icrc.status"] == ["good"]
    expected = unpack_carrier(IPv6Address("fcbb:0:4800:8801:4801:c802::")) if is_tunnelled else ()
    assert [number(text) for text in row["mrc.usid"]] == [usid.value for usid in expected]
    assert [number(text) for text in row["mrc.usid.role"]] == [usid.role for usid in expected]
    assert [number(text) for text in row["mrc.usid.plane"]] == [usid.plane for usid in expected]
    assert [number(text) for text in row["mrc.usid.index"]] == [usid.index for usid in expected]
    assert row["mrc.carrier"] == ([" ".join(map(str, expected))] if is_tunnelled else [])


@pytest.mark.parametrize(
    ("forwarding", "parts", "text"),
    [
        ("srv6", {"uplink": "1", "copy": "43981"}, "EV 2:1:43981"),
        ("stev", {"uplink": "1", "lane": "171", "copy": "205"}, "EV 2:1:171:205"),
        ("ecmp", {"hashed": str(0x001ABCD)}, "EV 2:109517"),
    ],
)
def test_parts_of_an_ev_are_those_of_the_fabrics_mode(
    forwarding: str, parts: dict[str, str], text: str
) -> None:
    frame = encode_frame(build_frame(replace(ROUTE, carrier=None), WRITES[0]))
    names = ["plane", "uplink", "lane", "copy", "hashed"]
    fields_of_ev = [f"mrc.ev.{name}" for name in names]
    [row] = fields([frame], [*fields_of_ev, "_ws.col.Info"], forwarding=forwarding)
    found = {name: row[field][0] for name, field in zip(names, fields_of_ev, strict=True) if row[field]}
    assert found == {"plane": "2", **parts}
    assert f"{text} " in row["_ws.col.Info"][0]


def test_source_port_that_is_a_service_elsewhere_is_still_half_an_ev() -> None:
    ports = [*range(1200), 4789, 4791, 6081, 48879]
    frames = [encode_frame(build_frame(replace(ROUTE, ev=0x2001_0000 | port), CONTROL[0])) for port in ports]
    rows = fields(frames, ["mrc.ev.copy", "udp.srcport", "mrc.opcode"])
    assert [row["mrc.ev.copy"] for row in rows] == [row["udp.srcport"] for row in rows]
    assert [row["udp.srcport"] for row in rows] == [[str(port)] for port in ports]
    assert {row["mrc.opcode"][0] for row in rows} == {"0xd1"}


def test_roles_of_usids_are_named() -> None:
    [body] = re.findall(r"^   role = \{(.*?)\}", lua_table("NAMES"), re.MULTILINE)
    found = {int(value): text for value, text in re.findall(r'\[(\d)\] = "(\w+)"', body)}
    assert found == {role.bits: role.label for role in Role if role is not Role.T2}


def test_sack_is_read_as_the_wire_package_reads_it() -> None:
    sacks = [packet for packet in CONTROL if isinstance(packet, Sack)]
    names = ["mrc.acknowledged_psn", "mrc.unreported_psn", "mrc.caused_by_psn", "mrc.caused_by_probe"]
    rows = fields([encode_frame(build_frame(ROUTE, sack)) for sack in sacks], [*names, "mrc.reflected.plane"])
    for sack, row in zip(sacks, rows, strict=True):
        assert [number(text) for text in row["mrc.acknowledged_psn"]] == list(acknowledged_psns(sack.seth))
        assert [number(text) for text in row["mrc.unreported_psn"]] == list(unreported_psns(sack.seth))
        cause = caused_by_psn(sack.seth)
        assert [number(text) for text in row["mrc.caused_by_psn"]] == ([] if cause is None else [cause])
        assert row["mrc.reflected.plane"] == [str(sack.seth.entropy >> 28)]
    assert rows[-1]["mrc.caused_by_probe"] == [str(65536 - 4097)]


@pytest.mark.parametrize("is_last_hop", [True, False])
@pytest.mark.parametrize("kept_bytes", [138, 122])
def test_trimmed_packet_is_known_by_its_class(is_last_hop: bool, kept_bytes: int) -> None:
    whole = encode_frame(build_frame(ROUTE, write(Opcode.WRITE_FIRST, 2048, Tseth(7))))
    frame = trim_frame(whole, is_last_hop=is_last_hop, kept_bytes=kept_bytes)
    names = [
        "mrc.is_trimmed",
        "mrc.dscp",
        "mrc.psn",
        "mrc.tseth.tx_timestamp",
        "mrc.reth.r_key",
        "mrc.untrimmed_bytes",
    ]
    [row] = fields([frame], [*names, "_ws.malformed", "mrc.malformed"])
    assert number(row["mrc.is_trimmed"][0]) == 1
    assert number(row["mrc.dscp"][0]) == (Dscp.TRIMMED_LASTHOP if is_last_hop else Dscp.TRIMMED)
    assert number(row["mrc.psn"][0]) == 0xFEDCBA
    assert number(row["mrc.tseth.tx_timestamp"][0]) == 7
    assert [number(text) for text in row["mrc.reth.r_key"]] == ([0xDEADBEEF] if kept_bytes == 138 else [])
    assert number(row["mrc.untrimmed_bytes"][0]) == 12 + 4 + 4 + 16 + 2048
    assert row["_ws.malformed"] == row["mrc.malformed"] == []


def test_short_capture_is_no_malformed_packet() -> None:
    for kept_bytes in (114, 128, 150):
        rows = fields(FRAMES, ["mrc.opcode", "mrc.malformed", "_ws.malformed"], kept_bytes=kept_bytes)
        for packet, row in zip(PACKETS, rows, strict=True):
            assert [number(text) for text in row["mrc.opcode"]] == [packet.bth.opcode]
            assert row["mrc.malformed"] == row["_ws.malformed"] == []


def altered(packet: Packet, offset: int, value: int, *, cut_bytes: int = 0) -> bytes:
    """The packet's frame with one byte of the packet changed and its end cut off, lengths fitting."""
    octets = bytearray(packet.encode())
    octets[offset] = value
    body = bytes(octets[: len(octets) - cut_bytes])
    sound = build_frame(replace(ROUTE, carrier=None), packet)
    frame = bytearray(encode_frame(sound)[:62] + body + bytes(4))
    frame[18:20] = frame[58:60] = (8 + len(body) + 4).to_bytes(2)
    return bytes(frame)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (altered(WRITES[0], 0, 0xC0), "no such opcode"),
        (altered(WRITES[0], 1, 0x01), "transport version 1"),
        (altered(WRITES[0], 1, 0x20, cut_bytes=3), "pad does not fill up the payload"),
        (altered(WRITES[0], 0, 0xCA, cut_bytes=17), "no room for pad and iCRC"),
        (altered(WRITES[0], 0, 0xCA, cut_bytes=30), "6 bytes where RETH needs 16"),
        (altered(WRITES[0], 0, 0xCA, cut_bytes=47), "5 bytes where BTH needs 12"),
        (altered(CONTROL[5], 0, 0xD1), "32 bytes too many"),
        (altered(CONTROL[0], 0, 0xDC), "8 bytes where SETH needs 28"),
    ],
)
def test_malformed_packet_is_called_so_with_the_reason(frame: bytes, message: str) -> None:
    [row] = fields([frame], ["_ws.expert.message", "_ws.col.Info"])
    assert message in row["_ws.expert.message"]
    assert f"[malformed: {message}]" in row["_ws.col.Info"][0]


def test_no_input_makes_the_dissector_fail() -> None:
    source = random.Random(5)
    frames = []
    for _ in range(600):
        frame = bytearray(source.choice(FRAMES)[: source.choice([160, 200, 4000])])
        for _ in range(source.randint(1, 4)):
            frame[source.randrange(14, len(frame))] = source.randrange(256)
        frames.append(bytes(frame[: source.choice([len(frame), source.randint(15, len(frame))])]))
    text = run_tshark(frames, "-V")
    assert text.count("Multipath Reliable Connection") > 120
    assert "Lua Error" not in text


def test_command_says_where_the_dissector_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["capture", "--dissector"]) == 0
    assert capsys.readouterr().out == f"{DISSECTOR}\n"


def test_info_column_says_what_matters() -> None:
    frames = [
        encode_frame(build_frame(ROUTE, packet))
        for packet in (WRITES[12], WRITES[13], CONTROL[5], CONTROL[8])
    ]
    assert [row["_ws.col.Info"] for row in fields(frames, ["_ws.col.Info"])] == [
        ["h1 > h6  WRITE_FIRST  QP 11259375 PSN 16702650  EV 2:1:43981  [AckReq]  MSN 65534  len 2048"],
        ["h1 > h6  WRITE_LAST  QP 11259375 PSN 16702650  EV 2:1:43981  [Retransmission]  MSN 65534  len 1"],
        [
            "h1 > h6  SACK  QP 1110 PSN 16777213  EV 2:1:43981  [Retransmission]"
            "  cack 16777213 +6, 58 open ALWAYS_SKIP"
        ],
        ["h1 > h6  NACK  QP 1110 PSN 16777215  EV 2:1:43981  PSN_OUT_OF_WINDOW PSN 16777215"],
    ]
