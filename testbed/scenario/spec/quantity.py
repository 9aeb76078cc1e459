"""The quantities of expectations: every measured one, its dimension and its meaning. Pure.

The reference page is generated from this table; `scenario.measure.measurement` has one function per entry.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

from testbed.errors import did_you_mean

LatencyName = Literal["message_completion", "packet_rtt"]
LATENCIES: Final[tuple[LatencyName, ...]] = ("message_completion", "packet_rtt")

WORKLOAD_TIMES: Final = ("step_time", "collective_time")
"""Times that each workload has of its own; the workload follows in parentheses: `p99(step_time(job))`."""

_PERCENTILE: Final = re.compile(r"p([0-9]{1,2}(?:\.[0-9]{1,4})?)")


Better = Literal["more", "less"]


class Dimension(Enum):
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
    """One row of the table.

    Attributes:
        name: as written, without argument; `p<N>` stands for all percentiles.
        dimension: of its values.
        description: meaning in one sentence, for the reference page.
        argument: None, or what stands in the parentheses.
        has_windows: whether `before`, `during` and `after` a fault make sense.
        needs_argument: whether the argument may not be left out.
        better: which of two values is the better one; None where that depends on what is shown.
        unit: of a count that is one per second.
    """

    name: str
    dimension: Dimension
    description: str
    argument: Literal["workload", "collective", "fault", "latency"] | None = None
    has_windows: bool = True
    needs_argument: bool = True
    better: Better | None = None
    unit: Literal["", "steps/s"] = ""

    @property
    def argument_help(self) -> str:
        """The argument for the parentheses, for messages."""
        return {
            "workload": "the name of a workload",
            "collective": "the name of a collective or training workload",
            "fault": "the id of a fault",
            "latency": f"one of {', '.join(self.argument_names)}",
            None: "nothing",
        }[self.argument]

    @property
    def argument_names(self) -> tuple[str, ...]:
        """Accepted arguments that do not depend on the scenario."""
        return (*LATENCIES, *WORKLOAD_TIMES) if self.argument == "latency" else ()


QUANTITIES: Final = (
    QuantityKind(
        "goodput",
        Dimension.RATE,
        "Payload of the workload acknowledged for the first time, per second, summed over its flows.",
        argument="workload",
        better="more",
    ),
    QuantityKind(
        "slowest_flow",
        Dimension.RATE,
        "Goodput of the slowest flow.",
        argument="workload",
        better="more",
    ),
    QuantityKind("fastest_flow", Dimension.RATE, "Goodput of the fastest flow.", argument="workload"),
    QuantityKind(
        "lowest_goodput",
        Dimension.RATE,
        "Goodput of the workload in the worst 200 ms of the window.",
        argument="workload",
        better="more",
    ),
    QuantityKind(
        "interruption",
        Dimension.TIME,
        "Longest time without an acknowledgement for the workload, in steps of readings (100 ms).",
        argument="workload",
        better="less",
    ),
    QuantityKind(
        "fairness",
        Dimension.RATIO,
        "Jain's index of the flows' goodputs: 100% if all are equal, 1/n if one flow has everything.",
        argument="workload",
        better="more",
    ),
    QuantityKind(
        "algbw",
        Dimension.RATE,
        "Data of a rank divided by the mean time of the workload's collectives.",
        argument="collective",
        better="more",
    ),
    QuantityKind(
        "busbw",
        Dimension.RATE,
        "algbw times the collective's bus factor: what the busiest NIC had to send meanwhile.",
        argument="collective",
        better="more",
    ),
    QuantityKind(
        "job_throughput",
        Dimension.COUNT,
        "Training steps, or collectives, per second of the window; a step with one half in it counts half.",
        argument="collective",
        better="more",
        unit="steps/s",
    ),
    QuantityKind(
        "operations",
        Dimension.COUNT,
        "Collectives in the window: `during` counts all that overlap it, other windows only whole ones.",
        argument="collective",
        better="more",
    ),
    QuantityKind(
        "p<N>",
        Dimension.TIME,
        "Percentile N (such as p50, p99, p99.9) of all times recorded in the window, over all NICs; "
        "`step_time(w)` and `collective_time(w)` are those of a workload, such as p99(step_time(job)).",
        argument="latency",
        better="less",
    ),
    QuantityKind(
        "mean",
        Dimension.TIME,
        "Arithmetic mean of all times recorded in the window.",
        argument="latency",
        better="less",
    ),
    QuantityKind(
        "max", Dimension.TIME, "Largest time recorded in the window.", argument="latency", better="less"
    ),
    QuantityKind(
        "messages", Dimension.COUNT, "Messages completed in the window, over all NICs.", better="more"
    ),
    QuantityKind(
        "retransmits", Dimension.COUNT, "Retransmitted packets in the window, over all NICs.", better="less"
    ),
    QuantityKind(
        "fault_drops",
        Dimension.COUNT,
        "Packets, including EV probes, that down links and loss faults dropped in the window.",
    ),
    QuantityKind(
        "queue_drops",
        Dimension.COUNT,
        "Packets that full switch or NIC queues dropped in the window.",
        better="less",
    ),
    QuantityKind(
        "pauses",
        Dimension.COUNT,
        "PFC frames that paused a port in the window, over all ports.",
        better="less",
    ),
    QuantityKind(
        "paused_time",
        Dimension.TIME,
        "Time that PFC paused ports in the window, summed over ports.",
        better="less",
    ),
    QuantityKind(
        "stalled_time",
        Dimension.TIME,
        "Time that data waited because PFC or missing credit held its port, summed over ports.",
        better="less",
    ),
    QuantityKind(
        "deadlocked_ports",
        Dimension.COUNT,
        "Deadlocked ports at the end of the window: flow control holds each because it waits for another.",
        better="less",
    ),
    QuantityKind(
        "lowest_plane_share",
        Dimension.RATIO,
        "Share of the plane with the fewest bytes in all bytes that hosts sent.",
        better="more",
    ),
    QuantityKind(
        "highest_plane_share", Dimension.RATIO, "Share of the plane with the most bytes.", better="less"
    ),
    QuantityKind("assumed_bad", Dimension.COUNT, "Times that an EV became ASSUMED_BAD in the window."),
    QuantityKind(
        "qp_errors", Dimension.COUNT, "QPs that went to the error state in the window.", better="less"
    ),
    QuantityKind(
        "wrong_bytes",
        Dimension.COUNT,
        "Wrong bytes of received memory or of results; of all workloads, or of one.",
        argument="workload",
        has_windows=False,
        needs_argument=False,
        better="less",
    ),
    QuantityKind(
        "lost",
        Dimension.COUNT,
        "Data packets that the fault dropped, in all its occurrences; lost EV probes do not count.",
        argument="fault",
        has_windows=False,
        better="less",
    ),
    QuantityKind(
        "detect",
        Dimension.TIME,
        "Time from the start of the fault until an EV leaves an affected path; maximum over occurrences.",
        argument="fault",
        has_windows=False,
        better="less",
    ),
    QuantityKind(
        "localise",
        Dimension.TIME,
        "Time from the start of the fault until link probes suspect all its links; maximum over occurrences.",
        argument="fault",
        has_windows=False,
        better="less",
    ),
    QuantityKind(
        "avoid",
        Dimension.TIME,
        "Time from the start of the fault to the last packet that it drops; maximum over occurrences.",
        argument="fault",
        has_windows=False,
        better="less",
    ),
    QuantityKind(
        "restore",
        Dimension.TIME,
        "Time from the repair until the last affected EV is GOOD again; maximum over occurrences.",
        argument="fault",
        has_windows=False,
        better="less",
    ),
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
