"""Numbers that the topology layer states agree with the data plane's headers."""

from mrc_agents import abi
from mrc_testbed.topology import addressing, ev, forwarding, spec, timing, usid

ICRC_BYTES = 4


def test_limits_agree_with_the_data_plane() -> None:
    limit = abi.Limit
    assert limit.PLANE_MAX.value == usid.PLANE_COUNT
    assert limit.EV_MAX.value == spec.EVS_MAX
    assert limit.PSN_RING.value == spec.WINDOW_PACKETS_MAX
    assert limit.MEMORY_SEGMENT.value == spec.MEMORY_SEGMENT_BYTES
    *live, longest = spec.PATH_MTUS
    assert live[-1] == limit.PMTU_MAX.value
    assert longest == abi.VirtualLimit.PMTU_MAX.value
    assert limit.HEADER_BYTES.value + ICRC_BYTES == timing.DATA_OVERHEAD_BYTES
    assert limit.IFINDEX_BASE.value == addressing.IFINDEX_BASE
    assert limit.FIB_STRIDE.value == forwarding.FIB_STRIDE


def test_usid_layout_agrees_with_the_data_plane() -> None:
    layout = abi.UsidLayout
    assert layout.ROLE_SHIFT.value == usid.ROLE_SHIFT
    assert layout.PLANE_SHIFT.value == usid.PLANE_SHIFT
    assert layout.INDEX_MASK.value == usid.INDEX_COUNT - 1
    assert {role.name: role.bits for role in usid.Role} == {
        name: layout[name].value for name in ("T0", "T1", "DOWNLINK", "T2")
    }


def test_forwarding_values_agree_with_the_data_plane() -> None:
    assert abi.Fib.NONE.value == forwarding.FIB_NONE
    assert abi.Fib.LOCAL.value == forwarding.FIB_LOCAL


def test_ev_layout_agrees_with_the_data_plane() -> None:
    layout = abi.EvLayout
    assert layout.PLANE_SHIFT.value == ev.PLANE_SHIFT
    assert layout.UPLINK_SHIFT.value == ev.UPLINK_SHIFT
    assert layout.UPLINK_MASK.value == ev.UPLINK_MASK
