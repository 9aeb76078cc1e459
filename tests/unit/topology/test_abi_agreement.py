"""The topology layer may not import agents; what both must agree on is compared here."""

from agents import wire_abi
from testbed.topology import addressing, ev, forwarding, spec, timing, usid
from testbed.topology.element import PortKind

ICRC_BYTES = 4


def test_limits_agree_with_the_data_plane() -> None:
    limit = wire_abi.Limit
    assert usid.PLANE_COUNT == limit.PLANE_MAX.value
    assert spec.EVS_MAX == limit.EV_MAX.value
    assert spec.WINDOW_PACKETS_MAX == limit.PSN_RING.value
    assert spec.MEMORY_SEGMENT_BYTES == limit.MEMORY_SEGMENT.value
    assert max(spec.PATH_MTUS) == limit.PMTU_MAX.value
    assert timing.DATA_OVERHEAD_BYTES == limit.HEADER_BYTES.value + ICRC_BYTES
    assert addressing.IFINDEX_BASE == limit.IFINDEX_BASE.value
    assert forwarding.FIB_STRIDE == limit.FIB_STRIDE.value


def test_usid_layout_agrees_with_the_data_plane() -> None:
    layout = wire_abi.Usid
    assert usid.ROLE_SHIFT == layout.ROLE_SHIFT.value
    assert usid.PLANE_SHIFT == layout.PLANE_SHIFT.value
    assert usid.INDEX_COUNT - 1 == layout.INDEX_MASK.value
    assert {role.name: role.value for role in usid.Role} == {
        name: layout[name].value for name in ("T0", "T1", "DOWNLINK")
    }


def test_forwarding_values_agree_with_the_data_plane() -> None:
    assert forwarding.FIB_NONE == wire_abi.Fib.NONE.value
    assert forwarding.FIB_LOCAL == wire_abi.Fib.LOCAL.value


def test_ev_layout_agrees_with_the_data_plane() -> None:
    layout = wire_abi.EvLayout
    assert ev.PLANE_SHIFT == layout.PLANE_SHIFT.value
    assert ev.UPLINK_SHIFT == layout.UPLINK_SHIFT.value
    assert ev.UPLINK_MASK == layout.UPLINK_MASK.value


def test_port_kinds_agree_with_the_data_plane() -> None:
    assert {kind.name: kind.value for kind in PortKind} == {
        kind.name: kind.value for kind in wire_abi.PortKind
    }
