"""Faults of a command line: parsed as a file would be, bound to ports."""

import pytest

from mrc_testbed.errors import UsageError
from mrc_testbed.faults.effects import CarrierDown, Rule
from mrc_testbed.faults.interactive import parse_fault, plan_fault
from mrc_testbed.faults.kinds import LinkFlap
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2))
LINK = "p0-t0-0:2~p0-t1-0:0"
SEED = 7


def plan(kind, selector, seed=SEED, taken=(), **fields):
    fields.setdefault("until", "cleared")
    return plan_fault(parse_fault(kind, selector, fields, taken), CLOS, seed)


def test_an_id_is_made_up_that_nobody_has():
    assert plan("loss", LINK, ratio="5%").fault_id == "loss-1"
    assert plan("loss", LINK, ratio="5%", taken={"loss-1", "loss-2"}).fault_id == "loss-3"
    assert plan("loss", LINK, ratio="5%", id="gray").fault_id == "gray"


def test_fields_mean_what_they_mean_in_a_file():
    found = parse_fault(
        "link-flap", "h0:1", {"for": "10s", "every": "1s", "down": "200ms", "jitter": "20%"}, ()
    )
    assert isinstance(found, LinkFlap)
    assert (found.for_ns, found.every_ns, found.down_ns) == (10 * 10**9, 10**9, 200 * 10**6)
    assert found.jitter_ratio == 0.2


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("loss", {"until": "cleared"}, "loss needs --ratio 5%"),
        ("loss", {"until": "cleared", "ratio": "5"}, "'5' is not a ratio: write it in percent"),
        ("loss", {"ratio": "5%"}, "exactly one end: --for 2s, or --until cleared"),
        ("loss", {"ratio": "5%", "for": "2s", "until": "cleared"}, "exactly one end: --for 2s"),
        ("link-flap", {"for": "2s"}, "link-flap needs --every 200ms, --down 200ms"),
        ("loss", {"ratio": "5%", "for": "2"}, "'2' is not a duration: it has no unit"),
        ("loss", {"ratio": "5%", "for": "2s", "every": "1s"}, "command line: every: unknown key"),
        ("link-down", {"for": "2s", "count": 2}, "count: 2 needs pick"),
    ],
)
def test_a_wrong_field_is_refused_by_its_name(kind, fields, message):
    with pytest.raises(UsageError) as caught:
        parse_fault(kind, LINK, fields, ())
    assert message in caught.value.message


def test_pick_and_count_belong_to_the_selector():
    some = plan("link-down", "{links: {plane: 0}}", pick="random", count=2)
    assert len(some.links) == 2
    assert some.links == plan("link-down", "{links: {plane: 0}}", pick="random", count=2).links
    assert some.links != plan("link-down", "{links: {plane: 0}}", seed=8, pick="random", count=2).links


def test_a_selector_that_matches_nothing_is_refused():
    with pytest.raises(UsageError, match="p5"):
        plan("link-down", "p5-t0-0:*")


@pytest.mark.parametrize(
    ("direction", "ports"), [("both", ["lower", "upper"]), ("a-to-b", ["lower"]), ("b-to-a", ["upper"])]
)
def test_a_direction_is_the_port_at_its_start(direction, ports):
    link = CLOS.link(LINK)
    fault = plan("link-down", LINK, direction=direction)
    down = FrameRule(action="down")
    assert fault.effects == tuple(Rule(getattr(link, port).id, down) for port in ports)


def test_loss_carries_its_ratio_to_each_port():
    fault = plan("loss", LINK, ratio="5%", direction="a-to-b")
    assert fault.effects == (Rule(CLOS.link(LINK).lower.id, FrameRule(action="lose", ratio=0.05)),)


def test_a_nic_port_loses_its_carrier_at_the_switch_end():
    link = CLOS.link("h0:1")
    fault = plan("nic-port-down", "h0:1")
    assert CarrierDown(link.upper.id) in fault.effects
    assert fault.ports == {link.lower.id, link.upper.id}
    assert all(rule.rule.action == "down" for rule in fault.rules)


def test_a_link_without_a_nic_has_no_carrier_to_lose():
    with pytest.raises(UsageError, match="p0-t0-0:2~p0-t1-0:0 joins two switches"):
        plan("nic-port-down", LINK)
