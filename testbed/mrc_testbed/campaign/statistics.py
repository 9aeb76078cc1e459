"""Statistics of repeated runs: medians with intervals, and tests of two cells. Pure; by scipy.

Runs of a cell are few and their figures are not normally distributed, so everything here goes by rank:
medians, bootstrap intervals (percentile method), the Mann-Whitney U test, Cliff's delta, Holm's correction.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, median
from typing import Final, Literal

from mrc_testbed.shown import format_share

CONFIDENCE: Final = 0.95
SIGNIFICANCE: Final = 0.01
"""Level for all comparisons of a table together: without differences, one table in a hundred shows one."""

POWER: Final = 0.8
SEEDS_MIN: Final = 6
"""Least number for an interval, a comparison and the gate. With five, all of their range holds the median in
less than 95 % of cases: 1 - 2 / 2**5.
"""

# What a figure of a cell is: one figure of each run, or one of what all runs measured.
MEDIAN_OF_RUNS: Final = "median of runs"
ALL_TIMES: Final = "times of all runs together"

RUNS_TIMES_MAX: Final = 5
"""Limit of the runs that are named as wanted, in times of those there are."""

_RESAMPLES: Final = 9_999
_BOUND_RESAMPLES: Final = 1_000
_ORDERS_MAX: Final = 12_870
"""All orders of eight runs and eight others; of more runs with ties, so many are drawn."""

_ROUNDING: Final = 1e-9
"""Sums of ranks that differ by less are equal."""

_EXACT_RUNS_MAX: Final = 10
"""Limit of the larger side: above it U has its normal approximation, up to it every order is counted."""

_MODE_RUNS_MIN: Final = 3
_MODE_GAP: Final = 3
"""Least gap between two modes, in times of what the wider one's runs differ by: fewer than one normal or
exponential sample in a hundred has one.
"""

Pair = tuple[Sequence[float], Sequence[float]]
"""Values of two cells that are compared."""

Finding = Literal["more", "less", "equal", "not shown", "too few runs"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of a cell's runs."""

    runs: int  # how many
    median: float  # of their values, in the base unit
    # low, high: ends of its 95 % bootstrap interval; None with fewer than SEEDS_MIN runs
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RankTest:
    """Two cells compared by the ranks of their runs."""

    p: float  # of the two-sided Mann-Whitney U test
    # Cliff's delta, -1 to 1: how much more often a run of the first is above one of the second than below it
    delta: float
    least_p: float  # the least p that so many runs can reach
    is_equal: bool = False  # whether all runs of both are equal


@dataclass(frozen=True, slots=True)
class Effect:
    """A rank test among several, judged."""

    test: RankTest  # alone
    p: float  # corrected for the number of comparisons (Holm)
    # whether the first is `more` or `less` than the second, both `equal` in every run, a difference is `not
    # shown`, or these are `too few runs` for any difference to show
    finding: Finding
    # how many more of each side would show a difference of this size four times in five, or are needed for
    # any to show; None where one is shown, there is none to show, or where it takes more than RUNS_TIMES_MAX
    # times the runs there are
    more_runs: int | None
    # share of the second's median that the medians differ by at most, with CONFIDENCE; of a difference that
    # is not shown, None where too few runs or a median of 0 do not tell
    within: float | None = None

    def verdict(self, better: str | None) -> str:
        """`better` or `worse` where that is known, else `more` or `less`; or why neither is shown."""
        wanted = "" if self.more_runs is None else f", {self.more_runs} more would do"
        match self.finding:
            case "more" | "less":
                if better is None:
                    return self.finding
                return "better" if self.finding == better else "worse"
            case "too few runs":
                return f"too few runs to tell{wanted}"
            case "not shown":
                if self.within is None:
                    return f"no difference shown{wanted}"
                alike = f"within \N{PLUS-MINUS SIGN}{format_share(self.within)} ({CONFIDENCE:.0%})"
                return f"no difference shown, {alike}{wanted}"
            case "equal":
                return "equal"


def median_ratio(values: Sequence[float], others: Sequence[float]) -> float | None:
    """Median of *values* by the median of *others*; None where that is 0."""
    other = median(others)
    return None if other == 0 else median(values) / other


def estimate(values: Sequence[float]) -> Estimate:
    """Median and interval of at least one value; the same values give the same interval."""
    middle = float(median(values))
    if len(values) < SEEDS_MIN:
        return Estimate(len(values), middle, None, None)
    if min(values) == max(values):
        return Estimate(len(values), middle, middle, middle)
    # They take a second to import, and most commands do without.
    import numpy as np  # noqa: PLC0415
    from scipy import stats  # noqa: PLC0415

    interval = stats.bootstrap(
        (values,), np.median, confidence_level=CONFIDENCE, n_resamples=_RESAMPLES, method="percentile", rng=0
    ).confidence_interval
    return Estimate(len(values), middle, float(interval.low), float(interval.high))


def two_modes(values: Sequence[float], least_gap: float) -> tuple[Estimate, Estimate] | None:
    """Return the two groups that the runs of a cell fall into; None where they are one.

    Args:
        least_gap: what the groups differ by at least.
    """
    ordered = sorted(values)
    cuts = range(_MODE_RUNS_MIN, len(ordered) - _MODE_RUNS_MIN + 1)
    cut = max(cuts, key=lambda cut: ordered[cut] - ordered[cut - 1], default=None)
    if cut is None:
        return None
    low, high = ordered[:cut], ordered[cut:]
    range_max = max(group[-1] - group[0] for group in (low, high))
    if low[0] == high[-1] or high[0] - low[-1] < max(least_gap, _MODE_GAP * range_max):
        return None
    return estimate(low), estimate(high)


def rank_test(values: Sequence[float], others: Sequence[float], blocks: Sequence[Pair] = ()) -> RankTest:
    """*values* against *others*, at least one each.

    Args:
        values: of the runs of a cell.
        blocks: the same values by machine, where these are several: then ranks count within a machine only.
    """
    if len(blocks) > 1:
        return _blocked_test([block for block in blocks if all(block)])
    least_p = _least_p(len(values), len(others))
    if min(*values, *others) == max(*values, *others):
        return RankTest(1.0, 0.0, least_p, is_equal=True)
    statistic, p = _mann_whitney(values, others, "two-sided")
    delta = 2 * statistic / (len(values) * len(others)) - 1
    return RankTest(min(1.0, max(least_p, p)), delta, least_p)


def _blocked_test(blocks: Sequence[Pair]) -> RankTest:
    """Test by ranks within blocks (van Elteren, 1960): exact for few orders, else approximately normal."""
    from scipy import stats  # noqa: PLC0415

    orders, wins, pairs, variance = 1, 0.0, 0, 0.0
    weighted: list[tuple[list[float], int]] = []  # ranks less their mean, by weight; and how many are ours
    for values, others in blocks:
        own, count = len(values), len(values) + len(others)
        ranks = [float(rank) for rank in stats.rankdata([*values, *others])]
        wins += sum(ranks[:own]) - own * (own + 1) / 2
        pairs += own * len(others)
        orders *= math.comb(count, own)
        weighted.append(([(rank - (count + 1) / 2) / (count + 1) for rank in ranks], own))
        variance += own * len(others) / (count * (count - 1)) * sum(each**2 for each in weighted[-1][0])
    least_p = min(1.0, 2 / orders)
    if variance == 0:
        return RankTest(1.0, 0.0, least_p, is_equal=bool(blocks))
    found = abs(sum(sum(ranks[:own]) for ranks, own in weighted))
    if orders <= _ORDERS_MAX:
        sums = [[sum(chosen) for chosen in itertools.combinations(*each)] for each in weighted]
        p = sum(abs(sum(each)) >= found - _ROUNDING for each in itertools.product(*sums)) / orders
    else:
        p = 2 * NormalDist().cdf(-found / math.sqrt(variance))
    return RankTest(min(1.0, max(least_p, p)), 2 * wins / pairs - 1, least_p)


def excess_p(values: Mapping[int, float], limits: Mapping[int, float]) -> float:
    """Return the p of the hypothesis that *values* are not above *limits*.

    Two one-sided tests: by the ranks of all runs (Mann-Whitney U), and by the ranks of the differences
    between runs of the same seed (Wilcoxon), which sees through what the seeds themselves differ by. Twice
    the smaller p counts (Bonferroni).

    Args:
        values: seed -> value, of at least one run.
        limits: the same of the runs that they are compared with.
    """
    p = least = 1.0
    if len({*values.values(), *limits.values()}) > 1:
        _, p = _mann_whitney(tuple(values.values()), tuple(limits.values()), "greater")
        least = 1 / math.comb(len(values) + len(limits), len(values))
    differences = [value - limits[seed] for seed, value in values.items() if seed in limits]
    if any(differences):
        from scipy import stats  # noqa: PLC0415

        paired = float(stats.wilcoxon(differences, alternative="greater").pvalue)
        p, least = min(p, paired), min(least, 0.5 ** len(differences))
    return min(1.0, 2 * max(p, least))


def seeds_needed(comparisons: int) -> int:
    """The least number of seeds on both sides with which one of so many comparisons can be significant."""
    level = SIGNIFICANCE / comparisons
    return next(runs for runs in itertools.count(SEEDS_MIN) if _least_p(runs, runs) <= level)


def corrected(values: Sequence[float]) -> list[float]:
    """Correct p values so that all of them together are wrong no more often than one alone (Holm)."""
    found = [1.0] * len(values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        largest = max(largest, min(1.0, values[index] * (len(values) - rank)))
        found[index] = largest
    return found


def judge(pairs: Sequence[Pair], blocks: Sequence[Sequence[Pair]] | None = None) -> list[Effect]:
    """Judge comparisons that are made together: all of a table, by the values of both sides.

    Args:
        blocks: of each, its values by machine; None: all are of one.
    """
    within = blocks or [()] * len(pairs)
    tests = [rank_test(*pair, each) for pair, each in zip(pairs, within, strict=True)]
    runs = [min(map(len, pair)) for pair in pairs]
    values = corrected([test.p for test in tests])
    effects = [_effect(test, p, each, len(tests)) for test, p, each in zip(tests, values, runs, strict=True)]
    return [
        replace(effect, within=_within(*pair)) if effect.finding == "not shown" else effect
        for effect, pair in zip(effects, pairs, strict=True)
    ]


def ratio_interval(values: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % bootstrap interval of the ratio of medians.

    None with fewer than SEEDS_MIN runs on a side, and where the median of *others* is 0.
    """
    if min(len(values), len(others)) < SEEDS_MIN or median(others) == 0:
        return None
    import numpy as np  # noqa: PLC0415

    generator = np.random.default_rng(0)
    own, other = (
        np.median(generator.choice(each, (_BOUND_RESAMPLES, len(each))), axis=1) for each in (values, others)
    )
    ratios = 1 + (own - other) / median(others)
    low, high = np.quantile(ratios, ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    return float(low), float(high)


def _within(values: Sequence[float], others: Sequence[float]) -> float | None:
    """Share of the median of *others* that the medians differ by at most: the far end of its interval."""
    found = ratio_interval(values, others)
    return None if found is None else max(abs(end - 1) for end in found)


def _effect(test: RankTest, p: float, runs: int, comparisons: int) -> Effect:
    if p <= SIGNIFICANCE and runs >= SEEDS_MIN:
        return Effect(test, p, "more" if test.delta > 0 else "less", None)
    if test.is_equal:
        return Effect(test, p, "equal", None)
    level = SIGNIFICANCE / comparisons
    if test.least_p > level or runs < SEEDS_MIN:
        return Effect(test, p, "too few runs", max(1, seeds_needed(comparisons) - runs))
    wanted = _runs_for(test.delta, level)
    more = wanted - runs if wanted is not None and runs < wanted <= RUNS_TIMES_MAX * runs else None
    return Effect(test, p, "not shown", more)


def _mann_whitney(
    values: Sequence[float], others: Sequence[float], alternative: Literal["two-sided", "greater"]
) -> tuple[float, float]:
    """U and p: exact for few runs, by the normal approximation for more."""
    from scipy import stats  # noqa: PLC0415

    is_small = max(len(values), len(others)) <= _EXACT_RUNS_MAX
    has_ties = len({*values, *others}) < len(values) + len(others)
    method: stats.PermutationMethod | Literal["exact", "asymptotic"] = (
        "exact" if is_small and not has_ties else "asymptotic"
    )
    if is_small and has_ties and min(len(values), len(others)) > 1:
        # where there are no more orders than that, scipy counts them all in place of drawing
        method = stats.PermutationMethod(n_resamples=_ORDERS_MAX, rng=0)
    found = stats.mannwhitneyu(values, others, alternative=alternative, method=method)
    return float(found.statistic), float(found.pvalue)


def _least_p(runs: int, others: int) -> float:
    return min(1.0, 2 / math.comb(runs + others, runs))


def _runs_for(delta: float, level: float) -> int | None:
    """Runs of each side that show *delta* at *level* with POWER (Noether, 1987); None for a delta of 0."""
    if delta == 0:
        return None
    quantiles = NormalDist().inv_cdf(1 - level / 2) + NormalDist().inv_cdf(POWER)
    return math.ceil(2 * quantiles**2 / (3 * delta**2))
