"""Effects that faults share, and the rules that they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.abi import FaultAction, FaultRule
from mrc_testbed.fabric.port_fault import CERTAIN_Q32
from mrc_testbed.faults.effects import (
    AgentDead,
    CarrierDown,
    Drained,
    Frozen,
    Hold,
    HostRequests,
    IcrcChecked,
    RateShare,
    RoutesGone,
    Rule,
    by_place,
    requests_of,
)
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.rule import FrameRule, as_abi, chance_q32, describe_rule, mix_seed
from mrc_testbed.faults.schedule import Flap, Schedule

PLACES = 3
PORTS = range(PLACES)
HOSTS = tuple(f"h{index}" for index in PORTS)

effects = st.one_of(
    st.builds(RateShare, st.sampled_from(PORTS), st.floats(0.01, 1.0)),
    st.sampled_from([kind(port) for kind in (Hold, CarrierDown) for port in PORTS]),
    st.sampled_from([kind(host) for kind in (RoutesGone, Frozen, AgentDead) for host in HOSTS]),
    st.just(IcrcChecked()),
)
effect_sets = st.lists(effects, max_size=8)


class ListedLab:
    """The effects in force at each place; only those that differ from a healthy lab."""

    def __init__(self):
        self.state = {}

    def _set(self, place, value, healthy):
        self.state.pop(place, None)
        if value != healthy:
            self.state[place] = value

    def set_rate(self, port_id, ratio):
        self._set(("rate", port_id), ratio, 1)

    def set_held(self, port_id, *, is_held):
        self._set(("held", port_id), is_held, False)

    def set_carrier(self, port_id, *, is_up):
        self._set(("carrier", port_id), is_up, True)

    def set_routes(self, switch, *, is_present):
        self._set(("routes", switch), is_present, True)

    def set_running(self, host, *, is_running):
        self._set(("running", host), is_running, True)

    def set_icrc(self, *, is_checked):
        self._set("icrc", is_checked, False)

    def kill_agent(self, host):
        self.state["agent", host] = "killed"

    def settle(self, acting, concerned):
        places = by_place(acting)
        concerned.settle(self, places.get(concerned.place, ()))
        if isinstance(concerned, AgentDead) and concerned.host in requests_of(acting, [concerned]).revived:
            self.state.pop(("agent", concerned.host), None)


def wanted(acting):
    """The state that holds when every place that any effect touches is settled at once."""
    lab = ListedLab()
    for effect in acting:
        lab.settle(acting, effect)
    return lab.state


@given(effect_sets, st.randoms(use_true_random=False))
def test_order_of_effects_does_not_matter(acting, random):
    shuffled = list(acting)
    random.shuffle(shuffled)
    assert wanted(shuffled) == wanted(acting)


@given(effect_sets, st.randoms(use_true_random=False))
def test_effects_ended_in_any_order_leave_what_the_others_want_and_nothing_in_the_end(given_effects, random):
    lab, acting = ListedLab(), []
    for effect in given_effects:
        acting.append(effect)
        lab.settle(acting, effect)
    assert lab.state == wanted(acting)
    random.shuffle(acting)
    while acting:
        ended = acting.pop()
        lab.settle(acting, ended)
        assert lab.state == wanted(acting)
    assert lab.state == {}


def test_rates_multiply():
    assert wanted([RateShare(1, 0.5), RateShare(1, 0.5), RateShare(2, 0.5)]) == {
        ("rate", 1): 0.25,
        ("rate", 2): 0.5,
    }


@given(effect_sets, effect_sets)
def test_an_agent_is_killed_or_revived_and_hosts_without_one_are_not_asked(acting, concerned):
    requests = requests_of(acting, concerned)
    killed = {effect.host for effect in acting if isinstance(effect, AgentDead)}
    own = {effect.host for effect in concerned if isinstance(effect, AgentDead)}
    assert requests.revived == own - killed
    assert killed <= requests.absent


def test_a_link_is_freed_unless_another_drain_wants_it_and_a_new_agent_is_notified_of_all():
    drains = [Drained(3), Drained(4)]
    assert requests_of(drains, [Drained(4), Drained(5)]) == HostRequests(frozenset({3, 4}), frozenset({5}))
    assert requests_of(drains, [AgentDead("h1")]) == HostRequests(
        frozenset({3, 4}), revived=frozenset({"h1"})
    )


def fault(fault_id, *effects):
    return ScheduledFault(fault_id=fault_id, kind="any", seed=1, effects=effects)


def test_only_rules_end_in_the_kernel():
    rule = Rule(1, FrameRule(action="down"))
    assert fault("a", rule).ends_in_kernel
    assert not fault("a", rule, CarrierDown(1)).ends_in_kernel


def test_faults_that_differ_in_name_only_do_the_same():
    one, same = fault("a", RateShare(1, 0.5), Hold(2)), fault("b", Hold(2), RateShare(1, 0.5))
    assert one.does_the_same_as(same)
    assert not one.does_the_same_as(fault("c", RateShare(1, 0.4), Hold(2)))


@pytest.mark.parametrize(
    ("ratio", "q32"), [(0.0, 0), (1e-12, 1), (0.5, 1 << 31), (1.0, CERTAIN_Q32), (2.0, CERTAIN_Q32)]
)
def test_chances_in_fixed_point(ratio, q32):
    assert chance_q32(ratio) == q32


def test_a_rule_fills_every_field_of_the_data_plane_but_its_id():
    rule = FrameRule(
        action="delay",
        ratio=0.5,
        burst_ratio=1.0,
        burst_begins=0.25,
        burst_ends=0.125,
        traffic="data",
        ev=0x1002_0003,
        time_ns=7,
        jitter_ns=3,
        flipped_bits=2,
    )
    live = as_abi(rule, 9, Schedule(5, 8, Flap(100, 10, 0.25, 3)))
    values = {name: getattr(live, name) for name, _ in FaultRule._fields_}
    assert values == {
        "action": FaultAction.DELAY,
        "id": 0,
        "seed": 9,
        "classes": 0b10,
        "ev_value": 0x1002_0003,
        "ev_mask": 0xFFFF_FFFF,
        "chance_q32": 1 << 31,
        "burst_chance_q32": 1 << 32,
        "burst_begins_q32": 1 << 30,
        "burst_ends_q32": 1 << 29,
        "time_ns": 7,
        "jitter_ns": 3,
        "flipped_bits": 2,
        "flap_seed": 3,
        "end_ns": 8,
        "begin_ns": 5,
        "every_ns": 100,
        "down_ns": 10,
        "late_ns": 25,
    }


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (FrameRule(action="down"), ""),
        (FrameRule(action="lose", ratio=0.05), "5%"),
        (FrameRule(action="lose", ratio=0.05, traffic="control"), "5% of control"),
        (
            FrameRule(action="lose", ratio=0, burst_ratio=1, burst_begins=0.1, burst_ends=0.1),
            "50% in bursts of 10 packets",
        ),
        (FrameRule(action="lose", ev=0x1002_0003), "100% of EV 0x10020003"),
        (FrameRule(action="lose", ev=0x1002_0003, ev_mask=0xFFFF_0000), "100% of EVs 0x1002...."),
        (FrameRule(action="delay", time_ns=10**6, jitter_ns=10**5), "by 1ms +-100us"),
        (FrameRule(action="reorder", ratio=0.1, time_ns=10**6), "10% by 1ms"),
    ],
)
def test_a_rule_in_words(rule, words):
    assert describe_rule(rule) == words


def test_ports_of_one_fault_hit_different_frames():
    assert len({mix_seed(42, port_id) for port_id in range(1000)}) == 1000


def test_seeds_of_one_port_hit_different_frames():
    assert len({mix_seed(seed, 7) for seed in range(1000)}) == 1000
