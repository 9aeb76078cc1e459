"""Decides with every reading whether an abort condition has held for long enough. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mrc_testbed.metrics.cpu_use import USE_WINDOW_NS, is_saturated
from mrc_testbed.metrics.series import Reading
from mrc_testbed.scenario.measure.expectation import evaluate
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.spec.abort import AbortCondition, parse_abort


@dataclass(slots=True)
class _Watched:
    condition: AbortCondition
    held_since_ns: int | None = None


class AbortWatch:
    """The abort conditions of one run.

    Args:
        texts: as written in the scenario; they parse, because its plan was made.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._watched = [_Watched(parse_abort(text)) for text in texts]

    def check(self, recording: Recording) -> str | None:
        """Why the run is to end now, one sentence; None while it may go on. Call it after each reading."""
        if recording.zero_ns is None or recording.readings[-1].time_ns <= recording.zero_ns:
            return None
        now_ns = recording.readings[-1].time_ns
        for watched in self._watched:
            reason = _holds(watched.condition, recording)
            if reason is None:
                watched.held_since_ns = None
                continue
            if watched.held_since_ns is None:
                watched.held_since_ns = now_ns
            if now_ns - watched.held_since_ns >= watched.condition.for_ns:
                return f"abort condition '{watched.condition.text}' was met: {reason}"
        return None


def _holds(condition: AbortCondition, recording: Recording) -> str | None:
    if condition.comparison is not None:
        outcome = evaluate(condition.comparison, Measurement(recording))
        if not outcome.has_passed:
            return None
        return ", ".join(f"{each.quantity} was {each.value:g}" for each in outcome.measured)
    earlier = _earlier(recording.readings, USE_WINDOW_NS)
    if earlier is None:
        return None
    use = recording.readings[-1].cpus.since(earlier.cpus)
    if not is_saturated(use):
        return None
    worst = max(use, key=lambda cpu: cpu.busy_ratio)
    return f"CPU {worst.cpu} was {worst.busy_ratio:.0%} busy, {worst.softirq_ratio:.0%} in softirqs"


def _earlier(readings: Sequence[Reading], window_ns: int) -> Reading | None:
    """The latest reading at least *window_ns* before the last one."""
    due_ns = readings[-1].time_ns - window_ns
    return next((reading for reading in reversed(readings) if reading.time_ns <= due_ns), None)
