"""The topology layer may not import agents; what both must agree on is compared here."""

from agents import wire_abi
from testbed.topology import addressing, ev, forwarding, spec, timing, usid
from testbed.topology.element import PortKind

ICRC_BYTES = 4


def test_limits_agree_with_the_data_plane() -> None:
    limit = wire_abi.Limit
    assert usid.PLANE_COUNT == limit.PLANE_MAX
    assert spec.EVS_MAX == limit.EV_MAX
    assert spec.WINDOW_PACKETS_MAX == limit.PSN_RING
    assert spec.MEMORY_SEGMENT_BYTES == limit.MEMORY_SEGMENT
    assert max(spec.PATH_MTUS) == limit.PMTU_MAX
    assert timing.DATA_OVERHEAD_BYTES == limit.HEADER_BYTES + ICRC_BYTES
    assert addressing.IFINDEX_BASE == limit.IFINDEX_BASE
    assert forwarding.FIB_STRIDE == limit.FIB_STRIDE


def test_usid_layout_agrees_with_the_data_plane() -> None:
    layout = wire_abi.Usid
    assert usid.ROLE_SHIFT == layout.ROLE_SHIFT
    assert usid.PLANE_SHIFT == layout.PLANE_SHIFT
    assert usid.INDEX_COUNT - 1 == layout.INDEX_MASK
    assert {role.name: role.value for role in usid.Role} == {
        name: layout[name].value for name in ("T0", "T1", "DOWNLINK")
    }


def test_forwarding_values_agree_with_the_data_plane() -> None:
    assert forwarding.FIB_NONE == wire_abi.Fib.NONE
    assert forwarding.FIB_LOCAL == wire_abi.Fib.LOCAL


def test_ev_layout_agrees_with_the_data_plane() -> None:
    layout = wire_abi.EvLayout
    assert ev.PLANE_SHIFT == layout.PLANE_SHIFT
    assert ev.UPLINK_SHIFT == layout.UPLINK_SHIFT
    assert ev.UPLINK_MASK == layout.UPLINK_MASK


def test_port_kinds_agree_with_the_data_plane() -> None:
    assert {kind.name: kind.value for kind in PortKind} == {
        kind.name: kind.value for kind in wire_abi.PortKind
    }
