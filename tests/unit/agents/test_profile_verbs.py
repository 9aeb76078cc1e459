"""EV profiles: their life, their operations, and the QPs created with them."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import Event, EventKind, EvReason, EvState
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.verbs import Verbs
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=3, hosts_per_t0=2))
PEER = 3
COUNT = 16


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(FABRIC) as nic:
        yield nic


@pytest.fixture
def verbs(device: VirtualNic, tmp_path: Any) -> Verbs:
    return Verbs(NicSettings("h0"), device)


FORMAT, PROFILE = 1, 3


def ready_format(verbs: Verbs, mode: str = "SRV6") -> int:
    verbs.modify_ev_format(FORMAT, "OFFLINE", mode=mode, fields=[12, 16])
    verbs.modify_ev_format(FORMAT, "ONLINE")
    return FORMAT


def raised(verbs: Verbs, mode: str, count: int, **attributes: Any) -> int:
    verbs.modify_ev_profile(PROFILE, "OFFLINE", mode=mode, count=count, **attributes)
    verbs.modify_ev_profile(PROFILE, "ONLINE")
    return PROFILE


def explicit(verbs: Verbs, evs: list[int]) -> int:
    """A profile of mode EXPLICIT with these EVs, OFFLINE."""
    verbs.modify_ev_profile(
        PROFILE, "OFFLINE", mode="EXPLICIT", count=len(evs), format_id=ready_format(verbs)
    )
    verbs.ev_profile_op(PROFILE, [{"op": "REPLACE_EV", "new_ev": ev} for ev in evs])
    return PROFILE


def array(verbs: Verbs, profile_id: int) -> list[dict[str, Any]]:
    (found,) = verbs.ev_profile_op(profile_id, [{"op": "QUERY_EV_ARRAY"}])
    return cast("list[dict[str, Any]]", found)


EVS = [plane << 28 | uplink << 16 for plane in range(4) for uplink in range(3)]


def test_auto_spreads_over_the_uplinks_of_every_plane(verbs: Verbs, device: VirtualNic) -> None:
    profile = raised(verbs, "AUTO", COUNT)
    qpn = verbs.create_qp(PEER, ev_profile=profile)
    evs = [decode_ev(row["entropy"]) for row in verbs.ev_list(qpn)]
    assert [ev.plane for ev in evs] == [plane for plane in range(4) for _ in range(4)]
    for plane in range(4):
        assert sorted(ev.uplink for ev in evs if ev.plane == plane)[:1] == [0]
        assert {ev.uplink for ev in evs if ev.plane == plane} == {0, 1, 2}
    assert len(set(evs)) == COUNT
    assert device.qps.read(qp_index(qpn)).evs.min_active == COUNT // 4
    assert device.qps.read(qp_index(qpn)).ev_profile == 1 + profile
    again = verbs.modify_qp(verbs.modify_qp(qpn, "RESET"), "INIT")
    assert device.qps.read(qp_index(again)).ev_profile == 1 + profile


def test_generated_keeps_to_its_fields_in_every_plane(verbs: Verbs) -> None:
    fields = [{"width": 12, "mask": 3, "max": 2}, {"width": 16, "mask": 0xFF, "min": 16, "max": 31}]
    made = {"format_id": ready_format(verbs), "fields": fields, "min_active": 6, "seed": 3}
    profile = raised(verbs, "GENERATED", COUNT, **made)
    evs = [decode_ev(row["ev"]) for row in array(verbs, profile)]
    assert [row["port"] for row in array(verbs, profile)] == [port for port in (1, 2, 3, 4) for _ in range(4)]
    assert [ev.plane for ev in evs] == [plane for plane in range(4) for _ in range(4)]
    assert len(set(evs)) == COUNT
    assert all(ev.uplink <= 2 and 16 <= ev.copy <= 31 for ev in evs)
    qpn = verbs.create_qp(PEER, ev_profile=profile)
    (row,) = verbs.list_qps()
    assert row["qpn"] == qpn
    assert verbs.query_ev_profile(profile)["qps"] == 1
    assert verbs.query_ev_profile(profile)["min_active"] == 6


def test_explicit_takes_evs_in_the_order_given(verbs: Verbs) -> None:
    profile = explicit(verbs, EVS)
    verbs.modify_ev_profile(profile, state="ONLINE")
    assert [row["ev"] for row in array(verbs, profile)] == EVS
    assert {row["state"] for row in array(verbs, profile)} == {"GOOD"}


def test_explicit_needs_all_of_them_to_go_online(verbs: Verbs) -> None:
    number = PROFILE
    verbs.modify_ev_profile(number, "OFFLINE", mode="EXPLICIT", count=8, format_id=ready_format(verbs))
    verbs.ev_profile_op(number, [{"op": "REPLACE_EV", "new_ev": 0x10000000, "port": 2}])
    assert array(verbs, number)[2] == {"ev": 0x10000000, "port": 2, "state": "GOOD"}
    assert array(verbs, number)[3] == {"ev": None, "port": 2, "state": "UNKNOWN"}
    with pytest.raises(UsageError, match="evs: 7 of 8 have not been given yet; REPLACE_EV gives one"):
        verbs.modify_ev_profile(number, state="ONLINE")
    assert verbs.query_ev_profile(number)["state"] == "OFFLINE"


def test_an_ev_is_replaced_in_the_profile_and_in_its_qps(verbs: Verbs, device: VirtualNic) -> None:
    profile = explicit(verbs, EVS)
    verbs.modify_ev_profile(profile, state="ONLINE")
    qpn = verbs.create_qp(PEER, ev_profile=profile)
    other = 0x10020005
    verbs.ev_profile_op(profile, [{"op": "REPLACE_EV", "ev": EVS[4], "new_ev": other}])
    assert array(verbs, profile)[4]["ev"] == other
    assert device.qps.read(qp_index(qpn)).evs.ev[4].entropy == other
    verbs.take_event(
        Event(time_ns=1, kind=EventKind.EV_STATE, qp_index=0, a=4, b=EvState.GOOD, c=EvState.ASSUMED_BAD)
    )


def test_all_copies_of_an_ev(verbs: Verbs) -> None:
    evs = [plane << 28 for plane in range(4) for _ in range(2)]
    profile = explicit(verbs, evs)
    verbs.ev_profile_op(profile, [{"op": "REPLACE_EV", "ev": 0x20000000, "new_ev": 0x20000001}])
    assert [row["ev"] for row in array(verbs, profile)][4:6] == [0x20000001, 0x20000000]
    verbs.ev_profile_op(
        profile, [{"op": "REPLACE_EV", "ev": 0x10000000, "new_ev": 0x10000007, "all_copies": True}]
    )
    assert [row["ev"] for row in array(verbs, profile)][2:4] == [0x10000007] * 2


def test_state_of_an_ev_is_set_in_all_qps_and_in_those_to_come(verbs: Verbs, device: VirtualNic) -> None:
    profile = explicit(verbs, EVS)
    verbs.modify_ev_profile(profile, state="ONLINE")
    first = verbs.create_qp(PEER, ev_profile=profile)
    verbs.ev_profile_op(profile, [{"op": "MODIFY_EV_STATE", "ev": EVS[5], "state": "DENIED"}])
    second = verbs.create_qp(PEER, ev_profile=profile)
    for qpn in (first, second):
        assert device.qps.read(qp_index(qpn)).evs.ev[5].state == EvState.DENIED
    assert verbs.ev_profile_op(profile, [{"op": "QUERY_EV_STATE", "ev": EVS[5]}]) == ["DENIED"]
    results = verbs.ev_profile_op(
        profile,
        [
            {"op": "MODIFY_EV_STATE", "ev": EVS[5], "state": "ASSUMED_BAD"},
            {"op": "QUERY_EV_STATE", "ev": EVS[5]},
            {"op": "MODIFY_EV_STATE", "ev": EVS[5], "state": "GOOD"},
            {"op": "QUERY_EV_STATE", "ev": EVS[5]},
        ],
    )
    assert results == [None, "ASSUMED_BAD", None, "GOOD"]


def test_operations_before_one_that_fails_stay_done(verbs: Verbs) -> None:
    profile = explicit(verbs, EVS)
    verbs.modify_ev_profile(profile, state="ONLINE")
    with pytest.raises(UsageError, match=r"ops\[1\]\.ev: 0x30090000 is not in the profile"):
        verbs.ev_profile_op(
            profile,
            [
                {"op": "MODIFY_EV_STATE", "ev": EVS[0], "state": "DENIED"},
                {"op": "QUERY_EV_STATE", "ev": 0x30090000},
                {"op": "MODIFY_EV_STATE", "ev": EVS[1], "state": "DENIED"},
            ],
        )
    assert [row["state"] for row in array(verbs, profile)][:2] == ["DENIED", "GOOD"]


@pytest.mark.parametrize(
    ("operation", "complaint"),
    [
        ({"op": "REPLACE"}, r"ops\[0\]\.op: REPLACE; REPLACE_EV, MODIFY_EV_STATE, QUERY_EV_STATE, QUERY"),
        ({"op": "REPLACE_EV"}, r"ops\[0\]\.new_ev: missing; an integer is needed"),
        ({"op": "REPLACE_EV", "new_ev": "x"}, r"ops\[0\]\.new_ev: 'x'; an integer is accepted"),
        ({"op": "REPLACE_EV", "new_ev": 4 << 28}, r"new_ev: 0x40000000 names plane 4; 0 to 3 is accepted"),
        ({"op": "REPLACE_EV", "new_ev": 1 << 33}, r"new_ev: 8589934592; 32 bits are accepted"),
        ({"op": "REPLACE_EV", "new_ev": 0, "port": 2}, r"port: 2; 0x00000000 is of port 1"),
        ({"op": "REPLACE_EV", "new_ev": 0, "port": 1}, r"port: all 3 EVs of port 1 have been given"),
        ({"op": "REPLACE_EV", "new_ev": 0, "ev": EVS[3]}, r"ev: 0x10000000 is of another port than new_ev"),
        ({"op": "MODIFY_EV_STATE", "ev": 0, "state": "SKIP"}, r"state: SKIP; GOOD, ASSUMED_BAD, DENIED are"),
        ({"op": "QUERY_EV_STATE", "ev": 0, "all": 1}, r"all: not an argument"),
    ],
)
def test_an_operation_that_cannot_be_is_explained(
    verbs: Verbs, operation: dict[str, Any], complaint: str
) -> None:
    profile = explicit(verbs, EVS)
    with pytest.raises(UsageError, match=complaint):
        verbs.ev_profile_op(profile, [operation])


def test_life_of_profiles(verbs: Verbs) -> None:
    profile = explicit(verbs, EVS)
    with pytest.raises(UsageError, match=r"ev_profile: it is OFFLINE; ONLINE is needed"):
        verbs.create_qp(PEER, ev_profile=profile)
    verbs.modify_ev_profile(profile, state="ONLINE")
    with pytest.raises(UsageError, match=f"format_id: {FORMAT} is in use: EV profile {profile} is ONLINE"):
        verbs.modify_ev_format(FORMAT, state="OFFLINE")
    qpn = verbs.create_qp(PEER, ev_profile=profile)
    with pytest.raises(UsageError, match=f"profile_id: {profile} is in use by 1 QPs"):
        verbs.modify_ev_profile(profile, state="OFFLINE")
    verbs.destroy_qp(qpn)
    with pytest.raises(UsageError, match="min_active: what is ONLINE keeps it"):
        verbs.modify_ev_profile(profile, min_active=2)
    verbs.modify_ev_profile(profile, state="OFFLINE", event_mask=["GOOD"])
    verbs.modify_ev_profile(profile, min_active=2)
    assert [each["profile_id"] for each in verbs.list_ev_profiles()] == [profile]
    verbs.modify_ev_profile(profile, state="INIT")
    verbs.modify_ev_format(FORMAT, state="OFFLINE")
    verbs.modify_ev_format(FORMAT, state="INIT")
    assert (verbs.query_ev_profile(profile)["state"], verbs.query_ev_format(FORMAT)["state"]) == (
        "INIT",
        "INIT",
    )
    assert verbs.list_ev_profiles() == []
    with pytest.raises(UsageError, match=f"profile_id: EV profile {profile} is INIT"):
        verbs.create_qp(PEER, ev_profile=profile)
    with pytest.raises(UsageError, match="mode: what is INIT has no attributes"):
        verbs.modify_ev_profile(profile, mode="AUTO")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"mode": "RANDOM", "count": 8}, "mode: RANDOM; AUTO, EXPLICIT, GENERATED are accepted"),
        ({"mode": "AUTO", "count": 10}, "count: 10; 4 to 256 in steps of 4 is accepted"),
        ({"mode": "AUTO", "count": 260}, "count: 260; 4 to 256 in steps of 4 is accepted"),
        ({"mode": "AUTO", "count": 8, "format_id": 1}, "format_id: 1; none is accepted in mode AUTO"),
        ({"mode": "EXPLICIT", "count": 8}, "format_id: None; mode EXPLICIT needs one"),
        ({"mode": "EXPLICIT", "count": 8, "format_id": 17}, "format_id: 17; 0 to 16 is accepted"),
        ({"mode": "AUTO", "count": 8, "min_active": 9}, "min_active: 9; 1 to 8 is accepted"),
        ({"mode": "AUTO", "count": 8, "event_mask": ["SKIP"]}, "event_mask: SKIP; GOOD, ASSUMED_BAD are"),
        ({"mode": "AUTO", "count": 8, "fields": [{"width": 3}]}, "fields: not an attribute of mode AUTO"),
        ({"mode": "AUTO"}, "count: needed to be OFFLINE"),
        ({"mode": "AUTO", "count": 8, "profile_id": 17}, "profile_id: 17; 0 to 16 is accepted"),
        ({"mode": "AUTO", "count": 8, "size": 1}, "no attribute size; known: mode, count, format_id"),
    ],
)
def test_a_profile_that_cannot_be_is_explained(
    verbs: Verbs, arguments: dict[str, Any], complaint: str
) -> None:
    wanted: dict[str, Any] = {"profile_id": 0, "state": "OFFLINE"} | arguments
    with pytest.raises(UsageError, match=complaint):
        verbs.modify_ev_profile(**wanted)


def change(index: int, state: EvState) -> Event:
    return Event(
        time_ns=1, kind=EventKind.EV_STATE, qp_index=0, a=index, c=state, d=EvReason.LOSS, drop_count=2
    )


def test_events_are_reported_as_the_mask_says(verbs: Verbs) -> None:
    profile = raised(verbs, "AUTO", COUNT, event_mask=["GOOD"])
    verbs.create_qp(PEER, ev_profile=profile)
    assert verbs.take_event(change(1, EvState.ASSUMED_BAD)) is None
    reported = verbs.take_event(change(1, EvState.GOOD))
    assert reported is not None
    assert (reported["event"], reported["to"], reported["drop_count"]) == ("ev_state", "GOOD", 2)
    verbs.modify_ev_profile(profile, event_mask=["ASSUMED_BAD"])
    assert verbs.take_event(change(1, EvState.ASSUMED_BAD)) is not None
    assert verbs.take_event(change(1, EvState.GOOD)) is None


def test_denied_paths_hold_for_qps_that_are_and_that_come(verbs: Verbs) -> None:
    evs = list(build_ev_set(FABRIC, 0, PEER, COUNT))
    first = verbs.create_qp(PEER, evs)
    neighbour = verbs.create_qp(1, list(build_ev_set(FABRIC, 0, 1, COUNT)))
    assert verbs.deny_path(2, peer_host=PEER) == COUNT // 4
    assert verbs.deny_path(1, uplink=0) == sum(
        (decode_ev(ev).plane, decode_ev(ev).uplink) == (1, 0)
        for ev in (*evs, *build_ev_set(FABRIC, 0, 1, COUNT))
    )
    second = verbs.create_qp(PEER, evs)
    denied = [row["entropy"] for row in verbs.ev_list(first) if row["state"] == "DENIED"]
    assert denied == [row["entropy"] for row in verbs.ev_list(second) if row["state"] == "DENIED"]
    assert {decode_ev(ev).plane for ev in denied} == {1, 2}
    assert all(row["state"] == "GOOD" for row in verbs.ev_list(neighbour) if row["plane"] == 2)
    assert verbs.denied_paths() == [
        {"plane": 2, "uplink": None, "peer_host": PEER},
        {"plane": 1, "uplink": 0, "peer_host": None},
    ]


def test_what_another_entry_denies_stays_denied(verbs: Verbs) -> None:
    verbs.create_qp(PEER, list(build_ev_set(FABRIC, 0, PEER, COUNT)))
    verbs.deny_path(2)
    verbs.deny_path(2, uplink=1)
    assert verbs.allow_path(2, uplink=1) == 0
    assert verbs.allow_path(2) == COUNT // 4
    with pytest.raises(UsageError, match="plane, uplink, peer_host: no such entry"):
        verbs.allow_path(2)


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ({"plane": 4}, "plane: 4; 0 to 3 is accepted"),
        ({"plane": 0, "uplink": 3}, "uplink: 3; 0 to 2 is accepted"),
        ({"plane": 0, "peer_host": -1}, "peer_host: -1; 0 to 4294967295 is accepted"),
    ],
)
def test_a_path_that_cannot_be(verbs: Verbs, path: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        verbs.deny_path(**path)


def test_a_qp_gets_its_evs_from_one_place(verbs: Verbs) -> None:
    with pytest.raises(UsageError, match=r"evs, ev_profile: one of them is accepted"):
        verbs.create_qp(PEER, evs=[1], ev_profile=raised(verbs, "AUTO", COUNT))
    evs = verbs.query_qp(verbs.create_qp(PEER))["evs"]
    assert evs == [row["ev"] for row in array(verbs, raised_again(verbs, 128))]


def raised_again(verbs: Verbs, count: int) -> int:
    """The profile with another number of EVs."""
    verbs.modify_ev_profile(PROFILE, "OFFLINE")
    verbs.modify_ev_profile(PROFILE, "ONLINE", count=count)
    return PROFILE
