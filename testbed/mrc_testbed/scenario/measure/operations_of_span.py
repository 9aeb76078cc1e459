"""Collectives and steps of one workload in one part of a run, and what they say. Pure."""

from dataclasses import dataclass
from statistics import fmean
from typing import Self

from mrc_testbed.scenario.measure.recording import NotMeasured, Recording, Span
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.job import Step, idle_shares, steps_per_second
from mrc_testbed.workloads.operation_record import OperationRecord, finite, last_loss
from mrc_testbed.workloads.program import SharedWork


@dataclass(frozen=True, slots=True)
class OperationsOfSpan:
    """Operations of a collective workload, or steps of a program; `NotMeasured` where a figure needs some."""

    work: SharedWork  # what they were
    span: Span  # the part of the run
    operations: tuple[OperationRecord, ...]  # in it, oldest first

    @classmethod
    def of(cls, recording: Recording, workload: str, span: Span, *, with_overlapping: bool) -> Self:
        """Those of a span of a run.

        Args:
            span: the part of the run.
            with_overlapping: also those that reach beyond it; else only whole ones.
        """
        planned = next(each for each in recording.plan.workloads if each.name == workload)
        if planned.shared_work is None:
            raise NotMeasured(f"{workload} is {planned.kind}, which has no operations")
        found = [
            each
            for each in recording.operations.get(workload, ())
            if (
                each.step_begin_ns < span.end_ns and each.end_ns > span.start_ns
                if with_overlapping
                else span.start_ns <= each.step_begin_ns and each.end_ns <= span.end_ns
            )
        ]
        return cls(planned.shared_work, span, tuple(found))

    def __len__(self) -> int:
        return len(self.operations)

    def durations_ns(self) -> list[int]:
        """Duration of each collective."""
        self._collective()
        return [each.duration_ns for each in self._some()]

    def steps_ns(self) -> list[int]:
        """Duration of each step, computing included."""
        return [each.step_ns for each in self._some()]

    def algorithm_bps(self) -> float:
        """Data of a rank over the mean time of a collective, bit/s."""
        times_ns = self.durations_ns()
        return self._collective().size_bytes * 8e9 * len(times_ns) / sum(times_ns)

    def bus_bps(self) -> float:
        """Rate that the busiest NIC had to send at during the collectives, bit/s."""
        return self.algorithm_bps() * self._collective().bus_factor

    def last_loss(self) -> float:
        """Loss of the last step that has one."""
        loss = last_loss(self._some())
        if loss is None:
            raise NotMeasured("its ranks reported no loss")
        if finite(loss) is None:
            raise NotMeasured("that of the last step is not finite")
        return loss

    def idle(self) -> float:
        """Mean share of the time of all ranks in which they do not compute."""
        shares = idle_shares(self.work.ranks, self._some())
        if shares is None:
            raise NotMeasured("it is not known how long its ranks compute")
        return fmean(shares.values())

    def per_second(self) -> float:
        """Operations per second of the span; one that lies in it by half counts half."""
        steps = [Step.of(each) for each in self._some()]
        return steps_per_second(steps, self.span.start_ns, self.span.end_ns)

    def _collective(self) -> Collective:
        if isinstance(self.work, Collective):
            return self.work
        raise NotMeasured("the collectives of a program or trace are its own")

    def _some(self) -> tuple[OperationRecord, ...]:
        if not self.operations:
            raise NotMeasured(f"no operation of it lies in this window of {self.span.length_ns / 1e9:.3g} s")
        return self.operations
