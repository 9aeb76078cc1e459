"""The jobs of a lab as `top` and `serve` show them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mrc_testbed.fabric.fault_log import FaultWindow
from mrc_testbed.faults.condition import describe_condition
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.shown import format_times
from mrc_testbed.topology.clos import Clos
from mrc_testbed.workloads.job import Episode, Pace, Step, headline, measure_impact, measure_pace
from mrc_testbed.workloads.job_ring import RunningJob

PACE_NS: Final = 30 * 1_000_000_000
"""Over so long a time steps are counted."""

_LATEST_STEPS: Final = 10
_STALLED_STEPS: Final = 3
"""So many times the p99 of its steps a job may stand still before the headline says so."""


@dataclass(frozen=True, slots=True)
class JobView:
    """A job.

    Attributes:
        name: of its workload.
        word: what its steps are called.
        pace: of the last PACE_NS, or when no step lies in it, of the latest few; None before the first.
        headline: what the latest fault does to it, in one sentence.
        steps: when each of the latest ended, and how long it took; oldest first.
    """

    name: str
    word: str
    pace: Pace | None
    headline: str
    steps: tuple[tuple[int, int], ...]


def build_jobs(
    jobs: Iterable[RunningJob],
    windows: Sequence[FaultWindow],
    flaps: Mapping[str, Schedule],
    clos: Clos,
    now_ns: int,
) -> tuple[JobView, ...]:
    """State of the jobs at *now_ns*, and the effect of the latest fault on each.

    Args:
        jobs: that run.
        windows: of faults, oldest first.
        flaps: fault -> its outages, of those that have one window for all of them.
        clos: topology of the lab.
        now_ns: CLOCK_MONOTONIC.
    """
    return tuple(_view(job, windows, flaps, clos, now_ns) for job in jobs)


def _view(
    job: RunningJob, windows: Sequence[FaultWindow], flaps: Mapping[str, Schedule], clos: Clos, now_ns: int
) -> JobView:
    begin_ns = max(now_ns - PACE_NS, job.steps[0].begin_ns) if job.steps else now_ns
    pace = measure_pace(job.steps, begin_ns, now_ns) or _pace_of_latest(job.steps)
    episode = _latest(job.steps, windows, flaps, clos, now_ns)
    impacts = [measure_impact(job.steps, episode)] if episode else []
    sentence = headline(job.word, impacts, [], is_over=False)
    idle_ns = now_ns - job.steps[-1].end_ns if job.steps else 0
    if pace is not None and idle_ns > _STALLED_STEPS * pace.p99_ns:
        sentence = f"no {job.word} has ended for {format_times(idle_ns)}; {sentence}"
    steps = tuple((step.end_ns, step.length_ns) for step in job.steps)
    return JobView(job.name, job.word, pace, sentence, steps)


def _pace_of_latest(steps: Sequence[Step]) -> Pace | None:
    """The pace of a job whose steps are long, or that stands still."""
    if not steps:
        return None
    latest = steps[-_LATEST_STEPS:]
    return measure_pace(latest, latest[0].begin_ns, latest[-1].end_ns)


def _latest(
    steps: Sequence[Step],
    windows: Sequence[FaultWindow],
    flaps: Mapping[str, Schedule],
    clos: Clos,
    now_ns: int,
) -> Episode | None:
    """The fault that began last of those that began after the job."""
    if not steps or not windows:
        return None
    begins: dict[str, FaultWindow] = {}
    for window in windows:
        begins.setdefault(window.fault_id, window)
    first = max(begins.values(), key=lambda window: window.start_ns)
    if first.start_ns <= steps[0].begin_ns:
        return None
    own = [window for window in windows if window.fault_id == first.fault_id]
    others = [window for window in windows if window.fault_id != first.fault_id]
    over = [
        window.end_ns for window in others if window.end_ns is not None and window.end_ns <= first.start_ns
    ]
    end_ns = own[-1].end_ns or now_ns
    begins_ns = tuple(window.start_ns for window in own)
    if len(own) == 1 and first.fault_id in flaps:
        begins_ns = flaps[first.fault_id].outage_begins_ns(end_ns) or begins_ns
    return Episode(
        what=describe_condition(first.kind, first.links, first.nodes, clos),
        calm_ns=max([steps[0].begin_ns, *over]),
        begins_ns=begins_ns,
        end_ns=end_ns,
        until_ns=now_ns,
    )
