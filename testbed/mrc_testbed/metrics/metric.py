"""Metric families. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from mrc_testbed.metrics.buckets import ClassicBuckets


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    name: str  # as it stands in the exposition, with `_total` for a counter
    unit: str  # what one of it is, for people; empty for a yes or no
    labels: tuple[str, ...]  # names of its labels
    help: str  # what it counts or shows
    buckets: ClassicBuckets | None = None  # bounds of a histogram
    # counters of the data plane that it shows, each with the value of its last label; None where its labels
    # only say where
    counters: Mapping[IntEnum, str | None] = field(default_factory=dict, hash=False)

    @property
    def type(self) -> MetricType:
        if self.buckets is not None:
            return MetricType.HISTOGRAM
        return MetricType.COUNTER if self.name.endswith("_total") else MetricType.GAUGE
