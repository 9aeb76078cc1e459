"""CC profiles: their life, and the QPs created with them."""

from collections.abc import Iterator
from typing import Any

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.verbs import Verbs
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2))
EVS = list(build_ev_set(FABRIC, 0, 3, 16))
RATE_BPS, RTT_NS = 400_000_000, 750_000
PROFILE = 2


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(FABRIC) as nic:
        yield nic


def verbs_at(device: VirtualNic, rate_bps: int) -> Verbs:
    config = NicSettings("h0", rate_bps=rate_bps, base_rtt_ns=RTT_NS if rate_bps else 0)
    return Verbs(config, device)


@pytest.fixture
def verbs(device: VirtualNic, tmp_path: Any) -> Verbs:
    return verbs_at(device, RATE_BPS)


def online(verbs: Verbs, **config: Any) -> int:
    verbs.modify_cc_profile(PROFILE, "OFFLINE", algorithm="uet-1.0-nscc", config=config)
    verbs.modify_cc_profile(PROFILE, "ONLINE")
    return PROFILE


def test_qp_gets_the_parameters_of_its_profile(verbs: Verbs, device: VirtualNic) -> None:
    profile = online(verbs, max_cwnd=20_000, gamma=0.5)
    qpn = verbs.create_qp(3, EVS, cc_profile=profile)
    inline = verbs.create_qp(3, EVS, cc_profile={"max_cwnd": 20_000, "gamma": 0.5})
    first, second = (device.qps.read(qp_index(number)) for number in (qpn, inline))
    assert bytes(first.cc) == bytes(second.cc)
    assert first.cc.cwnd_bytes == 20_000
    assert [(qp.ev_profile, qp.cc_profile) for qp in (first, second)] == [(0, 1 + profile), (0, 0)]
    assert [verbs.query_qp(number)["cc_profile"] for number in (qpn, inline)] == [profile, None]
    asked = verbs.query_cc_profile(profile)
    assert (asked["state"], asked["max_cwnd_bytes"], asked["config"]) == (
        "ONLINE",
        20_000,
        {"max_cwnd": 20_000, "gamma": 0.5},
    )


def test_profile_is_used_online_and_changed_offline(verbs: Verbs) -> None:
    verbs.modify_cc_profile(PROFILE, "OFFLINE", algorithm="uet-1.0-nscc")
    with pytest.raises(UsageError, match=f"cc_profile: {PROFILE} is OFFLINE; ONLINE is needed"):
        verbs.create_qp(3, EVS, cc_profile=PROFILE)
    verbs.modify_cc_profile(PROFILE, state="ONLINE")
    qpn = verbs.create_qp(3, EVS, cc_profile=PROFILE)
    with pytest.raises(UsageError, match=f"cc_profile_id: {PROFILE} is in use by 1 QPs"):
        verbs.modify_cc_profile(PROFILE, state="OFFLINE")
    verbs.destroy_qp(qpn)
    with pytest.raises(UsageError, match="config: what is ONLINE keeps it"):
        verbs.modify_cc_profile(PROFILE, config={"gamma": 0.5})
    verbs.modify_cc_profile(PROFILE, state="OFFLINE")
    verbs.modify_cc_profile(PROFILE, config={"gamma": 0.5})
    verbs.modify_cc_profile(PROFILE, state="INIT")
    assert verbs.query_cc_profile(PROFILE)["state"] == "INIT"


@pytest.mark.parametrize(
    ("config", "complaint"),
    [({"gama": 1}, "there is no gama"), ({"gamma": 2}, "gamma"), ({"max_cwnd": "x"}, "max_cwnd")],
)
def test_parameter_that_cannot_be_is_named_and_nothing_changes(
    verbs: Verbs, config: dict[str, Any], complaint: str
) -> None:
    number = online(verbs, gamma=0.5)
    verbs.modify_cc_profile(number, state="OFFLINE")
    with pytest.raises(UsageError, match=complaint):
        verbs.modify_cc_profile(number, state="ONLINE", config=config)
    asked = verbs.query_cc_profile(number)
    assert (asked["state"], asked["config"]) == ("OFFLINE", {"gamma": 0.5})


def test_other_algorithms_and_numbers(verbs: Verbs) -> None:
    with pytest.raises(UsageError, match=r"algorithm: dcqcn; uet-1\.0-nscc, none are accepted"):
        verbs.modify_cc_profile(PROFILE, "OFFLINE", algorithm="dcqcn")
    with pytest.raises(UsageError, match="cc_profile_id: 17; 0 to 16 is accepted"):
        verbs.modify_cc_profile(17, "OFFLINE", algorithm="none")
    verbs.modify_cc_profile(PROFILE, "OFFLINE", algorithm="none")
    assert verbs.query_cc_profile(PROFILE)["max_cwnd_bytes"] is None


def test_ports_without_a_rate_have_no_nscc(device: VirtualNic, tmp_path: Any) -> None:
    verbs = verbs_at(device, 0)
    with pytest.raises(UsageError, match="nscc needs ports with a rate"):
        verbs.modify_cc_profile(PROFILE, "OFFLINE", algorithm="uet-1.0-nscc")
