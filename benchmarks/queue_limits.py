"""The queue engine at its limits: how exact at 28 000 round trips/s, what a core can send, what ports cost.

Every round trip crosses four shaped links twice, 8 hops: data frames of 2190 bytes one way, answers of 154
the other. Lines of four links run beside one another, as many as give the load.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from shaped_line import LinkShape

from benchmarks.figure import Figure
from benchmarks.pinger import Interval, Pinger, compile_pinger, private_bpffs, round_trip_ns
from benchmarks.transfer import pause
from mrc_agents.abi import DrainerMode
from mrc_testbed.metrics.histogram import Histogram

REPETITIONS = 3
LIMIT_REPETITIONS = 7  # where the machine is full, what else it does shows
SECONDS = 1.0
WARM_UP_S = 0.5
LINKS = 4
HOPS = 2 * LINKS
ROUND_TRIPS_PER_S = 28_000
RATES_MBPS = (25, 50, 100, 200)
DELAYS_NS = (0, 5_000, 50_000)
WINDOW = 4  # data frames of a line: its pipe, but no queue
OVERLOAD_BPS = 40 * 10**9
FLOWS = 240
COPIES_SMALL, COPIES_LARGE = 12, 250  # 96 and 2 000 ports
MODES = (DrainerMode.AUTO, DrainerMode.PRECISE, DrainerMode.ECO)
TARGETS = {0.5: "<= 10", 0.99: "<= 100"}


def figure(name: str, unit: str, values: Iterator[float], target: str = "") -> Figure:
    return Figure("queue_limits", name, unit, tuple(values), target)


def intervals(pinger: Pinger, repetitions: int = REPETITIONS) -> list[Interval]:
    with pinger:
        pause(WARM_UP_S)
        return [pinger.measure(SECONDS) for _ in range(repetitions)]


def percentiles(
    name: str,
    taken: Sequence[Interval],
    histogram: Callable[[Interval], Histogram],
    targets: dict[float, str],
) -> Iterator[Figure]:
    for ratio, target in targets.items():
        values = [histogram(interval).percentiles_ns((ratio,)) for interval in taken]
        yield figure(
            f"{name} p{ratio * 100:.0f}", "us", (value[0] / 1000 for value in values if value), target
        )


def copies_for(link: LinkShape) -> int:
    """Lines that make ROUND_TRIPS_PER_S together."""
    per_line = WINDOW * 10**9 / round_trip_ns([link] * LINKS, WINDOW)
    return max(1, round(ROUND_TRIPS_PER_S / per_line))


def exactness(bpffs: Path, program: Path) -> Iterator[Figure]:
    for rate_mbps in RATES_MBPS:
        for delay_ns in DELAYS_NS:
            link = LinkShape(rate_mbps * 10**6, delay_ns)
            copies = copies_for(link)
            taken = intervals(Pinger([link] * LINKS, WINDOW, bpffs, program, copies=copies))
            name = f"{rate_mbps} Mbit/s, {delay_ns // 1000} us per hop:"
            yield figure(f"{name} round trips", "1/s", (each.answers_per_s for each in taken))
            yield from percentiles(
                f"{name} RTT error over {HOPS} hops,", taken, lambda each: each.clock_error, TARGETS
            )


def waiting(bpffs: Path, program: Path) -> Iterator[Figure]:
    link = LinkShape(100 * 10**6, 5_000)
    for mode in MODES:
        pinger = Pinger([link] * LINKS, WINDOW, bpffs, program, copies=copies_for(link), mode=mode)
        taken = intervals(pinger)
        name = f"drainer {mode.name.lower()}, {ROUND_TRIPS_PER_S:,} round trips/s:"
        yield figure(f"{name} share of a core", "%", (each.drainer_cpu_ratio * 100 for each in taken))
        yield from percentiles(
            f"{name} RTT error,", taken, lambda each: each.clock_error, {0.5: "", 0.99: ""}
        )


def throughput(bpffs: Path, program: Path) -> Iterator[Figure]:
    links = [LinkShape(OVERLOAD_BPS)] * LINKS
    for name, is_direct, drainer_count, target in (
        ("veth links, one drainer", False, 1, ">= 200,000"),
        ("direct links, one drainer", True, 1, ">= 400,000"),
        ("direct links, two drainers", True, 2, ""),
    ):
        pinger = Pinger(
            links,
            FLOWS // COPIES_SMALL,
            bpffs,
            program,
            copies=COPIES_SMALL,
            drainer_count=drainer_count,
            is_direct=is_direct,
        )
        taken = intervals(pinger, LIMIT_REPETITIONS)
        yield figure(
            f"most round trips over {HOPS} hops, {name}",
            "1/s",
            (each.answers_per_s for each in taken),
            target,
        )


def port_cost(bpffs: Path, program: Path) -> Iterator[Figure]:
    """CPU time of all cores per frame and hop, with few and many ports, few and many of them busy."""
    links = [LinkShape(OVERLOAD_BPS)] * LINKS
    for copies, busy_copies, is_direct in (
        (COPIES_SMALL, COPIES_SMALL, False),
        (COPIES_LARGE, COPIES_SMALL, False),
        (COPIES_LARGE, COPIES_LARGE, False),
        (COPIES_SMALL, COPIES_SMALL, True),
        (COPIES_LARGE, COPIES_SMALL, True),
        (COPIES_LARGE, COPIES_LARGE, True),
    ):
        pinger = Pinger(
            links,
            FLOWS // busy_copies or 1,
            bpffs,
            program,
            copies=copies,
            busy_copies=busy_copies,
            is_direct=is_direct,
        )
        taken = intervals(pinger, LIMIT_REPETITIONS)
        kind = "direct" if is_direct else "veth"
        yield figure(
            f"CPU per frame and hop, {kind}, {copies * HOPS:,} ports, {busy_copies * HOPS:,} of them busy",
            "ns",
            (each.busy_cores * 10**9 / (each.answers_per_s * HOPS) for each in taken),
        )


def _part(measure: Callable[[Path, Path], Iterator[Figure]]) -> Iterator[Figure]:
    program = compile_pinger()
    with private_bpffs() as bpffs:
        yield from measure(bpffs, program)


PARTS = {measure.__name__: partial(_part, measure) for measure in (exactness, waiting, throughput, port_cost)}


def run() -> Iterator[Figure]:
    for part in PARTS.values():
        yield from part()
