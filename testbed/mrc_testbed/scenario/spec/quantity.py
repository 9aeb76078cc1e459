"""The quantities of expectations, and the dimension of each. Pure.

`scenario.measure.measurement` has a function for each, whose docstring is its meaning in the reference page.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from mrc_testbed.errors import did_you_mean

LatencyName = Literal["message_completion", "packet_rtt"]
LATENCIES: Final[tuple[LatencyName, ...]] = ("message_completion", "packet_rtt")

WORKLOAD_TIMES: Final = ("step_time", "collective_time")
"""Times that each workload has of its own; the workload follows in parentheses: `p99(step_time(job))`."""

_PERCENTILE: Final = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,4})?)")


Better = Literal["more", "less"]
Argument = Literal["workload", "collective", "job", "program", "fault", "latency"]

LatenessEffect = Literal[
    "none", "rate", "pace", "dip", "time", "mean time", "gap", "share", "count", "added", "resent"
]
"""Ways in which a late machine changes a value; `scenario.measure.lateness_bounds` has the bounds of each."""

OF_WORKLOADS: Final[tuple[Argument, ...]] = ("workload", "collective", "job", "program")
"""Arguments that name a workload: one whose flows are the testbed's, one of collectives, one with operations
or steps, one that reports its loss."""


class Dimension(StrEnum):
    """The dimension of a value; only equal dimensions are added or compared. The base unit is in brackets."""

    COUNT = "count"
    RATIO = "ratio"
    TIME = "time"
    RATE = "rate"
    SIZE = "size"

    @property
    def example(self) -> str:
        """A number of this dimension, as it is written."""
        return {"count": "0", "ratio": "97%", "time": "5ms", "rate": "100Mbit", "size": "4MiB"}[self.value]


@dataclass(frozen=True, slots=True)
class QuantityKind:
    """One row of the table."""

    name: str  # as written, without argument; `p<N>` stands for all percentiles
    dimension: Dimension  # of its values
    by_lateness: LatenessEffect  # how a late machine changes them
    argument: Argument | None = None  # None, or what stands in the parentheses
    # which of two values is the better one; None where that depends on what is shown, as of packets that are
    # lost: who sends more loses more
    better: Better | None = None
    has_windows: bool = True  # whether `before`, `during` and `after` a fault make sense
    needs_argument: bool = True  # whether the argument may not be left out
    unit: Literal["", "steps/s", "packets", "frames"] = ""  # of a count that has one

    @property
    def grows(self) -> bool:
        """Return True if a value grows with the length of its window."""
        is_level = self.dimension in (Dimension.RATE, Dimension.RATIO) or self.argument == "latency"
        return not is_level and not self.unit.endswith("/s")

    @property
    def argument_help(self) -> str:
        """The argument for the parentheses, for messages."""
        return {
            "workload": "the name of a workload",
            "collective": "the name of a collective or training workload",
            "job": "the name of a collective, training, program or trace workload",
            "program": "the name of a program workload",
            "fault": "the id of a fault",
            "latency": f"one of {', '.join(self.argument_names)}",
            None: "nothing",
        }[self.argument]

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Accepted arguments that do not depend on the scenario."""
        return (*LATENCIES, *WORKLOAD_TIMES) if self.argument == "latency" else ()


QUANTITIES: Final = (
    QuantityKind("goodput", Dimension.RATE, "pace", "workload", "more"),
    QuantityKind("slowest_flow", Dimension.RATE, "rate", "workload", "more"),
    QuantityKind("fastest_flow", Dimension.RATE, "rate", "workload"),
    QuantityKind("lowest_goodput", Dimension.RATE, "dip", "workload", "more"),
    QuantityKind("interruption", Dimension.TIME, "gap", "workload", "less"),
    QuantityKind("fairness", Dimension.RATIO, "share", "workload", "more"),
    QuantityKind("algbw", Dimension.RATE, "pace", "collective", "more"),
    QuantityKind("busbw", Dimension.RATE, "pace", "collective", "more"),
    QuantityKind("job_throughput", Dimension.COUNT, "pace", "job", "more", unit="steps/s"),
    QuantityKind("operations", Dimension.COUNT, "count", "job", "more"),
    QuantityKind("idle", Dimension.RATIO, "share", "job", "less"),
    QuantityKind("loss", Dimension.COUNT, "none", "program", "less"),
    QuantityKind("printed_bandwidth", Dimension.RATE, "rate", "program", "more", has_windows=False),
    QuantityKind("printed_latency", Dimension.TIME, "mean time", "program", "less", has_windows=False),
    QuantityKind("p<N>", Dimension.TIME, "time", "latency", "less"),
    QuantityKind("mean", Dimension.TIME, "mean time", "latency", "less"),
    QuantityKind("max", Dimension.TIME, "time", "latency", "less"),
    QuantityKind("messages", Dimension.COUNT, "count", None, "more"),
    QuantityKind("retransmits", Dimension.COUNT, "resent", unit="packets"),
    QuantityKind("retransmit_ratio", Dimension.RATIO, "added", None, "less"),
    QuantityKind("fault_drops", Dimension.COUNT, "count", unit="frames"),
    QuantityKind("queue_drops", Dimension.COUNT, "added", unit="frames"),
    QuantityKind("queue_drop_ratio", Dimension.RATIO, "added", None, "less"),
    QuantityKind("pauses", Dimension.COUNT, "added", None, "less"),
    QuantityKind("paused_time", Dimension.TIME, "added", None, "less"),
    QuantityKind("stalled_time", Dimension.TIME, "added", None, "less"),
    QuantityKind("deadlocked_ports", Dimension.COUNT, "added", None, "less"),
    QuantityKind("lowest_plane_share", Dimension.RATIO, "share", None, "more"),
    QuantityKind("highest_plane_share", Dimension.RATIO, "share", None, "less"),
    QuantityKind("assumed_bad", Dimension.COUNT, "resent"),
    QuantityKind("qp_errors", Dimension.COUNT, "none", None, "less"),
    QuantityKind(
        "wrong_bytes", Dimension.COUNT, "none", "workload", "less", has_windows=False, needs_argument=False
    ),
    QuantityKind("lost", Dimension.COUNT, "count", "fault", has_windows=False, unit="packets"),
    QuantityKind("lost_ratio", Dimension.RATIO, "count", "fault", "less", has_windows=False),
    QuantityKind("detect", Dimension.TIME, "time", "fault", "less", has_windows=False),
    QuantityKind("localise", Dimension.TIME, "time", "fault", "less", has_windows=False),
    QuantityKind("avoid", Dimension.TIME, "time", "fault", "less", has_windows=False),
    QuantityKind("restore", Dimension.TIME, "time", "fault", "less", has_windows=False),
)

_BY_NAME: Final = {kind.name: kind for kind in QUANTITIES}
_SUGGESTED: Final = (*(name for name in _BY_NAME if name != "p<N>"), "p50", "p90", "p99", "p99.9")


def find_quantity(name: str) -> QuantityKind | str:
    """The row of *name*; if there is none, what is wrong with the name."""
    if percentile_ratio(name) is not None:
        return _BY_NAME["p<N>"]
    if name in _BY_NAME:
        return _BY_NAME[name]
    if re.fullmatch(r"p[0-9.]+", name):
        return f"{name!r} is not a percentile; write one above p0 and below p100, such as p99.9"
    known = ", ".join(_BY_NAME)
    return f"nothing measured is called {name!r}{did_you_mean(name, _SUGGESTED)} (known: {known})"


def percentile_ratio(name: str) -> float | None:
    """The share that a percentile's name says: 0.999 for `p99.9`; None when it is no percentile above p0."""
    match = _PERCENTILE.fullmatch(name)
    if match is None or float(match.group(1)) == 0.0:
        return None
    return float(match.group(1)) / 100.0
