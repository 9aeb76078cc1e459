"""Deadlocks in small graphs of held ports, found by hand."""

from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.fabric.deadlock import Deadlock, HeldPort, find_deadlock


def test_ports_that_wait_for_each_other_are_stuck_since_the_last_one_stopped() -> None:
    held = {
        3: HeldPort(100, {5: 4000}, 1000),
        5: HeldPort(300, {9: 4000}, 1000),
        9: HeldPort(200, {3: 4000}, 1000),
    }
    assert find_deadlock(held) == Deadlock((3, 5, 9), (3, 5, 9), 300)


def test_a_chain_that_ends_at_a_port_that_sends_is_no_deadlock() -> None:
    held = {3: HeldPort(100, {5: 4000}, 1000), 5: HeldPort(100, {9: 4000}, 1000)}
    assert find_deadlock(held) is None


def test_a_port_with_little_waiting_in_the_cycle_can_go_on() -> None:
    held = {3: HeldPort(100, {5: 1000, 7: 3000}, 1000), 5: HeldPort(100, {3: 4000}, 1000)}
    assert find_deadlock(held) is None


def test_a_port_that_waits_for_a_deadlock_is_stuck_but_not_of_the_cycle() -> None:
    held = {1: HeldPort(900, {2: 5000}, 0), 2: HeldPort(100, {3: 5000}, 0), 3: HeldPort(400, {2: 5000}, 0)}
    assert find_deadlock(held) == Deadlock((1, 2, 3), (2, 3), 400)


def test_nothing_held_is_no_deadlock() -> None:
    assert find_deadlock({}) is None


graphs = st.dictionaries(
    st.integers(0, 7),
    st.builds(
        HeldPort,
        st.integers(0, 50),
        st.dictionaries(st.integers(0, 9), st.integers(0, 5), max_size=4),
        st.integers(0, 6),
    ),
    max_size=8,
)


@given(graphs)
def test_a_deadlock_is_the_largest_set_of_ports_none_of_which_can_go_on(held: dict[int, HeldPort]) -> None:
    def is_closed(ports: set[int]) -> bool:
        return all(
            sum(count for other, count in held[port].waiting_bytes.items() if other in ports)
            > held[port].enough_bytes
            for port in ports
        )

    names = sorted(held)
    subsets = [{name for bit, name in enumerate(names) if mask >> bit & 1} for mask in range(1 << len(names))]
    largest = set().union(*(subset for subset in subsets if is_closed(subset)))
    found = find_deadlock(held)
    assert (set(found.port_ids) if found else set()) == largest
    if found:
        steps = zip(found.cycle, (*found.cycle[1:], found.cycle[0]), strict=True)
        assert all(held[port].waiting_bytes[other] > 0 for port, other in steps)
        assert set(found.cycle) <= largest
