"""The effect of faults on a job, in figures and in one sentence. Pure.

Faults whose times overlap are one *episode*: a slow step may be due to any of them.

A step is *slow* when it takes more than a tenth longer than the longest one before the episode. The job is
*back* at the end of its last slow step; those after the episode count until SETTLED steps in a row are not
slow. It is not back when the last step of all is slow.

An *effect* is seen only where noise would not do the same:

* So many of the steps that the faults hit are longer than all before, by a hundredth at least, that chance
  does so in 1 of 400 jobs at most; or so many are shorter. With n steps before and m hit, chance alone makes
  the k longest of all lie among the m with probability C(m,k) / C(n+m,k), whatever the distribution of their
  lengths. This includes a median outside the spread before, once the steps are enough to tell.
* Or a single step stands alone: it is slow, and it exceeds the longest before by a larger ratio than that of
  the longest to the shortest before. With n < 20 steps before, their spread is too small, and that ratio is
  raised to the power of 20/n. The step may be one of the SETTLED steps after the faults. Noise of a
  log-normal distribution, however wide, does so in about 1 of 200 jobs at most. Fewer than four steps before
  prove nothing of a single one.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from mrc_testbed.shown import format_alike, format_times
from mrc_testbed.workloads.job import Step
from mrc_testbed.workloads.operation_record import percentile_ns

SETTLED: Final = 10
_SLOW_RATIO: Final = 1.1
_LONGER_RATIO: Final = 1.01
_CHANCE: Final = 0.0025
_FEWEST_BEFORE: Final = 4
_SURE_OF_SPREAD: Final = 20
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Act:
    """The time of a fault; times are CLOCK_MONOTONIC."""

    what: str  # place and condition, such as `p0-t1-0 was away`
    begins_ns: tuple[int, ...]  # of each of its outages, or the one time it began
    end_ns: int  # when the last outage ended, or it lasts to


@dataclass(frozen=True, slots=True)
class Episode:
    """Faults whose times overlap, as a job may feel them; times are CLOCK_MONOTONIC."""

    what: str  # places and conditions
    faults: int  # the number of faults
    calm_ns: int  # from when on nothing was broken before it
    begins_ns: tuple[int, ...]  # of all outages, ascending
    end_ns: int  # when the last one ended, or it lasts to
    until_ns: int  # up to when steps are its own: the next episode, or the end of the job


def find_episodes(acts: Iterable[Act], start_ns: int, until_ns: int) -> list[Episode]:
    """The episodes between two times, oldest first; an act that began before them belongs to its episode."""
    groups: list[list[Act]] = []
    end_ns = start_ns
    for act in sorted(acts, key=lambda act: act.begins_ns[0]):
        if act.end_ns <= start_ns or act.begins_ns[0] >= until_ns:
            continue
        if not groups or act.begins_ns[0] >= end_ns:
            groups.append([])
        groups[-1].append(act)
        end_ns = max(end_ns, act.end_ns)
    nexts_ns = [group[0].begins_ns[0] for group in groups[1:]]
    found: list[Episode] = []
    for group, next_ns in zip(groups, [*nexts_ns, until_ns], strict=False):
        found.append(
            Episode(
                what=join_conditions([act.what for act in group]),
                faults=len(group),
                calm_ns=found[-1].end_ns if found else start_ns,
                begins_ns=tuple(sorted(begin_ns for act in group for begin_ns in act.begins_ns)),
                end_ns=min(max(act.end_ns for act in group), until_ns),
                until_ns=next_ns,
            )
        )
    return found


def join_conditions(conditions: Sequence[str]) -> str:
    """Conditions as one phrase, each once: `A, B and C`; of more than three the first three `and 2 more`."""
    different = list(dict.fromkeys(conditions))
    shown, more = different[:_NAMED], len(different) - _NAMED
    if more > 0:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


@dataclass(frozen=True, slots=True)
class Lengths:
    """The lengths of some steps."""

    count: int
    median_ns: float
    mean_ns: float
    min_ns: int
    max_ns: int

    @classmethod
    def of(cls, lengths_ns: Sequence[int]) -> Self | None:
        """Those of all; None without any."""
        if not lengths_ns:
            return None
        count = len(lengths_ns)
        median_ns = percentile_ns(lengths_ns, 0.5)
        return cls(count, median_ns, sum(lengths_ns) / count, min(lengths_ns), max(lengths_ns))


@dataclass(frozen=True, slots=True)
class Impact:
    """The effect of an episode on a job."""

    what: str  # places and conditions
    faults: int  # the number of faults
    outages: int  # how often they acted
    # before, during: of whole steps before it, and of all that it hit; None without any
    before: Lengths | None
    during: Lengths | None
    is_seen: bool  # whether there is an effect
    slow: Lengths | None  # of the slow steps until the job was back; None without any
    # from the beginning of the last outage to when the job was back, negative when it was back before; None:
    # it was not
    back_ns: int | None

    @property
    def ratio(self) -> float:
        """Mean length of the steps it hit, over the median before; 0 when it is not known."""
        return self.during.mean_ns / self.before.median_ns if self.before and self.during else 0.0


def measure_impact(steps: Sequence[Step], episode: Episode) -> Impact:
    begin_ns = episode.begins_ns[0]
    before = [
        step.length_ns for step in steps if episode.calm_ns <= step.begin_ns and step.end_ns <= begin_ns
    ]
    own = [step for step in steps if step.end_ns > begin_ns and step.begin_ns < episode.until_ns]
    during = [step.length_ns for step in own if step.begin_ns < episode.end_ns]
    felt = [step.length_ns for step in own[: len(during) + SETTLED]]
    slow, back_ns = _slow_steps(own, len(felt), max(before, default=math.inf), episode.begins_ns[-1])
    return Impact(
        what=episode.what,
        faults=episode.faults,
        outages=len(episode.begins_ns),
        before=Lengths.of(before),
        during=Lengths.of(during),
        is_seen=bool(before and during)
        and (_is_beyond_chance(before, during) or _stands_alone(before, felt)),
        slow=Lengths.of(slow),
        back_ns=back_ns,
    )


def _is_beyond_chance(before: Sequence[int], during: Sequence[int]) -> bool:
    longer = sum(length_ns > _LONGER_RATIO * max(before) for length_ns in during)
    shorter = sum(length_ns * _LONGER_RATIO < min(before) for length_ns in during)
    return _chance(len(before), len(during), max(longer, shorter)) <= _CHANCE


def _chance(before: int, during: int, extreme: int) -> float:
    """The probability that by chance the *extreme* longest of all steps are among those during."""
    return math.comb(during, extreme) / math.comb(before + during, extreme)


def _stands_alone(before: Sequence[int], felt: Sequence[int]) -> bool:
    spread = (max(before) / min(before)) ** max(1.0, _SURE_OF_SPREAD / len(before))
    return len(before) >= _FEWEST_BEFORE and max(felt) > max(before) * max(_SLOW_RATIO, spread)


def _slow_steps(
    steps: Sequence[Step], felt: int, longest_ns: float, last_begin_ns: int
) -> tuple[list[int], int | None]:
    """Lengths of the slow steps and `Impact.back_ns`; the first *felt* steps all count."""
    slow, end_ns, settled = list[int](), last_begin_ns, 0
    for at, step in enumerate(steps):
        if at >= felt and settled >= SETTLED:
            break
        if step.length_ns > _SLOW_RATIO * longest_ns:
            slow.append(step.length_ns)
            end_ns, settled = step.end_ns, 0
        elif step.end_ns > last_begin_ns:
            settled += 1
    return slow, end_ns - last_begin_ns if settled or not slow else None


def headline(word: str, impacts: Sequence[Impact], errors: Sequence[str], *, is_over: bool = True) -> str:
    """The state of a job, in one sentence.

    Args:
        word: for a step.
        impacts: of the episodes, oldest first.
        errors: why ranks were lost, each reason once; empty when none was.
        is_over: whether the job has ended.
    """
    ranks = f"the job failed: {'; '.join(errors)}" if errors else "no rank lost"
    if not impacts:
        return f"no fault {'was' if is_over else 'is'} active; {ranks}"
    worst = max(impacts, key=lambda impact: (impact.is_seen, impact.ratio))
    noun = "groups of faults" if any(impact.faults > 1 for impact in impacts) else "faults"
    more = f", the worst of {len(impacts)} {noun}" if len(impacts) > 1 else ""
    change = f"{_claim(worst)}{_change(word, worst)} while {worst.what}{more}"
    return "; ".join((change, *_slowness(word, worst, is_over=is_over), ranks))


def _claim(impact: Impact) -> str:
    if impact.is_seen or impact.before is None or impact.during is None:
        return ""
    hit = impact.during.count
    if _chance(impact.before.count, hit, hit) > _CHANCE:
        return "too few steps to tell: "
    return "no effect seen: "


def _change(word: str, impact: Impact) -> str:
    before, during = impact.before, impact.during
    if during is None:
        return f"no {word} ended"
    if before is None:
        return f"{word} median {format_times(during.median_ns)} (n = {during.count})"
    first, second = format_alike(before.median_ns, during.median_ns)
    return f"{word} median {first} (n = {before.count}) before, {second} (n = {during.count})"


def _slowness(word: str, impact: Impact, *, is_over: bool) -> tuple[str, ...]:
    slow = impact.slow
    if not impact.is_seen or slow is None:
        return ()
    longest = format_times(slow.max_ns)
    if slow.count == 1:
        return f"1 {word} of {longest}, slower than any before", _return(impact, is_over=is_over)
    slower = f"{slow.count} {word}s slower than any before, up to {longest}"
    return slower, _return(impact, is_over=is_over)


def _return(impact: Impact, *, is_over: bool) -> str:
    if impact.back_ns is None:
        return "not back by the end" if is_over else "not back yet"
    if impact.outages == 1:
        return f"back after {format_times(impact.back_ns)}"
    last = f"the last of {impact.outages} {'faults' if impact.outages == impact.faults else 'outages'}"
    if impact.back_ns <= 0:
        return f"back before {last}"
    return f"back {format_times(impact.back_ns)} after {last} began"
