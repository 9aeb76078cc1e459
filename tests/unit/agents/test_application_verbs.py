"""QPs that an agent makes for applications: of which transport, by which EVs."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import ApplicationTransport, QpState
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.verbs import Verbs
from mrc_agents.nic.work_queue import QpLimits, qp_index
from mrc_agents.protocol.retry_times import NO_END_US, mrc_give_up_us
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.agent_process import nic_settings
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.reliable_connection import choose_rc_congestion

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2))
HOST, PEER, PEER_QPN, PSN = 0, 3, 3000, 77


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(FABRIC, HOST) as nic:
        yield nic


def verbs_of(device: VirtualNic, settings: NicSettings) -> Verbs:
    return Verbs(settings, device)


@pytest.fixture
def verbs(device: VirtualNic) -> Verbs:
    return verbs_of(device, nic_settings(FABRIC, ["h0"])["h0"])


def create(verbs: Verbs, transport: int) -> int:
    verb, arguments = verbs.creation(transport)
    qpn: int = verbs.table[verb](**arguments)
    return qpn


def test_rocev2_is_what_bench_has_on_one_path_of_any_plane(verbs: Verbs) -> None:
    arguments: list[dict[str, Any]] = []
    for _ in range(100):
        verb, given = verbs.creation(ApplicationTransport.ROCEV2)
        assert verb == "create_rc_qp"
        arguments.append(given)
    congestion = choose_rc_congestion(FABRIC, "rocev2")
    assert arguments[0]["cc"] == asdict(congestion.parameters)
    assert arguments[0]["window_packets"] == congestion.window_packets
    assert {len(each["evs"]) for each in arguments} == {1}
    assert {each["evs"][0] >> 28 for each in arguments} == {0, 1, 2, 3}


def test_the_peer_of_a_reliable_connection_becomes_known_on_the_way(verbs: Verbs, device: VirtualNic) -> None:
    qpn = create(verbs, ApplicationTransport.ROCEV2)
    verbs.join_domain(qpn, 5)
    verbs.limit_qp(qpn, QpLimits(give_up_us=9, is_writable=False))
    verbs.modify_qp(qpn, "RTR", peer_host=PEER, peer_qpn=PEER_QPN, peer_first_psn=PSN)
    value = device.rc_qps.read(qp_index(qpn))
    assert (value.state, value.head.peer_host, value.head.peer_qpn) == (QpState.RTR, PEER, PEER_QPN)
    assert (value.resp.expected_psn, value.head.pd) == (PSN, 5)
    assert (value.head.give_up_ns, value.head.is_writable) == (9000, 0)


@pytest.mark.parametrize(
    ("state", "attributes", "reason"),
    [
        ("RTS", {}, "is in state INIT"),
        ("RESET", {}, "state: RESET; RTR, RTS, ERROR are accepted"),
        ("RTR", {"peer_qpn": PEER_QPN}, "peer_first_psn"),
        ("RTR", {"peer_qpn": PEER_QPN, "peer_first_psn": PSN, "mpr_dest": 1}, "mpr_dest: not an attribute"),
        ("RTR", {"peer_qpn": PEER_QPN, "peer_first_psn": PSN, "peer_host": 1 << 20}, "peer_host"),
    ],
)
def test_change_that_cannot_be(verbs: Verbs, state: str, attributes: dict[str, int], reason: str) -> None:
    qpn = create(verbs, ApplicationTransport.ROCEV2)
    with pytest.raises(UsageError, match=reason):
        verbs.modify_qp(qpn, state, **attributes)
    assert verbs.query_qp(qpn)["state"] == "INIT"


def test_transport_that_the_nic_does_not_have(verbs: Verbs, device: VirtualNic) -> None:
    assert verbs.creation(ApplicationTransport.MRC)[0] == "create_qp"
    with pytest.raises(UsageError, match="transport: 2; there is none of that number"):
        verbs.creation(2)
    with pytest.raises(UsageError, match="rocev2 takes packets in order only"):
        verbs_of(device, NicSettings("h0")).creation(ApplicationTransport.ROCEV2)


def test_agents_of_an_adaptive_fabric_have_no_rocev2() -> None:
    adaptive = Clos(
        TopologySpec(planes=1, t0=2, t1=2, forwarding="ecmp", uplink_choice="adaptive", port_rate=10**9)
    )
    assert nic_settings(adaptive, ["h0"])["h0"].rocev2 is None


@pytest.mark.parametrize(
    ("timeout", "linear", "exponential", "waits_us"),
    [
        (10, 0, 0, 1_048),
        (10, 3, 0, 4_194),
        (10, 1, 2, 8_388),
        (24, 7, 24, NO_END_US - 1),
        (0, 0, 25, NO_END_US),
    ],
)
def test_time_that_retries_of_libmrc_take(timeout: int, linear: int, exponential: int, waits_us: int) -> None:
    """1.024 us x 2^timeout, linear_cnt times more, then twice as long each time."""
    assert mrc_give_up_us(timeout, linear, exponential) == waits_us


def test_profiles_are_those_of_a_qp_in_init(verbs: Verbs, device: VirtualNic) -> None:
    verbs.modify_ev_profile(3, "OFFLINE", mode="AUTO", count=8)
    verbs.modify_ev_profile(3, "ONLINE")
    verbs.modify_cc_profile(0, "OFFLINE", algorithm="none")
    verbs.modify_cc_profile(0, "ONLINE")
    qpn = create(verbs, ApplicationTransport.MRC)
    verbs.profile_qp(qpn, 3, 0)
    value = device.qps.read(qp_index(qpn))
    assert (value.state, value.ev_profile, value.cc_profile) == (QpState.INIT, 1 + 3, 1 + 0)
    assert (value.evs.per_plane, value.cc_parameters.is_fixed) == (2, 1)
    verbs.profile_qp(qpn, None, None)
    value = device.qps.read(qp_index(qpn))
    assert (value.ev_profile, value.cc_profile, value.evs.per_plane) == (0, 0, 32)
    verbs.modify_qp(qpn, "RTR", peer_host=PEER, peer_qpn=PEER_QPN, peer_first_psn=PSN)
    with pytest.raises(UsageError, match="is in state RTR; profiles are set in INIT"):
        verbs.profile_qp(qpn, 3, None)
