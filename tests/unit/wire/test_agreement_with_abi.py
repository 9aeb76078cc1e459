"""Numbers that the BPF programs declare for themselves are those of the reference."""

from reference.carrier import USID_BITS
from reference.frame import WRITE_HEADER_BYTES, WRITE_OVERHEAD_BYTES
from reference.psn import MPR_UNIT_PSNS
from reference.traffic_class import Dscp

from mrc_testbed.agents import abi


def test_dscp_classes_agree() -> None:
    assert {member.name: member.value for member in abi.Dscp} == {
        member.name: member.value for member in Dscp
    }


def test_header_sizes_agree_and_the_largest_frame_fits() -> None:
    limit = abi.Limit
    assert int(limit.HEADER_BYTES) == WRITE_HEADER_BYTES
    assert WRITE_OVERHEAD_BYTES + limit.PMTU_MAX <= limit.FRAME_BYTES_MAX


def test_psn_ring_is_whole_units_of_the_psn_range() -> None:
    assert abi.Limit.PSN_RING % MPR_UNIT_PSNS == 0


def test_usid_fields_fill_a_usid() -> None:
    usid = abi.Usid
    assert usid.DOWNLINK << usid.ROLE_SHIFT < 1 << USID_BITS
    assert usid.INDEX_MASK + 1 == 1 << usid.PLANE_SHIFT
