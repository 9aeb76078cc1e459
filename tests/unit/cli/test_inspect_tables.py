import pytest

from mrc_testbed.cli import inspect_tables
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.path import explain_ev
from mrc_testbed.topology.spec import TierSpec, TopologySpec

PODS = Clos(
    TopologySpec(
        planes=2,
        tiers=[TierSpec(joins=2), TierSpec(joins=2, switches=2, links=2), TierSpec(joins=2, switches=3)],
        port_rate=10**8,
    )
)
LAB = Clos(TopologySpec(port_rate=10**8, link_delay=5000))


def test_summary_says_sizes_and_theory() -> None:
    rows = {row["property"]: row["value"] for row in inspect_tables.summary_rows(LAB)}
    assert rows == {
        "planes": 4,
        "switches": "16 (2 T0 + 2 T1 per plane)",
        "hosts": "8 (4 per T0, one port to each plane)",
        "links": "48 (32 to hosts)",
        "uplinks per T0": "2 (1 to each T1)",
        "downlinks to uplinks of a T0": "4:2",
        "paths between two T0s": "8 (2 per plane)",
        "one T0-T1 link is": "12.5 % of the way out of a T0 row",
        "one host link is": "25 % of a host's capacity",
        "EVs of a QP": "128 (24 active + 8 backup per plane)",
        "NIC memory": "16MiB",
        "path MTU": "2KiB",
        "port rate": "100 Mbit/s",
        "link delay": "5 µs",
        "buffer per port": "137 KiB for data",
        "T0-T1 links": "mark above 6.84 KiB, all above 27.4 KiB; trim above 34.2 KiB",
        "idle RTT in theory": "790 µs",
    }


def test_summary_of_three_tiers_has_the_links_of_pods() -> None:
    rows = {row["property"]: row["value"] for row in inspect_tables.summary_rows(PODS)}
    assert rows["one T0-T1 link is"] == "12.5 % of the way out of a T0 row"
    assert rows["one T1-T2 link is"] == "8.33 % of the way out of a pod"
    assert "links between switches" in rows
    assert "T0-T1 links" not in rows


def test_a_path_is_reported_hop_by_hop() -> None:
    path = explain_ev(LAB, 0x20010000, 0, 5)
    title = inspect_tables.describe_path(path)
    assert title == "h0 to h5 through plane 2: 4800=T0(0) 8801=T1(1) 4801=T0(1) c801=DL(1)"
    assert inspect_tables.path_rows(path) == [
        {
            "node": "h0",
            "action": "encapsulate",
            "arrives_as": None,
            "leaves_as": "fcbb:0:4800:8801:4801:c801::",
            "link": "h0:2~p2-t0-0:0",
            "why": "port to plane 2",
        },
        {
            "node": "p2-t0-0",
            "action": "uN shift",
            "arrives_as": "fcbb:0:4800:8801:4801:c801::",
            "leaves_as": "fcbb:0:8801:4801:c801::",
            "link": "p2-t0-0:5~p2-t1-1:0",
            "why": "T0(0) is own; T1(1) is out of up1",
        },
        {
            "node": "p2-t1-1",
            "action": "uN shift",
            "arrives_as": "fcbb:0:8801:4801:c801::",
            "leaves_as": "fcbb:0:4801:c801::",
            "link": "p2-t0-1:5~p2-t1-1:1",
            "why": "T1(1) is own; T0(1) is out of down1",
        },
        {
            "node": "p2-t0-1",
            "action": "uN shift",
            "arrives_as": "fcbb:0:4801:c801::",
            "leaves_as": "fcbb:0:c801::",
            "link": "h5:2~p2-t0-1:1",
            "why": "T0(1) is own; DL(1) is out of down1",
        },
        {
            "node": "h5",
            "action": "decapsulate",
            "arrives_as": "fcbb:0:c801::",
            "leaves_as": None,
            "link": None,
            "why": "DL(1) is this NIC port's SID",
        },
    ]


def test_nodes_and_links_have_a_row_each() -> None:
    nodes, links = inspect_tables.node_rows(LAB), inspect_tables.link_rows(LAB)
    assert [row["name"] for row in nodes] == [node.name for node in LAB.nodes()]
    assert tuple(nodes[7].values()) == (7, "p1-t1-1", "t1", 1, None, 2, "8401")
    assert nodes[21]["row"] == 1
    assert [row["name"] for row in links] == [link.name for link in LAB.links()]
    assert links[33] == {
        "id": 33,
        "name": "p0-t0-0:5~p0-t1-1:0",
        "plane": 0,
        "lower_node": "p0-t0-0",
        "lower_interface": "up1",
        "upper_node": "p0-t1-1",
        "upper_interface": "down0",
    }


def test_parallel_uplinks_give_a_switch_a_range_of_usids() -> None:
    rows = inspect_tables.node_rows(Clos(TopologySpec(uplinks_per_pair=2)))
    assert [row["usids"] for row in rows[:4]] == ["4000-4001", "4002-4003", "8000-8001", "8002-8003"]


def test_ports_of_a_host_have_inner_addresses() -> None:
    rows = inspect_tables.port_rows(LAB, LAB.node("h3"))
    assert rows[1] == {
        "port": 1,
        "interface": "plane1",
        "id": 26,
        "ifindex": 1026,
        "mac": "02:4d:52:00:00:1a",
        "link_local": "fe80::1b",
        "inner_address": "fd6d:7263:0:1::4",
        "peer": "p1-t0-0:3",
        "rate_bps": 100_000_000,
    }
    assert inspect_tables.port_rows(LAB, LAB.node("p0-t1-0"))[0]["inner_address"] is None


def test_forwarding_of_a_switch_is_decoded() -> None:
    rows = inspect_tables.forwarding_rows(LAB, LAB.node("p1-t1-1"))
    assert [tuple(row.values()) for row in rows] == [
        ("4400", "T0(0)", "forward", "down0", "p1-t0-0"),
        ("4401", "T0(1)", "forward", "down1", "p1-t0-1"),
        ("8401", "T1(1)", "uN shift", None, None),
    ]


def test_evs_are_listed_with_their_paths() -> None:
    [row] = inspect_tables.ev_rows(LAB, 0, 5, [0x30010002])
    assert tuple(row.values()) == ("0x30010002", 3, 1, 2, "p3-t1-1", "fcbb:0:4c00:8c01:4c01:cc01::")
    with pytest.raises(UsageError, match="uplink 9 does not exist"):
        inspect_tables.ev_rows(LAB, 0, 5, [0x30090000])


@pytest.mark.parametrize(
    ("far", "t1", "t2"), [(1, None, None), (2, "p0-t1-1", None), (7, "p0-t1-1", "p0-t2-4")]
)
def test_evs_of_three_tiers_name_the_t2_that_they_cross(far: int, t1: str | None, t2: str | None) -> None:
    [row] = inspect_tables.ev_rows(PODS, 0, far, [0x00070000])
    assert (row["t1"], row["t2"]) == (t1, t2)
