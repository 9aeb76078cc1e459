"""Congestion control as an attribute of QPs: what a NIC chooses, what it derives, what it refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import Qp
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.qp import path_numbers, replacement_path
from mrc_agents.nic.verbs import Verbs
from mrc_agents.nic.work_queue import qp_index
from mrc_agents.protocol.sizes import ROUNDING_MAX_BYTES, write_nominal_bytes
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import Ev
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2))
HOST, PEER = 0, 3
EVS = list(build_ev_set(FABRIC, HOST, PEER, 16))


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(FABRIC, HOST) as nic:
        yield nic


def verbs_of(device: VirtualNic, folder: Path, *, is_shaped: bool) -> Verbs:
    config = NicSettings("h0", rate_bps=400_000_000, base_rtt_ns=750_000) if is_shaped else NicSettings("h0")
    return Verbs(config, device)


def made(device: VirtualNic, qpn: int) -> Qp:
    return device.qps.read(qp_index(qpn))


def test_nscc_where_ports_have_a_rate(device: VirtualNic, tmp_path: Path) -> None:
    qp = made(device, verbs_of(device, tmp_path, is_shaped=True).create_qp(PEER, EVS))
    assert (qp.cc_parameters.is_fixed, qp.cc_parameters.max_cwnd_bytes, qp.cc_parameters.base_rtt_ns) == (
        0,
        56_250,
        750_000,
    )
    assert (qp.cc.cwnd_bytes, qp.cc.max_wnd_bytes, qp.cc.base_rtt_ns) == (56_250, 56_250, 750_000)
    assert qp.comp.loss_threshold_acks == 2 * 27


@pytest.mark.parametrize("is_shaped", [False, True])
@pytest.mark.parametrize("packets", [1, 10, 64])
def test_fixed_window_lets_exactly_so_many_full_packets_go(
    device: VirtualNic, tmp_path: Path, packets: int, is_shaped: bool
) -> None:
    qp = made(
        device, verbs_of(device, tmp_path, is_shaped=is_shaped).create_qp(PEER, EVS, window_packets=packets)
    )
    full_bytes = write_nominal_bytes(2048)
    assert qp.cc_parameters.is_fixed == 1
    # whatever CC_STATE has rounded up, the last packet finds the window open and the next one finds it closed
    assert (packets - 1) * full_bytes < qp.cc.cwnd_bytes <= packets * full_bytes - ROUNDING_MAX_BYTES


def test_profile_sets_parameters_by_standard_name(device: VirtualNic, tmp_path: Path) -> None:
    profile = {"max_cwnd": 20_000, "gamma": 0.5, "disable_qa": True}
    qp = made(device, verbs_of(device, tmp_path, is_shaped=True).create_qp(PEER, EVS, cc_profile=profile))
    assert (qp.cc_parameters.max_cwnd_bytes, qp.cc_parameters.gamma_q16, qp.cc_parameters.disable_qa) == (
        20_000,
        1 << 15,
        1,
    )


@pytest.mark.parametrize(
    ("is_shaped", "attributes", "message"),
    [
        (False, {"cc": "nscc"}, r"cc: nscc needs ports with a rate"),
        (False, {"cc_profile": {}}, r"cc: nscc needs ports with a rate"),
        (True, {"cc": "cubic"}, r"cc: 'cubic'; nscc or fixed is accepted"),
        (True, {"cc": "nscc", "window_packets": 8}, r"window_packets: it is for a fixed window"),
        (True, {"cc": "fixed", "cc_profile": {"gamma": 0.5}}, r"cc_profile: the window is fixed"),
        (True, {"cc_profile": {"gamma": 2}}, r"gamma is 2, expected 0 to 1"),
        (True, {"cc_profile": {"gama": 0.5}}, r"there is no gama"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    device: VirtualNic, tmp_path: Path, is_shaped: bool, attributes: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        verbs_of(device, tmp_path, is_shaped=is_shaped).create_qp(PEER, EVS, **attributes)  # type: ignore[arg-type]


def test_list_reports_the_window_and_what_changed_it(device: VirtualNic, tmp_path: Path) -> None:
    verbs = verbs_of(device, tmp_path, is_shaped=True)
    verbs.create_qp(PEER, EVS)
    (row,) = verbs.list_qps()
    assert (row["cc"], row["cwnd_bytes"], row["cwnd_reason"], row["avg_delay_ns"]) == (
        "nscc",
        56_250,
        "none",
        0,
    )


def test_evs_of_one_uplink_share_a_path() -> None:
    evs = [Ev(0, 0, 0).value, Ev(0, 1, 0).value, Ev(0, 0, 1).value, Ev(1, 0, 0).value]
    assert path_numbers(evs, are_named=True) == [0, 1, 0, 2]
    assert path_numbers(evs, are_named=False) == [0, 1, 2, 3]


def test_ev_that_replaces_another_joins_the_path_it_names(device: VirtualNic, tmp_path: Path) -> None:
    verbs = verbs_of(device, tmp_path, is_shaped=False)
    qpn = verbs.create_qp(PEER, EVS)
    qp, attributes = made(device, qpn), verbs._qps[qp_index(qpn)].attributes
    other = next(index for index, ev in enumerate(EVS) if ev >> 16 != EVS[0] >> 16)
    assert replacement_path(qp, attributes, 0, EVS[other] ^ 0x77) == qp.evs.ev[other].path
    unknown = replacement_path(qp, attributes, 0, 0x0FFF0000)
    assert unknown not in {ev.path for ev in qp.evs.ev[: len(EVS)]}
