"""Pure: what a benchmark found, in the terms of perftest (ib_write_bw, ib_write_lat)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Final

from mrc_testbed.metrics.histogram import Histogram, bucket_lower_ns
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.sender import BatchRecord

PEAK_OVER_NS: Final = 20_000_000
"""The peak is the best interval of batches at least this long: a shorter one would be the timer's noise."""


@dataclass(frozen=True, slots=True)
class Times:
    """Completion times of messages, from their first packet to their acknowledgement, in ns."""

    count: int  # messages
    min_ns: float  # least, median, mean, standard deviation, largest
    typical_ns: float
    mean_ns: float
    deviation_ns: float
    p99_ns: float  # percentiles. But for mean and largest, each is within 1.6 % (a histogram's bucket)
    p999_ns: float
    max_ns: float

    def scaled(self, factor: float) -> "Times":
        count, *times_ns = astuple(self)
        return Times(count, *(factor * time_ns for time_ns in times_ns))


@dataclass(frozen=True, slots=True)
class FlowRate:
    """One flow's share."""

    outcome: FlowOutcome  # what became of it
    peak_bps: float  # best payload rate over PEAK_OVER_NS or more; the average where the flow was shorter
    average_bps: float  # payload rate from its first post to its last completion
    messages_per_s: float  # over the same time


@dataclass(frozen=True, slots=True)
class BenchReport:
    """The result of one benchmark."""

    load: Load  # what was sent
    flows: tuple[FlowRate, ...]  # each flow's share
    average_bps: float  # payload of all flows over the time from the first post to the last completion
    messages_per_s: float  # likewise
    completion: Times | None  # completion times of all messages; None when none completed

    @property
    def fairness(self) -> float | None:
        """Jain's index of the flows' average rates; None for a single flow, or when nothing was sent."""
        return jain_index([flow.average_bps for flow in self.flows]) if len(self.flows) > 1 else None

    @property
    def messages(self) -> int:
        """Messages completed."""
        return sum(flow.outcome.messages for flow in self.flows)

    @property
    def wrong_bytes(self) -> int:
        """Received bytes that differ from what was sent."""
        return sum(flow.outcome.wrong_bytes for flow in self.flows)

    @property
    def compared_bytes(self) -> int:
        """Received bytes that were compared."""
        return sum(flow.outcome.compared_bytes for flow in self.flows)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why flows failed, each reason once."""
        return tuple(dict.fromkeys(flow.outcome.error for flow in self.flows if flow.outcome.error))

    @property
    def has_passed(self) -> bool:
        """Return True if every flow completed and every compared byte is right."""
        return not self.errors and self.wrong_bytes == 0


def build_report(
    load: Load,
    outcomes: Sequence[FlowOutcome],
    batches: Mapping[Flow, Sequence[BatchRecord]],
    completion: Histogram,
) -> BenchReport:
    """The report of a benchmark that has ended."""
    begin_ns = min(outcome.start_ns for outcome in outcomes)
    end_ns = max(outcome.end_ns for outcome in outcomes)
    messages = sum(outcome.messages for outcome in outcomes)
    per_second = _per_second(messages, end_ns - begin_ns)
    return BenchReport(
        load=load,
        flows=tuple(_flow_rate(load, outcome, batches[outcome.flow]) for outcome in outcomes),
        average_bps=per_second * load.size_bytes * 8,
        messages_per_s=per_second,
        completion=describe_times(completion),
    )


def describe_times(histogram: Histogram) -> Times | None:
    """The times in a histogram; None when it is empty."""
    found = histogram.percentiles_ns((0.0, 0.5, 0.99, 0.999))
    mean_ns = histogram.mean_ns()
    if found is None or mean_ns is None:
        return None
    counts = histogram.counts()
    edges = pairwise(bucket_lower_ns(index) for index in range(len(counts) + 1))
    middles = [(low + high) / 2 for low, high in edges]
    variance = sum(n * (middle - mean_ns) ** 2 for n, middle in zip(counts, middles, strict=True) if n)
    total = histogram.count
    return Times(
        count=total,
        min_ns=found[0],
        typical_ns=found[1],
        mean_ns=mean_ns,
        deviation_ns=math.sqrt(variance / total),
        p99_ns=found[2],
        p999_ns=found[3],
        max_ns=histogram.max_ns,
    )


def peak_messages_per_s(batches: Iterable[BatchRecord]) -> float | None:
    """Best rate over an interval of batches of PEAK_OVER_NS or more; None when there is no such interval."""
    best: float | None = None
    begin_ns, messages = 0, 0
    for batch in batches:
        if messages == 0:
            begin_ns = batch.begin_ns
        messages += batch.messages
        length_ns = batch.end_ns - begin_ns
        if length_ns >= PEAK_OVER_NS:
            best = max(best or 0.0, _per_second(messages, length_ns))
            messages = 0
    return best


def _flow_rate(load: Load, outcome: FlowOutcome, batches: Sequence[BatchRecord]) -> FlowRate:
    average = _per_second(outcome.messages, outcome.end_ns - outcome.start_ns)
    peak = max(average, peak_messages_per_s(batches) or 0.0)
    bits = load.size_bytes * 8
    return FlowRate(outcome, peak_bps=peak * bits, average_bps=average * bits, messages_per_s=average)


def _per_second(count: int, length_ns: int) -> float:
    return count * 1e9 / length_ns if length_ns > 0 else 0.0


def jain_index(rates: Sequence[float]) -> float | None:
    """1 when all rates are equal, 1 / len(rates) when one flow has everything; None when all are zero.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", 1984.
    """
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else None
