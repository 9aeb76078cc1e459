"""Faults that take time: who comes later, twice or overtaken, to the nanosecond; nothing gets lost."""

from collections.abc import Iterator
from itertools import count

import pytest
from mrc_packet import Packet
from reference.fault_rules import ReferenceRule, seeded_draw
from switch_bench import Departure, SwitchBench, now_ns

from mrc_agents.abi import FaultAction, FaultLimit, FaultRule, PortCounter, TrafficClass
from mrc_testbed.fabric.port_fault import ALL_CLASSES, CERTAIN_Q32, clear_rule, is_healthy, set_rule

OUT = 1
SECOND, MS, US = 10**9, 10**6, 10**3
RATE_BPS = 10**9
GAP_NS = 200 * US
"""Between two packets: each finds the port idle."""


@pytest.fixture(scope="module")
def bench() -> Iterator[SwitchBench]:
    with SwitchBench(2) as switch:
        yield switch


@pytest.fixture(autouse=True)
def healthy(bench: SwitchBench) -> Iterator[None]:
    bench.shape(OUT, rate_bps=RATE_BPS)
    yield
    for index in range(FaultLimit.RULES):
        clear_rule(bench, OUT, index)
    assert is_healthy(bench, OUT)
    assert bench.pool.read(0).used == 0


def rule(action: FaultAction, ratio: float = 1.0, **fields: int) -> FaultRule:
    return FaultRule(
        action=action, classes=ALL_CLASSES, seed=7, chance_q32=round(ratio * CERTAIN_Q32), **fields
    )


_STARTS_NS = count(now_ns() - 100 * SECOND, 2 * SECOND)


def begin_ns() -> int:
    """A time after all that the port has seen, and long past."""
    return next(_STARTS_NS)


def packet(number: int) -> Packet:
    """A packet with an EV of its own."""
    return Packet(entropy=number)


def travel_ns(number: int) -> int:
    """Serialisation of a packet."""
    return len(packet(number).frame(OUT)) * 8 * SECOND // RATE_BPS


def send(bench: SwitchBench, packets: int, start_ns: int) -> list[Departure]:
    """The arrivals at the far end of *packets* packets, GAP_NS apart, in the order of arrival."""
    for number in range(packets):
        bench.receive(packet(number).frame(OUT), start_ns + number * GAP_NS)
    # so long after their time the wheel, which is at the clock by now, has them in any order
    return sorted(bench.drain(), key=lambda left: left.arrival_ns)


def number_of(departure: Departure) -> int:
    """The EV that a packet carries: flow label, UDP source port."""
    frame = departure.frame
    return int.from_bytes(frame[54:58], "big") << 16 & 0xFFFF_FFFF | int.from_bytes(frame[94:96], "big")


def times(departures: list[Departure], start_ns: int) -> list[tuple[int, int]]:
    """(packet, how much later than without any fault)."""
    return [
        (number_of(left), left.arrival_ns - start_ns - number_of(left) * GAP_NS - travel_ns(number_of(left)))
        for left in departures
    ]


def hits(reference: ReferenceRule, packets: int) -> list[int]:
    """Which of *packets* packets a rule hits."""
    return [number for number in range(packets) if reference.hits(TrafficClass.DATA) is not None]


def test_delay_is_exact_and_keeps_the_order(bench: SwitchBench) -> None:
    start_ns = begin_ns()
    set_rule(bench, OUT, 0, rule(FaultAction.DELAY, time_ns=5 * MS))
    departures = send(bench, 50, start_ns)
    assert times(departures, start_ns) == [(number, 5 * MS) for number in range(50)]
    assert clear_rule(bench, OUT, 0).hit_frames == 50


def test_two_delays_add_up_and_one_that_is_cleared_is_gone(bench: SwitchBench) -> None:
    set_rule(bench, OUT, 0, rule(FaultAction.DELAY, time_ns=3 * MS))
    set_rule(bench, OUT, 1, rule(FaultAction.DELAY, time_ns=500 * US))
    start_ns = begin_ns()
    assert {late for _, late in times(send(bench, 5, start_ns), start_ns)} == {3 * MS + 500 * US}
    clear_rule(bench, OUT, 0)
    start_ns += SECOND // 2
    assert {late for _, late in times(send(bench, 5, start_ns), start_ns)} == {500 * US}
    clear_rule(bench, OUT, 1)
    start_ns += SECOND // 2
    assert {late for _, late in times(send(bench, 5, start_ns), start_ns)} == {0}


def test_jitter_is_the_seeds_and_overtakes_nothing(bench: SwitchBench) -> None:
    start_ns, sent, jitter_ns = begin_ns(), 40, 400 * US
    set_rule(bench, OUT, 0, rule(FaultAction.DELAY, time_ns=MS, jitter_ns=jitter_ns))
    departures = send(bench, sent, start_ns)
    expected, latest_ns = [], 0
    for number in range(sent):
        drawn_ns = ((jitter_ns >> 8) * 2 * seeded_draw(7, 4 * number + 2) >> 24) - jitter_ns
        latest_ns = max(latest_ns, number * GAP_NS + MS + drawn_ns)
        expected.append((number, latest_ns - number * GAP_NS))
    assert times(departures, start_ns) == expected
    assert len({late for _, late in expected}) > sent // 2


def test_packets_held_back_are_overtaken_by_those_behind_and_no_other_is_late(bench: SwitchBench) -> None:
    start_ns, sent, by_ns = begin_ns(), 100, 700 * US
    live = rule(FaultAction.REORDER, 0.2, time_ns=by_ns)
    set_rule(bench, OUT, 2, live)
    departures = send(bench, sent, start_ns)
    held = hits(ReferenceRule(live), sent)
    assert 5 < len(held) < 40
    assert dict(times(departures, start_ns)) == {
        number: by_ns if number in held else 0 for number in range(sent)
    }
    assert [number_of(left) for left in departures] != list(range(sent))


def test_of_two_reorderings_of_a_packet_the_longer_counts(bench: SwitchBench) -> None:
    start_ns = begin_ns()
    set_rule(bench, OUT, 0, rule(FaultAction.REORDER, time_ns=MS))
    set_rule(bench, OUT, 1, rule(FaultAction.REORDER, 0.5, time_ns=4 * MS))
    twice = hits(ReferenceRule(rule(FaultAction.REORDER, 0.5)), 20)
    late = dict(times(send(bench, 20, start_ns), start_ns))
    assert late == {number: 4 * MS if number in twice else MS for number in range(20)}


def test_duplicates_come_twice_at_once_and_are_whole(bench: SwitchBench) -> None:
    start_ns, sent = begin_ns(), 60
    live = rule(FaultAction.DUPLICATE, 0.3)
    before = bench.counter(OUT, PortCounter.TX_PACKETS)
    set_rule(bench, OUT, 0, live)
    departures = send(bench, sent, start_ns)
    doubled = hits(ReferenceRule(live), sent)
    assert sorted(number_of(left) for left in departures) == sorted([*range(sent), *doubled])
    assert {late for _, late in times(departures, start_ns)} == {0}
    by_number: dict[int, set[bytes]] = {}
    for left in departures:
        by_number.setdefault(number_of(left), set()).add(left.frame)
    assert all(len(frames) == 1 for frames in by_number.values())
    assert bench.counter(OUT, PortCounter.TX_PACKETS) == before + sent + len(doubled)


def test_all_at_once(bench: SwitchBench) -> None:
    """Lost packets come never, delayed ones later, those held back later still, doubled ones twice."""
    start_ns, sent = begin_ns(), 120
    rules = {
        0: rule(FaultAction.DELAY, time_ns=2 * MS),
        3: rule(FaultAction.LOSE, 0.2),
        4: rule(FaultAction.REORDER, 0.2, time_ns=900 * US),
        7: rule(FaultAction.DUPLICATE, 0.2),
    }
    for index, live in rules.items():
        live.seed = index
        set_rule(bench, OUT, index, live)
    departures = send(bench, sent, start_ns)
    lost, held, doubled = (set(hits(ReferenceRule(rules[index]), sent)) for index in (3, 4, 7))
    expected = []
    for number in set(range(sent)) - lost:
        arrival = (number, 2 * MS + (900 * US if number in held else 0))
        expected += [arrival, arrival] if number in doubled else [arrival]
    assert sorted(times(departures, start_ns)) == sorted(expected)


def test_damage_is_done_in_shaped_fabrics_too(bench: SwitchBench) -> None:
    start_ns = begin_ns()
    set_rule(bench, OUT, 0, rule(FaultAction.CORRUPT, 0.5, flipped_bits=5))
    damaged = hits(ReferenceRule(rule(FaultAction.CORRUPT, 0.5)), 40)
    healthy_frames = {}
    departures = send(bench, 40, start_ns)
    clear_rule(bench, OUT, 0)
    for left in send(bench, 40, start_ns + SECOND // 2):
        healthy_frames[number_of(left)] = left.frame
    assert [
        number_of(left) for left in departures if left.frame != healthy_frames[number_of(left)]
    ] == damaged
