"""When bad EVs are probed: once at a time each, more rarely while nothing comes back, until they are good."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.abi import EvState, Qp
from mrc_agents.nic.reactions import ProbeSchedule, excess_falls

BASE_NS = 1_000_000
CEILING_NS = 1_000_000_000


def qp_with(states: dict[int, EvState], *, pending: Iterable[int] = (), answered: Iterable[int] = ()) -> Qp:
    qp = Qp()
    for index, state in states.items():
        qp.evs.ev[index].state = state
    for index in pending:
        qp.evs.ev[index].is_probe_pending = 1
    for index in answered:
        qp.evs.ev[index].probe_successes = 1
    return qp


BAD = EvState.ASSUMED_BAD


def next_due(schedule: ProbeSchedule) -> int:
    deadline_ns = schedule.next_deadline_ns()
    assert deadline_ns is not None
    return deadline_ns


def test_nothing_is_due_while_no_ev_is_bad() -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    assert schedule.next_deadline_ns() is None
    assert schedule.due(10**12) == {}


def test_first_probe_leaves_at_once() -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    schedule.add(0, 7, 0, now_ns=5000)
    assert next_due(schedule) == 5000
    assert schedule.due(4999) == {}
    assert schedule.due(5000) == {0: [7]}
    assert schedule.due(5000) == {}


def test_each_further_fall_of_a_path_waits_four_times_as_long_up_to_the_ceiling() -> None:
    waits = []
    for excess in (1, 2, 3, 5, 1000):
        schedule = ProbeSchedule(BASE_NS, CEILING_NS)
        schedule.add(0, 7, excess, now_ns=0)
        waits.append(next_due(schedule))
    assert waits == [4 * BASE_NS, 16 * BASE_NS, 64 * BASE_NS, CEILING_NS, CEILING_NS]


def test_falls_count_only_beyond_what_all_paths_have() -> None:
    assert excess_falls(1, [1, 0, 0, 0]) == 0
    assert excess_falls(4, [4, 0, 0, 0, 0, 0, 0, 0]) == 2
    assert excess_falls(9, [9, 8, 10, 9]) == 0


@given(st.integers(1, 100), st.integers(1, 64))
def test_paths_that_all_fall_alike_are_all_probed_at_once(falls: int, count: int) -> None:
    assert excess_falls(falls, [falls] * count) == 0


def test_unanswered_probes_become_rarer() -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    schedule.add(0, 7, 0, now_ns=0)
    pauses = []
    now_ns = next_due(schedule)
    for _ in range(12):
        ((_, evs),) = schedule.due(now_ns).items()
        assert schedule.reschedule(0, evs, qp_with({7: BAD}, pending=[7]), now_ns) == [7]
        pauses.append(next_due(schedule) - now_ns)
        now_ns = next_due(schedule)
    assert pauses == [min(BASE_NS << step, CEILING_NS) for step in range(1, 13)]


def test_answer_makes_the_next_probe_come_soon() -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    schedule.add(0, 7, 3, now_ns=0)
    now_ns = next_due(schedule)
    assert now_ns == 64 * BASE_NS
    schedule.due(now_ns)
    assert schedule.reschedule(0, [7], qp_with({7: BAD}, answered=[7]), now_ns) == [7]
    assert next_due(schedule) == now_ns + BASE_NS


def test_ev_that_is_good_again_is_probed_no_more() -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    schedule.add(0, 7, 1, now_ns=0)
    schedule.add(0, 8, 1, now_ns=0)
    now_ns = next_due(schedule)
    schedule.due(now_ns)
    assert schedule.reschedule(0, [7, 8], qp_with({7: EvState.GOOD, 8: BAD}), now_ns) == [8]
    assert schedule.due(CEILING_NS * 2) == {0: [8]}


def test_ev_that_falls_again_before_its_probe_keeps_one_place_in_the_queue() -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    schedule.add(0, 7, 1, now_ns=0)
    schedule.add(0, 7, 2, now_ns=10)
    assert schedule.due(CEILING_NS) == {0: [7]}


def test_evs_of_a_qp_that_is_gone_are_forgotten() -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    schedule.add(0, 7, 1, now_ns=0)
    schedule.add(1, 7, 1, now_ns=1)
    schedule.add(0, 9, 1, now_ns=2)
    schedule.remove_qp(0)
    assert schedule.due(CEILING_NS) == {1: [7]}
    schedule.add(0, 7, 1, now_ns=0)
    assert schedule.due(CEILING_NS) == {0: [7]}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 15), st.integers(1, 20), st.integers(0, 10**9)),
        max_size=40,
    )
)
def test_each_bad_ev_comes_due_exactly_once_in_any_order(falls: list[tuple[int, int, int, int]]) -> None:
    schedule = ProbeSchedule(BASE_NS, CEILING_NS)
    for qp_index, ev_index, bad_count, now_ns in falls:
        schedule.add(qp_index, ev_index, bad_count, now_ns)
    found: list[tuple[int, int]] = []
    deadlines = []
    while (deadline_ns := schedule.next_deadline_ns()) is not None:
        deadlines.append(deadline_ns)
        for qp_index, evs in schedule.due(deadline_ns).items():
            found += [(qp_index, ev) for ev in evs]
    assert sorted(found) == sorted({(qp_index, ev_index) for qp_index, ev_index, *_ in falls})
    assert deadlines == sorted(set(deadlines))
