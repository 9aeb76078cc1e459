"""The jobs of a lab as `top` and `serve` show them. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from mrc_testbed.fabric.fault_log import FaultWindow
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.faults.spec import describe_condition
from mrc_testbed.shown import format_alike, format_times
from mrc_testbed.topology.clos import Clos
from mrc_testbed.workloads.impact import Act, Episode, Impact, find_episodes, headline, measure_impact
from mrc_testbed.workloads.job import Pace, Step, measure_pace
from mrc_testbed.workloads.job_ring import RunningJob

PACE_NS: Final = 30 * 1_000_000_000
"""Time over which steps are counted, and for which a headline stays after its faults have ended."""

_LATEST_STEPS: Final = 10
_STALLED_STEPS: Final = 3
"""So many times the p99 of its steps a job may stand still before the headline says so."""


@dataclass(frozen=True, slots=True)
class JobView:
    name: str  # of its workload
    word: str  # what its steps are called
    # of the last PACE_NS, or when no step lies in it, of the latest few; None before the first
    pace: Pace | None
    headline: str  # what the latest faults do to it, or its steps now and before, in one sentence
    steps: tuple[tuple[int, int], ...]  # when each of the latest ended, and how long it took; oldest first


def build_jobs(
    jobs: Iterable[RunningJob],
    windows: Sequence[FaultWindow],
    flaps: Mapping[str, Schedule],
    clos: Clos,
    now_ns: int,
) -> tuple[JobView, ...]:
    """State of the jobs at *now_ns*, and the effect of the latest faults on each.

    Args:
        windows: of faults, oldest first.
        flaps: fault -> its outages, of those that have one window for all of them.
    """
    return tuple(_view(job, windows, flaps, clos, now_ns) for job in jobs)


def _view(
    job: RunningJob, windows: Sequence[FaultWindow], flaps: Mapping[str, Schedule], clos: Clos, now_ns: int
) -> JobView:
    begin_ns = max(now_ns - PACE_NS, job.steps[0].begin_ns) if job.steps else now_ns
    pace = measure_pace(job.steps, begin_ns, now_ns) or _pace_of_latest(job.steps)
    impact = _latest_impact(job.steps, _acts(windows, flaps, clos, now_ns), now_ns)
    sentence = headline(job.word, [impact], [], is_over=False) if impact else _trend(job, begin_ns)
    idle_ns = now_ns - job.steps[-1].end_ns if job.steps else 0
    if pace is not None and idle_ns > _STALLED_STEPS * pace.p99_ns:
        sentence = f"no {job.word} has ended for {format_times(idle_ns)}; {sentence}"
    steps = tuple((step.end_ns, step.length_ns) for step in job.steps)
    return JobView(job.name, job.word, pace, sentence, steps)


def _trend(job: RunningJob, begin_ns: int) -> str:
    """The steps since a time against those before, where no fault is known that explains them."""
    before = [step.length_ns for step in job.steps if step.begin_ns < begin_ns]
    latest = [step.length_ns for step in job.steps if step.begin_ns >= begin_ns]
    if not before or not latest:
        return f"no {job.word}s to compare with yet"
    first, second = format_alike(median(before), median(latest))
    return f"{job.word} median {first} before, {second} in the last {format_times(PACE_NS)}"


def _pace_of_latest(steps: Sequence[Step]) -> Pace | None:
    """The pace of a job whose steps are long, or that stands still."""
    if not steps:
        return None
    latest = steps[-_LATEST_STEPS:]
    return measure_pace(latest, latest[0].begin_ns, latest[-1].end_ns)


def _latest_impact(steps: Sequence[Step], acts: Iterable[Act], now_ns: int) -> Impact | None:
    """The impact of the faults that act, or of the latest; None when the job has long been back."""
    episodes = find_episodes(acts, steps[0].begin_ns, now_ns) if steps else []
    if not episodes:
        return None
    impact = measure_impact(steps, episodes[-1])
    return impact if _is_shown(impact, episodes[-1], now_ns) else None


def _is_shown(impact: Impact, episode: Episode, now_ns: int) -> bool:
    """Return True until PACE_NS after the faults have ended and the job is back."""
    over_ns = episode.end_ns
    if impact.is_seen:
        if impact.back_ns is None:
            return True
        over_ns = max(over_ns, episode.begins_ns[-1] + impact.back_ns)
    return now_ns < over_ns + PACE_NS


def _acts(
    windows: Sequence[FaultWindow], flaps: Mapping[str, Schedule], clos: Clos, now_ns: int
) -> Iterator[Act]:
    """The time of each fault; windows of one fault that lie PACE_NS apart count as two faults."""
    parts: dict[str, list[list[FaultWindow]]] = {}
    for window in windows:
        own = parts.setdefault(window.fault_id, [])
        if own and window.start_ns - (own[-1][-1].end_ns or now_ns) < PACE_NS:
            own[-1].append(window)
        else:
            own.append([window])
    for fault_id, own in parts.items():
        for part in own:
            first = part[0]
            end_ns = min(now_ns, (part[-1].end_ns or now_ns) + _pause_ns(part))
            begins_ns = tuple(window.start_ns for window in part)
            if len(own) == len(part) == 1 and fault_id in flaps:
                begins_ns = flaps[fault_id].outage_begins_ns(end_ns) or begins_ns
            yield Act(describe_condition(first.kind, first.links, first.nodes, clos), begins_ns, end_ns)


def _pause_ns(outages: Sequence[FaultWindow]) -> int:
    """The longest time between two outages of a flap: it acts for so long after the last one too."""
    if outages[0].kind != "link-flap":
        return 0
    pauses_ns = (after.start_ns - (each.end_ns or after.start_ns) for each, after in pairwise(outages))
    return max(pauses_ns, default=0)
