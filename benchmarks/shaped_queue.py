"""The queue engine by itself: how exact, how fast and how idle it is, on one link and on a chain of four.

Data frames of 2190 bytes go one way, answers of 154 bytes the other; each answer becomes the next data frame.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from shaped_line import LinkShape

from benchmarks.figure import Figure
from benchmarks.pinger import DATA_BYTES, Interval, Pinger, compile_pinger, private_bpffs
from benchmarks.transfer import pause
from mrc_testbed.metrics.histogram import Histogram

REPETITIONS = 3
SECONDS = 1.0
WARM_UP_S = 0.3
RATES_MBPS = (25, 50, 100, 200)
DELAY_NS = 5_000
WINDOW = 64
OVERLOAD_BPS = 40 * 10**9
RATIOS = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def lines(rate_bps: int) -> dict[str, list[LinkShape]]:
    """The lines measured; the drainer needs a switch, so an unshaped link follows the single one."""
    shape = LinkShape(rate_bps, DELAY_NS)
    return {"1 link": [shape, LinkShape(0)], "4 links": [shape] * 4}


def intervals(links: list[LinkShape], window: int, bpffs: Path, program: Path) -> list[Interval]:
    with Pinger(links, window, bpffs, program) as pinger:
        pause(WARM_UP_S)
        return [pinger.measure(SECONDS) for _ in range(REPETITIONS)]


def figure(name: str, unit: str, values: Iterator[float], target: str = "") -> Figure:
    return Figure("shaped_queue", name, unit, tuple(values), target)


def percentiles(
    name: str, taken: list[Interval], histogram: Callable[[Interval], Histogram]
) -> Iterator[Figure]:
    for label, ratio in RATIOS.items():
        values = [histogram(interval).percentiles_ns((ratio,)) for interval in taken]
        yield figure(f"{name} {label}", "us", (value[0] / 1000 for value in values if value))


def run() -> Iterator[Figure]:
    program = compile_pinger()
    worst_model_error_ns = 0
    with private_bpffs() as bpffs:
        for rate_mbps in RATES_MBPS:
            rate_bps = rate_mbps * 10**6
            for line_name, links in lines(rate_bps).items():
                name = f"{line_name}, {rate_mbps} Mbit/s:"
                full = intervals(links, WINDOW, bpffs, program)
                delivered = (each.answers_per_s * DATA_BYTES * 8 / rate_bps * 100 for each in full)
                yield figure(f"{name} delivered, window {WINDOW}", "% of capacity", delivered, ">= 99")
                if len(links) == 4:
                    yield from percentiles(
                        f"{name} RTT error, window {WINDOW},", full, lambda each: each.clock_error
                    )
                lone = intervals(links, 1, bpffs, program)
                yield from percentiles(f"{name} RTT error, window 1,", lone, lambda each: each.clock_error)
                yield figure(
                    f"{name} drainer's share of a core, window {WINDOW}",
                    "%",
                    (each.drainer_cpu_ratio * 100 for each in full),
                )
                worst_model_error_ns = max(
                    worst_model_error_ns, *(each.model_error.max_ns for each in (*full, *lone))
                )
        yield figure("RTT error in model time, worst of all", "ns", iter([worst_model_error_ns]), "0")
        over = intervals([LinkShape(OVERLOAD_BPS)] * 4, WINDOW, bpffs, program)
        yield figure(
            "most round trips over 4 links, one drainer core",
            "1/s",
            (o.answers_per_s for o in over),
            ">= 200,000",
        )
        yield figure("most frame hops, one drainer core", "1/s", (o.answers_per_s * 8 for o in over))
        idle = intervals(lines(10**8)["4 links"], 0, bpffs, program)
        yield figure(
            "drainer's share of a core, no traffic",
            "%",
            (each.drainer_cpu_ratio * 100 for each in idle),
            "<= 5",
        )
