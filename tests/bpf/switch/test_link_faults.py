"""Each rule of a faulted port hits the frames that the reference says, no other, and is gone afterwards."""

import math
from collections.abc import Iterator
from itertools import pairwise

import pytest
from exploring import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mrc_packet import BTH_END, IP_UDP_BTH_BYTES, Packet
from program_bench import Verdict
from reference.fault_rules import ReferenceFaults, ReferenceRule
from reference.icrc import icrc
from switch_bench import SwitchBench

from mrc_agents.abi import FaultAction, FaultLimit, FaultRule, PortCounter, TrafficClass
from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.port_fault import (
    ALL_CLASSES,
    CERTAIN_Q32,
    acts,
    clear_rule,
    is_healthy,
    read_account,
    set_rule,
)
from mrc_testbed.faults.kinds import BurstLoss
from mrc_testbed.faults.rule import FrameRule, as_abi
from mrc_testbed.faults.schedule import Flap, Schedule

CONTROL, DATA = TrafficClass.CONTROL, TrafficClass.DATA
OUT, OTHER = 1, 2
PLAIN = Packet()
EVS = (0x1002_0003, 0x1002_0004, 0x2001_0000)


@pytest.fixture(scope="module")
def bench() -> Iterator[SwitchBench]:
    with SwitchBench(3) as switch:
        yield switch


@pytest.fixture(autouse=True)
def healthy(bench: SwitchBench) -> Iterator[None]:
    yield
    for port_id in range(3):
        for index in range(FaultLimit.RULES):
            clear_rule(bench, port_id, index)
        assert is_healthy(bench, port_id)


def rule(action: FaultAction, ratio: float = 1.0, **fields: int) -> FaultRule:
    given_fields = {"classes": ALL_CLASSES, "seed": 7, "chance_q32": round(ratio * CERTAIN_Q32), **fields}
    return FaultRule(action=action, **given_fields)


def send(bench: SwitchBench, packet: Packet = PLAIN, port_id: int = OUT) -> bytes | None:
    """The frame that leaves through the port; None without one."""
    verdict, left = bench.run(packet.frame(port_id), 0)
    if verdict == Verdict.DROP:
        return None
    assert verdict == Verdict.REDIRECT
    return left


def lost(bench: SwitchBench, count: int, packet: Packet = PLAIN) -> list[int]:
    """Which of *count* packets do not leave."""
    return [number for number in range(count) if send(bench, packet) is None]


def departed(packet: Packet, port_id: int = OUT) -> bytes:
    """The packet as a healthy port sends it."""
    frame = bytearray(packet.frame(port_id))
    frame[6:12] = bytes.fromhex("024d52") + port_id.to_bytes(3, "big")
    frame[21] -= 1
    return bytes(frame)


rules = st.builds(
    FaultRule,
    action=st.sampled_from([FaultAction.DOWN, FaultAction.LOSE, FaultAction.CORRUPT]),
    seed=st.integers(0, 2**32 - 1),
    classes=st.integers(1, ALL_CLASSES),
    ev_mask=st.sampled_from([0, 0xFFFF_FFFF, 0xFFFF_0000]),
    chance_q32=st.sampled_from([0, 1 << 30, 1 << 31, CERTAIN_Q32]),
    burst_chance_q32=st.sampled_from([0, 1 << 31, CERTAIN_Q32]),
    burst_begins_q32=st.sampled_from([0, 1 << 29, 1 << 31]),
    burst_ends_q32=st.sampled_from([1 << 29, 1 << 31, CERTAIN_Q32]),
    flipped_bits=st.integers(1, FaultLimit.FLIPPED_MAX),
)
packets = st.builds(
    Packet,
    traffic_class=st.sampled_from([CONTROL, DATA]),
    entropy=st.sampled_from(EVS),
    payload_bytes=st.sampled_from([0, 4, 64, 2048]),
    is_trimmed=st.booleans(),
    is_tunnelled=st.booleans(),
)


@settings(max_examples=examples(60))
@given(
    st.dictionaries(st.integers(0, FaultLimit.RULES - 1), st.tuples(rules, st.sampled_from(EVS)), max_size=4),
    st.lists(packets, max_size=40),
)
def test_frames_get_the_verdict_of_the_reference_under_any_rules(bench, chosen, sent) -> None:
    reference = ReferenceFaults()
    for index in range(FaultLimit.RULES):
        clear_rule(bench, OUT, index)
    for index, (each, entropy) in chosen.items():
        each.ev_value = entropy & each.ev_mask
        set_rule(bench, OUT, index, each)
        reference.rules[index] = ReferenceRule(each)
    for packet in sent:
        traffic_class = CONTROL if packet.is_trimmed else packet.traffic_class
        whole = departed(packet)
        expected = reference.send(
            whole, packet.begin, traffic_class, packet.entropy, has_icrc=not packet.is_trimmed
        )
        assert send(bench, packet) == expected
    for index, each in reference.rules.items():
        account = clear_rule(bench, OUT, index)
        counts = (account.matched_frames, account.hit_frames, account.hit_data_frames)
        assert counts == (each.met, each.hit, each.hit_data)
    assert is_healthy(bench, OUT)


def test_a_healthy_port_changes_nothing_but_what_a_switch_does(bench: SwitchBench) -> None:
    for packet in (Packet(), Packet(CONTROL), Packet(is_tunnelled=False)):
        assert send(bench, packet) == departed(packet)


def test_a_rule_acts_at_its_own_port_only(bench: SwitchBench) -> None:
    set_rule(bench, OUT, 0, rule(FaultAction.DOWN))
    assert send(bench) is None
    assert send(bench, Packet(), OTHER) == departed(Packet(), OTHER)


def test_a_seed_hits_the_same_frames_again_and_another_seed_others(bench: SwitchBench) -> None:
    def losses(seed: int) -> list[int]:
        set_rule(bench, OUT, 3, rule(FaultAction.LOSE, 0.2, seed=seed))
        return lost(bench, 300)

    assert losses(1) == losses(1)
    assert losses(1) != losses(2)


@pytest.mark.parametrize("ratio", [0.01, 0.2, 0.5])
def test_loss_takes_its_share(bench: SwitchBench, ratio: float) -> None:
    """Within five standard deviations of what independent chances give; and the counters agree."""
    before = bench.counter(OUT, PortCounter.DROP_LOSS)
    count = 4000
    set_rule(bench, OUT, 0, rule(FaultAction.LOSE, ratio))
    missing = len(lost(bench, count))
    assert abs(missing - ratio * count) < 5 * math.sqrt(count * ratio * (1 - ratio))
    account = read_account(bench, OUT, 0)
    assert (account.matched_frames, account.hit_frames) == (count, missing)
    assert bench.counter(OUT, PortCounter.DROP_LOSS) == before + missing


def test_two_losses_of_a_port_are_independent_chances(bench: SwitchBench) -> None:
    count, combined = 4000, 1 - 0.7 * 0.6
    set_rule(bench, OUT, 0, rule(FaultAction.LOSE, 0.3, seed=1))
    set_rule(bench, OUT, 1, rule(FaultAction.LOSE, 0.4, seed=2))
    missing = len(lost(bench, count))
    assert abs(missing - combined * count) < 5 * math.sqrt(count * combined * (1 - combined))


def test_losses_in_bursts_have_the_length_and_the_share_that_were_asked_for(bench: SwitchBench) -> None:
    """Bursts are geometric: of 5 packets on average; the share has the variance of a Markov chain."""
    fault = BurstLoss.model_validate(
        {"id": "b", "kind": "burst-loss", "at": "0s", "until": "cleared", "select": {"links": "h0:0"},
         "ratio": "20%", "burst": 5.0}
    )  # fmt: skip
    count, ratio, burst = 20_000, 0.2, 5
    set_rule(bench, OUT, 0, as_abi(fault.rule(), 99, Schedule(0)))
    missing = lost(bench, count)
    correlation = 1 - 1 / burst - ratio / (1 - ratio) / burst
    deviation = math.sqrt(count * ratio * (1 - ratio) * (1 + correlation) / (1 - correlation))
    assert abs(len(missing) - ratio * count) < 5 * deviation
    bursts = 1 + sum(after != before + 1 for before, after in pairwise(missing))
    mean = len(missing) / bursts
    assert abs(mean - burst) < 5 * math.sqrt(burst * (burst - 1) / bursts)


def test_times_are_those_of_the_first_and_the_last_data_packet(bench: SwitchBench) -> None:
    set_rule(bench, OUT, 0, rule(FaultAction.DOWN))
    send(bench, Packet(DATA))
    first_ns = read_account(bench, OUT, 0).first_hit_ns
    send(bench, Packet(DATA))
    send(bench, Packet(CONTROL))
    account = read_account(bench, OUT, 0)
    assert 0 < account.first_hit_ns == first_ns < account.last_hit_ns
    assert account.hit_data_frames == 2


@pytest.mark.parametrize("bits", [1, 7, 32])
def test_corruption_flips_neighbouring_bits_behind_the_bth_and_fails_the_icrc(
    bench: SwitchBench, bits: int
) -> None:
    set_rule(bench, OUT, 0, rule(FaultAction.CORRUPT, flipped_bits=bits))
    packet = Packet()
    whole = departed(packet)
    places = set()
    for _ in range(100):
        left = send(bench, packet)
        assert left is not None
        assert left[:BTH_END] == whole[:BTH_END]
        difference = int.from_bytes(left, "little") ^ int.from_bytes(whole, "little")
        first = (difference & -difference).bit_length() - 1
        assert difference == ((1 << bits) - 1) << first
        places.add(first)
        assert icrc(left[BTH_END - IP_UDP_BTH_BYTES : -4]) != left[-4:]
    assert len(places) > 50


def test_a_rule_put_in_place_again_begins_again(bench: SwitchBench) -> None:
    set_rule(bench, OUT, 0, rule(FaultAction.LOSE, 0.5))
    first = lost(bench, 50)
    account = clear_rule(bench, OUT, 0)
    assert (account.matched_frames, account.hit_frames) == (50, len(first))
    assert lost(bench, 50) == []
    set_rule(bench, OUT, 0, rule(FaultAction.LOSE, 0.5))
    assert read_account(bench, OUT, 0).matched_frames == 0
    assert lost(bench, 50) == first


HOUR_NS = 3_600 * 10**9


@pytest.mark.parametrize("action", ["down", "lose", "corrupt"])
def test_a_rule_ends_by_itself(bench: SwitchBench, action: str) -> None:
    """No process has to take it back: after its end the frame leaves as from a healthy port, uncounted."""
    now_ns = monotonic_ns()
    for end_ns, is_over in ((now_ns, True), (now_ns + HOUR_NS, False)):
        what = FrameRule(action=action, flipped_bits=1)  # type: ignore[arg-type]
        set_rule(bench, OUT, 0, as_abi(what, 7, Schedule(now_ns, end_ns)))
        assert (send(bench) == departed(PLAIN)) == is_over
        assert read_account(bench, OUT, 0).matched_frames == (0 if is_over else 1)


def test_a_rule_ends_between_two_frames(bench: SwitchBench) -> None:
    """Its end lies within the test: frames before it are lost, frames after it are not."""
    end_ns = monotonic_ns() + 20_000_000
    set_rule(bench, OUT, 0, as_abi(FrameRule(action="down"), 7, Schedule(end_ns - 1, end_ns)))
    while (begun_ns := monotonic_ns()) < end_ns + 20_000_000:
        has_left = send(bench) is not None
        if begun_ns >= end_ns:
            assert has_left
        elif monotonic_ns() < end_ns:
            assert not has_left


@settings(max_examples=examples(60))
@given(
    st.integers(10**11, 10**13),
    st.floats(0, 0.5),
    st.integers(0, 2**32 - 1),
    st.integers(0, 1000),
    st.booleans(),
)
def test_a_flap_is_down_in_the_outages_of_the_reference(
    bench, every_ns, jitter, seed, period, is_down
) -> None:
    """Begun so that now lies in the middle of an outage, or of the pause behind it."""
    flap = Flap(every_ns, every_ns // 2, jitter, seed)
    start_ns, end_ns = flap.outage(period)
    next_ns, _ = flap.outage(period + 1)
    edges = (start_ns, end_ns) if is_down else (end_ns, next_ns)
    assume(edges[1] - edges[0] > 2 * 10**10)
    now_ns = monotonic_ns()
    what = as_abi(FrameRule(action="down"), 7, Schedule(now_ns - sum(edges) // 2, None, flap))
    set_rule(bench, OUT, 0, what)
    assert acts(bench.port_fault[OUT].rule[0], now_ns) == is_down
    assert (send(bench) is None) == is_down
