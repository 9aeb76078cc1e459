"""ev deny, allow and probe on a live lab."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from port_faults import write_port_fault
from shared_lab import SPEC
from typed_command import Command

from mrc_agents.abi import EvState
from mrc_agents.nic.client import AgentClient
from mrc_agents.nic.work_queue import QPN_MIN
from mrc_testbed.fabric.live import Lab
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.topology.ev_set import build_ev_set

PATHS = SPEC.planes * SPEC.t1


@pytest.fixture
def qpn(live: Lab) -> Iterator[int]:
    """A QP from h0 to h2, connected to nobody."""
    with AgentClient(live.paths.agent_socket("h0")) as client:
        number = client.create_qp(2, list(build_ev_set(live.clos, 0, 2)))
        client.connect_qp(number, QPN_MIN, 0)
        yield number


def denied(live: Lab, qpn: int) -> set[tuple[int, int]]:
    """Plane and uplink of the EVs that are DENIED."""
    rows = live.agent("h0").ev_list(qpn)
    return {(row["plane"], row["entropy"] >> 16 & 0xFFF) for row in rows if row["state"] == "DENIED"}


def test_every_path_is_probed_and_answers(command: Command, live: Lab) -> None:
    found = command.json("ev", "probe", "h0", "h2", "--wait", "1m", "--count", "2")
    assert [(ev["plane"], ev["uplink"]) for ev in found["evs"]] == [
        (plane, uplink) for plane in range(SPEC.planes) for uplink in range(SPEC.t1)
    ]
    for ev in found["evs"]:
        assert (ev["sent"], ev["answered"]) == (2, 2)
        assert 0 < ev["rtt_min_ns"] <= ev["rtt_avg_ns"] <= ev["rtt_max_ns"]


def test_hosts_of_one_t0_have_one_path_in_each_plane(command: Command, live: Lab) -> None:
    found = command.json("ev", "probe", "h0", "h1", "--wait", "1m", "--count", "1")
    assert [(ev["plane"], ev["t1"], ev["answered"]) for ev in found["evs"]] == [
        (plane, None, 1) for plane in range(SPEC.planes)
    ]


def test_a_path_that_is_cut_does_not_answer(command: Command, live: Lab) -> None:
    port = live.clos.link("p0-t0-0:2~p0-t1-0:0").lower.id
    write_port_fault(live, port, is_down=True)
    try:
        lost = command.json("ev", "probe", "h0", "h2", "0:0", "--wait", "300ms", "--count", "1")["evs"]
        found = command.json("ev", "probe", "h0", "h2", "0:1", "--wait", "1m", "--count", "1")["evs"]
        text = command("ev", "probe", "h0", "h2", "--wait", "300ms", "--count", "1")
    finally:
        write_port_fault(live, port)
    assert [(ev["ev"], ev["answered"], ev["rtt_avg_ns"] is None) for ev in lost + found] == [
        ("0x00000000", 0, True),
        ("0x00010000", 1, False),
    ]
    assert len(text.splitlines()) == PATHS + 1


def test_probes_need_no_qp_and_leave_none(command: Command, live: Lab) -> None:
    command("ev", "probe", "h0", "h2", "0x10010005")
    assert live.agent("h0").list_qps() == []


def test_a_path_is_denied_and_allowed(command: Command, live: Lab, qpn: int) -> None:
    found = command.json("ev", "deny", "h0", "h2", "1:0")
    per_path = live.spec.evs // PATHS
    assert found["evs"] == [{"ev": "1:0", "changed": per_path}]
    assert denied(live, qpn) == {(1, 0)}
    assert live.agent("h0").call("denied_paths") == [{"plane": 1, "uplink": 0, "peer_host": 2}]
    with AgentClient(live.paths.agent_socket("h0")) as client:
        later = client.create_qp(2, list(build_ev_set(live.clos, 0, 2)))
        assert denied(live, later) == {(1, 0)}
    assert "1:0: allowed; that changed" in command("ev", "allow", "h0", "h2", "1:0")
    assert denied(live, qpn) == set()


def test_a_plane_is_denied_towards_all(command: Command, live: Lab, qpn: int) -> None:
    command("ev", "deny", "h0", "all", "0")
    assert denied(live, qpn) == {(0, 0), (0, 1)}
    states = command.json("ev", "list", "h0", "h2", "--plane", "0")["evs"]
    assert {(ev["state"], ev["reason"]) for ev in states} == {("DENIED", "admin")}
    command("ev", "allow", "h0", "all", "0")
    assert denied(live, qpn) == set()


def test_a_qp_is_listed_with_its_profile_and_what_that_denies(command: Command, live: Lab) -> None:
    with AgentClient(live.paths.agent_socket("h0")) as client:
        profile = 3
        client.modify_ev_profile(profile, "OFFLINE", mode="AUTO", count=2 * PATHS)
        client.modify_ev_profile(profile, "ONLINE")
        qpn = client.create_qp(2, ev_profile=profile)
        client.connect_qp(qpn, QPN_MIN, 0)
        ev = client.ev_list(qpn)[0]["entropy"]
        client.ev_profile_op(profile, [{"op": "MODIFY_EV_STATE", "ev": ev, "state": "DENIED"}])
        found = command.json("ev", "list", "h0", "h2")
        shown = command("ev", "list", "h0", "h2")
        with closing(open_reader(live.name)) as reader:
            assert reader.nics["h0"].qps().profiles == {(1 + profile, 0)}
            assert reader.nics["h0"].ev_states()[ev >> 28, EvState.DENIED] == 1
        client.destroy_qp(qpn)
        client.modify_ev_profile(profile, "OFFLINE")
        client.modify_ev_profile(profile, "INIT")
    assert [(qp["ev_profile"], qp["cc_profile"]) for qp in found["windows"]] == [(profile, None)]
    assert [row["ev"] for row in found["evs"] if row["state"] == "DENIED"] == [f"{ev:#010x}"]
    assert f"QP {qpn}  profile {profile}, fixed window of" in shown
    assert "DENIED" in shown


def test_a_single_ev_is_denied_in_the_qps_that_are_up(command: Command, live: Lab, qpn: int) -> None:
    assert command.json("ev", "deny", "h0", "h2", "0x10000000")["evs"][0]["changed"] == 1
    explained = command.json("ev", "explain", "h0", "h2", "0x10000000")
    assert [(qp["qpn"], qp["state"], qp["reason"]) for qp in explained["qps"]] == [(qpn, "DENIED", "admin")]
    assert live.agent("h0").call("denied_paths") == []
    assert command.json("ev", "allow", "h0", "h2", "0x10000000")["evs"][0]["changed"] == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("deny", "h0", "h2", "5"), "'5': plane 5; 0 to 1 are there"),
        (("deny", "h0", "h2", "1:9"), "'1:9': uplink 9; a T0 has 0 to 1"),
        (("deny", "h0", "h2", "east"), "'east' is no EV"),
        (("allow", "h0", "h2", "1:1"), "'1:1' is not denied towards h2"),
        (("deny", "p0-t0-0", "h2", "1"), "p0-t0-0 is a switch"),
        (("probe", "h0", "h0"), "h0"),
        (("probe", "h0", "h2", "7:0"), "7"),
    ],
)
def test_what_cannot_be_is_explained(
    command: Command, live: Lab, arguments: tuple[str, ...], complaint: str
) -> None:
    command("ev", *arguments, status=2)
    assert complaint in command.stderr
