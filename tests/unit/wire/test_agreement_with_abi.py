"""Numbers that the BPF programs declare for themselves are those of the reference."""

from agents import wire_abi
from testbed.wire.carrier import USID_BITS
from testbed.wire.frame import WRITE_HEADER_BYTES, WRITE_OVERHEAD_BYTES
from testbed.wire.psn import MPR_UNIT_PSNS
from testbed.wire.traffic_class import Dscp


def test_dscp_classes_agree() -> None:
    assert {member.name: member.value for member in wire_abi.Dscp} == {
        member.name: member.value for member in Dscp
    }


def test_header_sizes_agree_and_the_largest_frame_fits() -> None:
    limit = wire_abi.Limit
    assert int(limit.HEADER_BYTES) == WRITE_HEADER_BYTES
    assert WRITE_OVERHEAD_BYTES + limit.PMTU_MAX <= limit.FRAME_BYTES_MAX


def test_psn_ring_is_whole_units_of_the_psn_range() -> None:
    assert wire_abi.Limit.PSN_RING % MPR_UNIT_PSNS == 0


def test_usid_fields_fill_a_usid() -> None:
    usid = wire_abi.Usid
    assert usid.DOWNLINK << usid.ROLE_SHIFT < 1 << USID_BITS
    assert usid.INDEX_MASK + 1 == 1 << usid.PLANE_SHIFT
