"""The meaning of a fault in a fabric: links, nodes, ports, traffic."""

import sys
from ipaddress import IPv6Address
from typing import Any, Literal

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.faults.effects import CarrierDown, RateShare, RoutesGone
from mrc_testbed.faults.interactive import parse_fault, plan_fault
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.spec import KINDS, kinds_of, meaning, own_fields, target_fault
from mrc_testbed.faults.spec_base import LinkFault, kind_of
from mrc_testbed.faults.traffic import frame_of
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.path import path_carrier
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import full_frame_bytes

SHAPE: dict[str, Any] = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 2}
UNSHAPED = Clos(TopologySpec(**SHAPE))
SHAPED = Clos(TopologySpec(**SHAPE, port_rate=100_000_000))
CREDITS = Clos(TopologySpec(**SHAPE, port_rate=100_000_000, flow_control="credits"))


def bound(kind, where, clos=SHAPED, seed=1, **fields):
    fields.setdefault("until", "cleared")
    return plan_fault(parse_fault(kind, where, fields, ()), clos, seed)


def names(ports, clos=SHAPED):
    return {clos.port(port_id).name for port_id in ports}


def ports_without_carrier(fault):
    return {effect.port_id for effect in fault.effects if isinstance(effect, CarrierDown)}


def test_a_blackhole_is_what_leaves_the_switch():
    fault = bound("blackhole", "p0-t0-1")
    assert names(fault.ports) == {f"p0-t0-1:{index}" for index in range(4)}
    assert {rule.rule for rule in fault.rules} == {FrameRule(action="lose")}
    assert ports_without_carrier(fault) == set()


def test_a_switch_that_is_off_is_dark_both_ways_and_takes_the_carriers_of_nics_only():
    fault = bound("switch-down", "p0-t0-1")
    own = {f"p0-t0-1:{index}" for index in range(4)}
    far = {SHAPED.peer(SHAPED.port(name)).name for name in own}
    assert names(fault.ports) == own | far
    assert names(ports_without_carrier(fault)) == {"p0-t0-1:0", "p0-t0-1:1"}
    assert RoutesGone("p0-t0-1") not in fault.effects
    assert RoutesGone("p0-t0-1") in bound("switch-reboot", "p0-t0-1").effects


def test_two_switches_with_a_link_in_common_take_it_once():
    fault = bound("switch-down", "p0-t0-1,p0-t1-0")
    assert len(fault.rules) == len(fault.ports)


def test_a_plane_that_is_down_is_all_its_links():
    fault = bound("plane-down", "1")
    assert names(fault.ports) == {port.name for port in SHAPED.ports() if port.plane == 1}
    assert names(ports_without_carrier(fault)) == {
        f"p1-t0-{t0}:{index}" for t0 in range(2) for index in range(2)
    }
    assert bound("plane-down", "all").links == tuple(link.name for link in SHAPED.links())


def test_a_slow_link_has_no_rule_but_a_rate_each_way():
    fault = bound("slow-link", "h0:0", to="25%")
    assert set(fault.effects) == {RateShare(port.id, 0.25) for port in SHAPED.link("h0:0").ports}
    assert fault.detail == "to 25%"


@pytest.mark.parametrize(
    ("ev", "copies", "value", "mask"),
    [("0x10020003", "one", 0x1002_0003, 0xFFFF_FFFF), ("0x10020003", "all", 0x1002_0003, 0xFFFF_0000)],
)
def test_one_ev_or_all_of_its_path(ev, copies, value, mask):
    [effect, _] = bound("ev-loss", "h0:0", ev=ev, copies=copies).rules
    assert (effect.rule.ev, effect.rule.ev_mask) == (value, mask)


def test_bursts_have_the_share_that_was_asked_for():
    [effect, _] = bound("burst-loss", "h0:0", ratio="5%", burst=10.0, within="50%").rules
    assert effect.rule.mean_ratio == pytest.approx(0.05)
    assert effect.rule.burst_ends == pytest.approx(0.1)


def test_an_optic_fails_as_a_whole():
    links = bound("link-down", "p0-t0-0:*", optic=2, pick="random", count=1).links
    assert {SHAPED.link(name).id for name in links} in (
        {SHAPED.port(f"p0-t0-0:{index}").link_id for index in pair} for pair in ((0, 1), (2, 3))
    )
    assert bound("link-down", "h1:0", optic=2).links == ("h0:0~p0-t0-0:0", "h1:0~p0-t0-0:1")


@pytest.mark.parametrize(
    ("kind", "where", "fields", "clos", "message"),
    [
        ("delay", "h0:0", {"by": "1ms"}, UNSHAPED, "an unshaped fabric has none"),
        ("congestion", "h0:0", {"rate": "1Mbit"}, UNSHAPED, "an unshaped fabric has none"),
        ("duplicate", "h0:0", {"ratio": "1%"}, CREDITS, "room for every packet once"),
        ("blackhole", "h0", {}, SHAPED, "acts on switches, such as p0-t1-0, but h0 is a host"),
        ("host-pause", "p0-t0-0", {}, SHAPED, "acts on hosts, such as h3, but p0-t0-0 is a switch"),
        ("nic-port-down", "p0-t0-0:2", {}, SHAPED, "joins two switches"),
        ("plane-down", "2", {}, SHAPED, "plane 2 does not exist"),
        ("plane-down", "x", {}, SHAPED, "selector"),
        ("link-down", "h0:0", {"optic": 1}, SHAPED, "must be at least 2"),
        ("congestion", "h0:*", {"rate": "1Gbit"}, SHAPED, "packets/s, more than a machine can make"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(kind, where, fields, clos, message):
    with pytest.raises(UsageError, match=message):
        bound(kind, where, clos, **fields)


@pytest.mark.parametrize("forwarding", ["srv6", "stev", "ecmp"])
@pytest.mark.parametrize("port_name", ["h0:1", "p1-t0-0:0", "p1-t0-0:2", "p1-t1-0:0"])
def test_background_traffic_ends_at_the_far_end_of_its_link(forwarding, port_name):
    clos = Clos(TopologySpec(**SHAPE, port_rate=100_000_000, forwarding=forwarding))
    port = clos.port(port_name)
    link = clos.link(port.link_id)
    direction = "a-to-b" if port == link.lower else "b-to-a"
    [load] = bound("congestion", link.name, clos, rate="10Mbit", direction=direction).loads
    assert (load.port_id, load.rate_bps, load.hop_limit) == (port.id, 10_000_000, 1)
    frame = frame_of(clos, load)
    assert len(frame) == full_frame_bytes(clos)
    assert (frame[21], IPv6Address(frame[38:54])) == (1, IPv6Address(load.destination))
    assert int.from_bytes(frame[18:20], "big") == len(frame) - 54


def test_background_traffic_towards_a_host_takes_a_path_of_the_seed():
    destinations = set()
    for seed in range(20):
        [load] = bound("congestion", "h0:1", seed=seed, rate="10Mbit", direction="a-to-b", towards="h3").loads
        destinations.add(load.destination)
    assert destinations == {str(path_carrier(SHAPED, 0, 3, 1, uplink)) for uplink in range(2)}


def test_every_kind_says_what_happens_and_what_it_is_reported():
    assert all(meaning(kind).endswith((".", ";")) for kind in KINDS)
    assert own_fields("loss") == ["direction", "traffic", "ratio"]
    assert own_fields("plane-down") == []


class HalfRate(LinkFault):
    """A kind as somebody would add it: this class is all there is of it."""

    kind: Literal["half-rate"]

    def effects(self, target):
        return tuple(RateShare(link.lower.id, 0.5) for link in target.links)


def test_a_kind_is_one_class():
    assert kinds_of(sys.modules[__name__]) == [HalfRate]
    assert kind_of(HalfRate) == "half-rate"
    values = {"id": "a", "kind": "half-rate", "at": "0s", "until": "cleared", "select": {"links": "h0:0"}}
    fault = target_fault(HalfRate.model_validate(values), SHAPED, 1, 1)
    assert fault.effects == (RateShare(SHAPED.link("h0:0").lower.id, 0.5),)
    assert (fault.kind, fault.links) == ("half-rate", ("h0:0~p0-t0-0:0",))
