"""QPs as the agent builds them: attributes in range, EV sets in order, carriers as the topology has them."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.abi import EvLayout, EvState, NicConfig, Qp, QpState
from mrc_agents.nic.qp import MrcQueuePair, QpAttributes, build_qp, carrier_template
from mrc_agents.nic.work_queue import QPN_MIN
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.data_plane import tier_sizes
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.path import qp_template
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.usid import BLOCK

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=4))
HOST, PEER = 1, 6


def config_of(clos: Clos, host: int) -> NicConfig:
    spec = clos.spec
    return NicConfig(
        host_index=host,
        plane_count=spec.planes,
        tiers=tier_sizes(clos),
        srv6_block=BLOCK,
    )


def attributes(**changes: object) -> QpAttributes:
    usual = QpAttributes(
        peer_host=PEER,
        evs=build_ev_set(FABRIC, HOST, PEER, 16),
        backup_per_plane=1,
        min_active=4,
        window_packets=64,
        loss_threshold_acks=128,
        pmtu_bytes=2048,
        rto_ns=20_000_000,
        retry_limit=7,
        probe_success_target=3,
        seed=0,
        first_psn=0,
    )
    return replace(usual, **changes)  # type: ignore[arg-type] # values of any type are what is tried here


LIMITS = {
    "peer_host": (0, 4095),
    "backup_per_plane": (0, 3),
    "min_active": (1, 16),
    "window_packets": (1, 1024),
    "loss_threshold_acks": (1, 1 << 20),
    "pmtu_bytes": (256, 2048),
    "rto_ns": (1_000, 60_000_000_000),
    "retry_limit": (0, 1000),
    "probe_success_target": (1, 255),
}


@pytest.mark.parametrize(("name", "limits"), LIMITS.items())
def test_attribute_out_of_range_is_named_with_its_range(name: str, limits: tuple[int, int]) -> None:
    low, high = limits
    config = config_of(FABRIC, HOST)
    for value in (low, high):
        attributes(**{name: value}).check(config)
    for value in (low - 1, high + 1):
        with pytest.raises(UsageError) as caught:
            attributes(**{name: value}).check(config)
        assert caught.value.message == f"{name}: {value}; {low} to {high} is accepted"


def test_highest_peer_is_the_last_host_that_usids_can_name() -> None:
    config = config_of(Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=4, uplinks_per_pair=2)), HOST)
    attributes(peer_host=4 * 512 - 1).check(config)
    with pytest.raises(UsageError, match=r"^peer_host: 2048; 0 to 2047 is accepted$"):
        attributes(peer_host=4 * 512).check(config)


@pytest.mark.parametrize("count", [0, 1, 15, 17, 260])
def test_number_of_evs_must_be_shared_equally_by_the_planes(count: int) -> None:
    evs = tuple(FABRIC.ev(0, 0, copy) for copy in range(count))
    with pytest.raises(UsageError) as caught:
        attributes(evs=evs).check(config_of(FABRIC, HOST))
    assert caught.value.message == f"evs: {count} of them; a multiple of 4, up to 256, is accepted"


def test_evs_must_be_in_the_order_of_their_planes() -> None:
    evs = list(build_ev_set(FABRIC, HOST, PEER, 16))
    evs[3], evs[4] = evs[4], evs[3]
    with pytest.raises(UsageError, match=r"^evs: those of plane 0 do not all name it$"):
        attributes(evs=tuple(evs)).check(config_of(FABRIC, HOST))


@pytest.mark.parametrize("ev", [-1, 1 << 32, 4 << 28])
def test_ev_beyond_32_bits_or_the_planes_is_refused(ev: int) -> None:
    evs = (*build_ev_set(FABRIC, HOST, PEER, 16)[:15], ev)
    with pytest.raises(UsageError, match=r"^evs: those of plane 3 do not all name it$"):
        attributes(evs=evs).check(config_of(FABRIC, HOST))


@given(st.integers(1, 16), st.integers(1, 16), st.data())
def test_qp_starts_with_every_ev_good_and_the_backups_behind(
    planes: int, per_plane: int, data: st.DataObject
) -> None:
    clos = Clos(TopologySpec(planes=planes, t0=2, t1=2, hosts_per_t0=2))
    backup = data.draw(st.integers(0, per_plane - 1))
    seed = data.draw(st.integers(0, 2**32))
    evs = build_ev_set(clos, 0, 2, planes * per_plane)
    chosen = attributes(peer_host=2, evs=evs, backup_per_plane=backup, min_active=1, seed=seed)
    chosen.check(config_of(clos, 0))
    qp = build_qp(MrcQueuePair(QPN_MIN + 3, chosen), config_of(clos, 0))
    assert (qp.state, qp.head.qpn, qp.head.peer_host) == (QpState.INIT, QPN_MIN + 3, 2)
    check_ev_set(qp, evs, planes, per_plane, backup)


def check_ev_set(qp: Qp, evs: tuple[int, ...], planes: int, per_plane: int, backup: int) -> None:
    assert qp.evs.active_total == planes * (per_plane - backup)
    assert qp.evs.active_planes == (1 << planes) - 1
    for plane in range(planes):
        first = plane * per_plane
        order = list(qp.evs.order[first : first + per_plane])
        assert sorted(order) == list(range(first, first + per_plane))
        for position, index in enumerate(order):
            ev = qp.evs.ev[index]
            assert (ev.entropy, ev.plane, ev.position) == (evs[index], plane, position)
            assert ev.state == EvState.GOOD
        counts = qp.evs.planes[plane]
        assert (counts.active_count, counts.backup_count) == (per_plane - backup, backup)
        assert counts.target_active == per_plane - backup


@pytest.mark.parametrize("backup", [0, 8, 16, 24])
def test_active_evs_are_even_over_the_paths_of_a_plane(backup: int) -> None:
    """Else a fabric that is exactly full would have some uplinks asked for more than they carry."""
    fabric = Clos(TopologySpec(planes=4, t0=2, t1=4, hosts_per_t0=4))
    evs = build_ev_set(fabric, HOST, PEER, 128)
    qp = build_qp(
        MrcQueuePair(QPN_MIN, attributes(evs=evs, backup_per_plane=backup)), config_of(fabric, HOST)
    )
    for plane in range(4):
        active = qp.evs.order[plane * 32 : plane * 32 + 32 - backup]
        uplinks = Counter(evs[index] >> EvLayout.UPLINK_SHIFT & EvLayout.UPLINK_MASK for index in active)
        assert set(uplinks.values()) == {(32 - backup) // 4}


def test_seed_decides_the_order_of_evs() -> None:
    config = config_of(FABRIC, HOST)
    evs = build_ev_set(FABRIC, HOST, PEER, 128)
    orders = [
        list(build_qp(MrcQueuePair(QPN_MIN, attributes(seed=seed, evs=evs)), config).evs.order)
        for seed in (1, 1, 2)
    ]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@st.composite
def fabrics(draw: st.DrawFn) -> Clos:
    """Fabrics up to the limits of uSIDs."""
    lanes = draw(st.integers(1, 8))
    t0 = draw(st.integers(1, 1024 // lanes))
    hosts_per_t0 = draw(st.integers(2, 1024))
    t1 = draw(st.integers(1, 8))
    return Clos(TopologySpec(planes=2, t0=t0, t1=t1, hosts_per_t0=hosts_per_t0, uplinks_per_pair=lanes))


@given(fabrics(), st.data())
def test_carrier_template_is_the_topologys(clos: Clos, data: st.DataObject) -> None:
    hosts = clos.numbering.host_count
    source = data.draw(st.integers(0, hosts - 1))
    peer = (source + data.draw(st.integers(1, hosts - 1))) % hosts
    hi, lo, distance = carrier_template(config_of(clos, source), peer)
    template = qp_template(clos, source, peer)
    assert hi << 64 | lo == template.value
    assert distance == clos.distance(source, peer)
