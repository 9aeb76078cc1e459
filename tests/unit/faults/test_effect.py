"""Composition of overlapping faults."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.faults.effect import (
    LOSS_ALL_Q32,
    Fault,
    PortEffect,
    PortSetting,
    compose,
    compose_carriers,
    loss_q32,
    mix_seed,
)

PORTS = 4


def loss(fault_id: str, port_id: int, ratio: float, seed: int = 1) -> Fault:
    return Fault(fault_id, "loss", seed, ("l",), (PortEffect(port_id, loss_ratio=ratio),))


def down(fault_id: str, port_id: int) -> Fault:
    return Fault(fault_id, "link-down", 1, ("l",), (PortEffect(port_id, is_down=True),))


effects = st.builds(
    PortEffect,
    port_id=st.integers(0, PORTS - 1),
    is_down=st.booleans(),
    loss_ratio=st.floats(0, 1, allow_subnormal=False),
)
faults = st.builds(
    Fault,
    fault_id=st.text("abc", min_size=1, max_size=3),
    kind=st.just("loss"),
    seed=st.integers(0, 2**64 - 1),
    links=st.just(("l",)),
    effects=st.lists(effects, max_size=4).map(tuple),
)
fault_sets = st.lists(faults, max_size=5, unique_by=lambda fault: fault.fault_id)


def test_no_fault_leaves_a_healthy_port():
    assert compose([], 3) == PortSetting(is_down=False, loss_q32=0, loss_seed=0)


def test_a_fault_acts_on_its_own_ports_only():
    assert compose([loss("a", 1, 0.5), down("b", 2)], 3) == PortSetting()


def test_losses_combine_as_independent_chances():
    setting = compose([loss("a", 1, 0.5), loss("b", 1, 0.5)], 1)
    assert setting.loss_q32 == LOSS_ALL_Q32 * 3 // 4


def test_down_wins_over_loss_but_the_loss_is_kept_for_afterwards():
    setting = compose([loss("a", 1, 0.25), down("b", 1)], 1)
    assert setting.is_down
    assert setting.loss_q32 == LOSS_ALL_Q32 // 4


def test_total_loss_is_the_whole_range():
    assert compose([loss("a", 1, 1.0)], 1).loss_q32 == LOSS_ALL_Q32


@pytest.mark.parametrize(
    ("ratio", "q32"), [(0.0, 0), (1e-12, 1), (0.5, 1 << 31), (1.0, 1 << 32), (2.0, 1 << 32)]
)
def test_loss_in_fixed_point(ratio, q32):
    assert loss_q32(ratio) == q32


@given(fault_sets, st.integers(0, PORTS - 1), st.randoms(use_true_random=False))
def test_order_of_faults_does_not_matter(active, port_id, random):
    shuffled = list(active)
    random.shuffle(shuffled)
    assert compose(shuffled, port_id) == compose(active, port_id)


@given(fault_sets, faults, st.integers(0, PORTS - 1))
def test_adding_and_clearing_a_fault_restores_exactly(active, extra, port_id):
    others = [fault for fault in active if fault.fault_id != extra.fault_id]
    before = compose(others, port_id)
    with_extra = [*others, extra]
    compose(with_extra, port_id)
    assert compose([fault for fault in with_extra if fault.fault_id != extra.fault_id], port_id) == before


@given(fault_sets, st.integers(0, PORTS - 1))
def test_settings_stay_in_range_and_more_faults_never_lose_less(active, port_id):
    settings = [compose(active[:count], port_id) for count in range(len(active) + 1)]
    for fewer, more in itertools.pairwise(settings):
        assert 0 <= more.loss_q32 <= LOSS_ALL_Q32
        assert 0 <= more.loss_seed < 2**32
        assert more.loss_q32 >= fewer.loss_q32 - 1
        assert more.is_down >= fewer.is_down


def test_ports_of_one_fault_drop_different_frames():
    assert len({mix_seed(42, port_id) for port_id in range(1000)}) == 1000


def test_seeds_of_one_port_drop_different_frames():
    assert len({mix_seed(seed, 7) for seed in range(1000)}) == 1000


def test_carrier_is_up_unless_an_active_fault_names_the_port():
    cut = Fault("a", "nic-port-down", 1, ("l",), (), carrier_ports=(5,))
    assert compose_carriers([cut], [5, 7]) == {5: False, 7: True}
    assert compose_carriers([], [5]) == {5: True}
