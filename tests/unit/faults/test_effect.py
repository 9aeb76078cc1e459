"""Composition of what faults share, and the rules that they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire_abi import FaultAction, FaultRule
from testbed.faults.effect import Fault, PortRate, SharedState, compose
from testbed.faults.rule import CERTAIN_Q32, FrameRule, as_abi, chance_q32, describe_rule, mix_seed

PLACES = 3


def some(values):
    return st.lists(values, max_size=3, unique=True).map(tuple)


ports = st.integers(0, PLACES - 1)
hosts = ports.map(lambda index: f"h{index}")
ratios = st.floats(0.01, 1.0)
faults = st.builds(
    Fault,
    fault_id=st.text("abc", min_size=1, max_size=3),
    kind=st.just("any"),
    seed=st.just(1),
    rates=st.dictionaries(ports, ratios, max_size=3).map(
        lambda rates: tuple(PortRate(port_id, ratio) for port_id, ratio in rates.items())
    ),
    held_ports=some(ports),
    carrier_ports=some(ports),
    unrouted_switches=some(hosts),
    frozen_hosts=some(hosts),
    agentless_hosts=some(hosts),
)
fault_sets = st.lists(faults, max_size=5, unique_by=lambda fault: fault.fault_id)


def everything() -> Fault:
    """Touches every place, so that composing for it shows the whole lab."""
    names = tuple(f"h{index}" for index in range(PLACES))
    return Fault(
        fault_id="everything",
        kind="any",
        seed=1,
        rates=tuple(PortRate(port_id, 0.5) for port_id in range(PLACES)),
        held_ports=tuple(range(PLACES)),
        carrier_ports=tuple(range(PLACES)),
        unrouted_switches=names,
        frozen_hosts=names,
        agentless_hosts=names,
    )


def test_no_fault_leaves_a_healthy_lab():
    names = {f"h{index}": True for index in range(PLACES)}
    assert compose([], everything()) == SharedState(
        rate_ratios=dict.fromkeys(range(PLACES), 1.0),
        senders=dict.fromkeys(range(PLACES), True),
        carriers=dict.fromkeys(range(PLACES), True),
        routes=names,
        running=names,
        agents=names,
    )


@given(fault_sets, st.randoms(use_true_random=False))
def test_order_of_faults_does_not_matter(active, random):
    shuffled = list(active)
    random.shuffle(shuffled)
    assert compose(shuffled, everything()) == compose(active, everything())


class PlayedLab:
    """A lab to which only what each change concerns is applied, as an injector does it."""

    def __init__(self):
        self.state = compose([], everything())
        self.active = []

    def change(self, active, concerned):
        self.active = active
        news = compose(active, concerned)
        for name in ("rate_ratios", "senders", "carriers", "routes", "running", "agents"):
            getattr(self.state, name).update(getattr(news, name))


@given(fault_sets, st.randoms(use_true_random=False))
def test_faults_cleared_in_any_order_leave_what_the_others_want_and_nothing_in_the_end(active, random):
    lab = PlayedLab()
    for fault in active:
        lab.change([*lab.active, fault], fault)
    assert lab.state == compose(active, everything())
    going = list(active)
    random.shuffle(going)
    for fault in going:
        lab.change([other for other in lab.active if other is not fault], fault)
        assert lab.state == compose(lab.active, everything())
    assert lab.state == compose([], everything())


@given(fault_sets, faults)
def test_more_faults_never_leave_more(active, extra):
    fewer, more = compose(active, everything()), compose([*active, extra], everything())
    assert all(more.rate_ratios[port] <= fewer.rate_ratios[port] for port in fewer.rate_ratios)
    for name in ("carriers", "routes", "running", "agents"):
        before, after = getattr(fewer, name), getattr(more, name)
        assert all(after[place] <= before[place] for place in before)


def test_faults_that_differ_in_name_only_do_the_same():
    one = Fault(fault_id="a", kind="slow-link", seed=1, rates=(PortRate(1, 0.5), PortRate(2, 0.5)))
    same = Fault(fault_id="b", kind="slow-link", seed=2, rates=(PortRate(2, 0.5), PortRate(1, 0.5)))
    stronger = Fault(fault_id="c", kind="slow-link", seed=1, rates=(PortRate(1, 0.4), PortRate(2, 0.5)))
    assert one.does_the_same_as(same)
    assert not one.does_the_same_as(stronger)


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
    live = as_abi(rule, 9)
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
        "pad0": 0,
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
