"""docs/reference/protocol.md: what it cites exists, and its examples are what the code computes."""

import re
from ipaddress import IPv6Address
from pathlib import Path

from golden_headers import GOLDEN
from reference.frame import decode_frame, encode_frame
from reference.opcode import Opcode
from reference.reliability_header import NackReason
from reference.traffic_class import Dscp

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.path import path_carrier
from mrc_testbed.topology.spec import TopologySpec

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/reference/protocol.md").read_text()
HEADINGS = set(re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE))


def section(heading: str) -> str:
    return TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def citations() -> list[tuple[str, str]]:
    """(file, heading) of every place in the sources that names a section of the document."""
    found = []
    for folder in ("agents", "testbed"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in {".py", ".h", ".c"}:
                continue
            text = re.sub(r"\s*\n[ \t]*(?:\*|//)?[ \t]*", " ", path.read_text())
            for listed in re.findall(r'docs/reference/protocol\.md,((?:,?(?: and)? "[^"]+")+)', text):
                found += [(str(path.relative_to(ROOT)), name) for name in re.findall(r'"([^"]+)"', listed)]
    return found


def test_every_cited_section_exists() -> None:
    cited = citations()
    assert len(cited) > 20
    assert [citation for citation in cited if citation[1] not in HEADINGS] == []


def test_sections_refer_to_sections_that_exist() -> None:
    referred = re.findall(r'[Ss]ee "([^"]+)"', TEXT)
    assert len(referred) > 5
    assert set(referred) <= HEADINGS


def test_reference_bytes_are_what_the_headers_encode() -> None:
    pairs = re.findall(
        r"^    ([A-Z_]+) {2,}\S.*\n {14}([0-9a-f ]+)$", section("Reference bytes"), re.MULTILINE
    )
    golden = {octets: header for _, header, octets in GOLDEN}
    assert len(pairs) == 11
    for name, octets in pairs:
        assert type(golden[octets]).__name__.upper() == name.replace("_", "")
        assert golden[octets].encode().hex(" ") == octets


def test_reference_frame_has_the_icrc_that_is_printed() -> None:
    octets = bytes.fromhex(section("Reference bytes").split("EV 0x1002ABCD.\n")[1])
    frame = decode_frame(octets, checks_icrc=True)
    assert frame.ev == 0x1002ABCD
    assert encode_frame(frame, with_icrc=True) == octets


def test_tables_list_every_opcode_reason_and_class() -> None:
    opcodes = re.findall(r"^\| 0x([0-9A-F]{2}) \|", section("Opcodes"), re.MULTILINE)
    assert [int(code, 16) for code in opcodes] == [int(opcode) for opcode in Opcode]
    reasons = re.findall(r"^\| 0x([0-9A-F]{2}) \|", section("NETH"), re.MULTILINE)
    assert [int(code, 16) for code in reasons] == [int(reason) for reason in NackReason]
    classes = re.findall(r"^\| ([A-Z_]+) \| (\d+) \|", section("Traffic classes"), re.MULTILINE)
    assert {name: int(dscp) for name, dscp in classes} == {dscp.name: int(dscp) for dscp in Dscp}


def test_worked_carrier_is_what_topology_and_the_shift_compute() -> None:
    rows = re.findall(
        r"^\| (?:h\d|p\d-t\d-\d) \| (\S*) ?\| .* \| (\S*) ?\|[^|]*\|$", section("Carriers"), re.MULTILINE
    )
    assert len(rows) == 5
    departures = [IPv6Address(departure) for _, departure in rows if departure]
    arrivals = [IPv6Address(arrival) for arrival, _ in rows if arrival]
    assert departures[0] == path_carrier(Clos(TopologySpec()), 1, 6, plane=2, uplink=1)
    value, walked = int(departures[0]), [departures[0]]
    while value % 2**80:  # what follows the active uSID
        value = value >> 96 << 96 | (value << 16) % 2**96
        walked.append(IPv6Address(value))
    assert arrivals == departures == walked
