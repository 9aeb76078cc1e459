"""NSCC in the kernel, as a native library and in Python: the same states after the same events."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from types import SimpleNamespace

import pytest
from exploring import examples
from hypothesis import given, settings
from nscc_events import UNIT_BYTES, Event, Life, extreme_parameters, lives, profiles
from nscc_twins import KernelTwin, LibraryTwin, Twin, state_fields
from reference.aimd import Aimd
from reference.congestion import DELAY_SHIFT, CcReason, Congestion
from reference.nscc import PENALTY_SHIFT, Nscc

from mrc_agents.protocol.cc_profile import (
    RATIO_SHIFT,
    CcLink,
    CcParameters,
    CcProfile,
    Setting,
    derive_profile,
)

PACKETS_MASK = 0x1FFFFF
session_fixtures = settings(max_examples=examples(60))


def live(
    parameters: CcParameters,
    events: Iterable[Event],
    twins: Iterable[Twin],
    types: SimpleNamespace,
    algorithm: type[Congestion] = Nscc,
) -> Counter[CcReason]:
    """Checks every twin against the reference after every event; how often each reason was given."""
    life = Life(parameters, algorithm=algorithm)
    reasons: Counter[CcReason] = Counter()
    for twin in twins:
        twin.begin(parameters)
        assert twin.state() == state_fields(life.congestion)
    for event in events:
        step = life.absolute(event)
        reason = life.apply(event.kind, step)
        reasons[CcReason(reason)] += 1
        packets = life.congestion.packets_allowed(parameters.mtu_bytes + 88) & PACKETS_MASK
        expected = (
            reason | life.congestion.may_send() << 8 | life.congestion.requests_sack() << 9 | packets << 10
        )
        for twin in twins:
            answer = twin.step(step | {"kind": types.StepKind[event.kind]})
            assert twin.state() == state_fields(life.congestion), event
            assert answer == expected & 0xFFFFFFFF, event
    return reasons


@session_fixtures
@given(profile=profiles, events=lives)
def test_twins_agree_on_any_life(
    library_twin: LibraryTwin,
    kernel_twin: KernelTwin,
    types: SimpleNamespace,
    profile: CcProfile,
    events: list[Event],
) -> None:
    live(CcParameters.from_profile(profile), events, (library_twin, kernel_twin), types)


@session_fixtures
@given(parameters=extreme_parameters, events=lives)
def test_twins_agree_at_the_ends_of_the_parameters_ranges(
    library_twin: LibraryTwin,
    kernel_twin: KernelTwin,
    types: SimpleNamespace,
    parameters: CcParameters,
    events: list[Event],
) -> None:
    live(parameters, events, (library_twin, kernel_twin), types)


@dataclass(frozen=True)
class Mood:
    """The conditions of a QP for a while; RTTs in base RTTs."""

    rtt_low: float
    rtt_high: float
    marked_ratio: float
    kinds: tuple[str, ...]
    penalties: tuple[int, ...] = (0,)


MOODS = (
    Mood(0.7, 1.01, 0.02, ("SEND", "SACK", "SACK")),
    Mood(1.0, 1.9, 0.2, ("SEND", "SACK", "SACK")),
    Mood(1.5, 3.5, 0.9, ("SEND", "SACK", "INFERRED_LOSS", "FALSE_LOSS")),
    Mood(2.0, 4.0, 0.8, ("SEND", "SEND", "SACK", "NACK", "NACK", "NACK")),
    Mood(1.0, 1.5, 0.1, ("SEND", "SACK", "SACK", "DRAINED", "IDLE"), penalties=(0, 64)),
)


def busy_life(seed: int, length: int) -> list[Event]:
    """A QP that meets an empty fabric, a full one, an incast and a slow receiver, again and again."""
    generator = Random(seed)
    events: list[Event] = []
    while len(events) < length:
        mood = generator.choice(MOODS)
        for _ in range(generator.randint(20, 120)):
            rtt_ratio = Fraction(generator.uniform(mood.rtt_low, mood.rtt_high))
            events.append(
                Event(
                    kind=generator.choice(mood.kinds),
                    elapsed_rtts=Fraction(generator.choice([0, 1, 1, 4, 40]), 32),
                    rtt_ratio=rtt_ratio if generator.random() < 0.9 else Fraction(0),
                    edge=generator.choice([None] * 20 + ["target_delay_ns", "no_delay_ns"]),
                    packets=generator.choice([0, 1, 1, 2]),
                    units_back=generator.choice([0] * 9 + [20]),
                    penalty=generator.choice(mood.penalties),
                    is_penalty_over=len(mood.penalties) > 1 and generator.random() < 0.1,
                    is_marked=generator.random() < mood.marked_ratio,
                    is_trimmed=generator.random() < 0.9,
                )
            )
    return events


LINKS = pytest.mark.parametrize("link", [CcLink(400 * 10**6, 750_000, 2048), CcLink(10**11, 12_000, 4096)])


@LINKS
def test_twins_agree_on_long_lives_that_know_every_reason(
    library_twin: LibraryTwin, kernel_twin: KernelTwin, types: SimpleNamespace, link: CcLink
) -> None:
    parameters = CcParameters.from_profile(derive_profile(link))
    reasons = live(parameters, busy_life(1, 3_000), (library_twin, kernel_twin), types)
    assert reasons.keys() == set(CcReason)


@LINKS
def test_twins_agree_where_averages_and_sums_lie_exactly_on_thresholds(
    library_twin: LibraryTwin, kernel_twin: KernelTwin, types: SimpleNamespace, link: CcLink
) -> None:
    exact: dict[str, Setting] = {"delay_gain": 1, "adjust_bytes_threshold": 9 * UNIT_BYTES}
    parameters = CcParameters.from_profile(derive_profile(link, exact))
    live(parameters, busy_life(2, 2_000), (library_twin, kernel_twin), types)


@session_fixtures
@given(profile=profiles, events=lives)
def test_aimd_agrees_on_any_life(
    aimd_twin: KernelTwin, types: SimpleNamespace, profile: CcProfile, events: list[Event]
) -> None:
    live(CcParameters.from_profile(profile), events, (aimd_twin,), types, Aimd)


@LINKS
def test_aimd_agrees_on_long_lives_that_know_all_its_reasons(
    aimd_twin: KernelTwin, types: SimpleNamespace, link: CcLink
) -> None:
    parameters = CcParameters.from_profile(derive_profile(link))
    reasons = live(parameters, busy_life(1, 3_000), (aimd_twin,), types, Aimd)
    assert reasons.keys() == {
        CcReason.NONE,
        CcReason.FAIR_INCREASE,
        CcReason.MULTIPLICATIVE_DECREASE,
        CcReason.TRIM,
        CcReason.LOSS,
    }


def test_formats_and_reasons_are_those_of_the_reference(types: SimpleNamespace) -> None:
    declared = {member.name: member.value for member in types.CcReason}
    assert declared == {reason.name: int(reason) for reason in CcReason} | {"REASON_COUNT": len(CcReason)}
    layout = types.CcFormat
    assert (layout.RATIO_SHIFT, layout.DELAY_SHIFT) == (RATIO_SHIFT, DELAY_SHIFT)
    assert layout.PENALTY_SHIFT == PENALTY_SHIFT
