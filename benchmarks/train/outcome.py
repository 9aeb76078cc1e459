"""Jobs that have ended: steps of their ranks, the fault, the end. Pure."""

import json
import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median
from typing import Final

from benchmarks.train.plan import SECOND_NS, Job
from mrc_testbed.workloads.impact import Act, find_episodes, headline, measure_impact
from mrc_testbed.workloads.job import Step as JobStep

BESIDE_NS: Final = 10 * SECOND_NS
"""Time of a job beside that of its fault: half until `fault add` has begun it, half to recover."""

PHASES: Final = ("before", "during", "after")


@dataclass(frozen=True, slots=True)
class Step:
    """A step of one rank: ns of CLOCK_MONOTONIC, and the loss as float.hex() has it."""

    number: int
    began_ns: int
    ended_ns: int
    loss: str


@dataclass(slots=True)
class Outcome:
    """A job that has ended."""

    job: Job | None  # what was run; None: gloo, over the management network
    started_ns: int  # when its processes were
    steps: dict[int, list[Step]] = field(default_factory=dict)  # rank -> its steps
    fault_ns: tuple[int, int] | None = None  # from when to when the fault acted
    failure: str = ""  # the first line that says why it ended early; empty where it did not

    def take(self, line: str) -> tuple[int, Step] | None:
        """Note a line of `launch`'s output; the step that it is about, and its rank."""
        head, _, text = line.partition("] ")
        if not head.startswith("[") or not text.startswith("{"):
            return None
        values = json.loads(text)
        step = Step(values["step"], values["began_ns"], values["ended_ns"], values["loss"])
        rank = int(head[1:])
        self.steps.setdefault(rank, []).append(step)
        return rank, step

    @property
    def done_steps(self) -> int:
        """Steps that all ranks have done."""
        return min((len(steps) for steps in self.steps.values()), default=0)

    def times(self) -> list[tuple[int, int]]:
        """(2,) end and length in ns of each step but the first: from the last rank's end to the next such."""
        ends = [
            max(steps[number].ended_ns for steps in self.steps.values()) for number in range(self.done_steps)
        ]
        return [(end, end - before) for before, end in pairwise(ends)]

    def times_of(self, phase: str) -> list[int]:
        """Lengths of the steps that ended before, during or after the fault; without one all are `before`."""
        return [length for end, length in self.times() if self._phase(end - length, end) == phase]

    def _phase(self, began_ns: int, ended_ns: int) -> str:
        if self.fault_ns is None or ended_ns < self.fault_ns[0]:
            return "before"
        return "during" if began_ns < self.fault_ns[1] else "after"

    def median_ns(self, phase: str) -> float | None:
        """The middle of those lengths."""
        times = self.times_of(phase)
        return median(times) if times else None

    @property
    def longest_ns(self) -> int | None:
        return max((length for _, length in self.times()), default=None)

    @property
    def start_ns(self) -> int | None:
        """From the start of the processes to the first step of the last rank."""
        firsts = [steps[0].began_ns for steps in self.steps.values() if steps]
        return max(firsts) - self.started_ns if firsts else None

    def lengthened(self, job: Job) -> Job:
        """The job with steps for its fault and BESIDE_NS, if none is shorter than the shortest here."""
        shortest_ns = min((length for _, length in self.times()), default=None)
        if shortest_ns is None or job.fault is None:
            return job
        after = math.ceil((job.ports.fault_ns + BESIDE_NS) / shortest_ns)
        return replace(job, steps=max(job.steps, job.ports.lead_steps + after))

    def headline(self) -> str:
        """The effect of the fault on the steps, also where there is none."""
        steps = [JobStep(end - length, end, "") for end, length in self.times()]
        impacts = []
        if self.job and self.job.fault and self.fault_ns and steps:
            act = Act(f"it went through {self.job.fault.title}", self.fault_ns[:1], self.fault_ns[1])
            episodes = find_episodes([act], steps[0].begin_ns, steps[-1].end_ns)
            impacts = [measure_impact(steps, each) for each in episodes]
        return headline("step", impacts, [self.failure] if self.failure else [])

    def losses(self) -> dict[tuple[int, int], str]:
        """(rank, step) -> loss."""
        return {(rank, step.number): step.loss for rank, steps in self.steps.items() for step in steps}

    def mean_losses(self) -> list[float]:
        """Mean loss of the ranks, by step."""
        return [
            sum(float.fromhex(steps[number].loss) for steps in self.steps.values()) / len(self.steps)
            for number in range(self.done_steps)
        ]


def differing(outcome: Outcome, reference: Outcome) -> int:
    """The number of losses that differ from those of the reference, by any bit."""
    expected = reference.losses()
    return sum(loss != expected.get(where) for where, loss in outcome.losses().items())


def reason_of(complaints: list[str]) -> str:
    """Why a job ended early, of the lines on stderr: what the backend says, else what `launch` does."""
    for mark in ("DistBackendError: ", "error: "):
        for line in complaints:
            if mark in line:
                return line.partition(mark)[2]
    return complaints[-1] if complaints else "it said nothing"
