"""The cost of observing: CPU time per scrape and per sampler reading, on a lab of 24 switches and 8 hosts."""

import time
from collections.abc import Callable, Iterator

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab
from mrc_testbed.metrics.collector import open_reader
from mrc_testbed.metrics.exporter import Exporter
from mrc_testbed.metrics.take_reading import take_reading
from mrc_testbed.topology.spec import TopologySpec

SPEC = TopologySpec(planes=4, t0=2, t1=4, hosts_per_t0=4)
SHAPED = SPEC.model_copy(update={"port_rate": 20_000_000})
"""The same with queues, which have histograms and gauges of their own."""

REPETITIONS = 7
CALLS = 10


def run() -> Iterator[Figure]:
    for name, spec in (("unshaped", SPEC), ("shaped", SHAPED)):
        yield from observing(name, spec)


def observing(name: str, spec: TopologySpec) -> Iterator[Figure]:
    with live_lab(spec) as lab, Transfer(lab, 0, 5):
        exporter = Exporter([lab.name])
        page_bytes = len(exporter.page())
        scrape_ms = cpu_ms(exporter.page)
        exporter.close()
        reader = open_reader(lab.name)
        take_reading(reader)
        reading_ms = cpu_ms(lambda: take_reading(reader))
        reader.close()
    what = f"exporter at one scrape a second, {name}"
    yield Figure("exporter_cost", what, "% of a core", core_percent(scrape_ms, 1), "<= 1")
    yield Figure("exporter_cost", f"size of a page, {name}", "KB", (page_bytes / 1000,))
    what = f"sampler at ten readings a second, {name}"
    yield Figure("exporter_cost", what, "% of a core", core_percent(reading_ms, 10))


def cpu_ms(call: Callable[[], object]) -> tuple[float, ...]:
    """CPU time of this thread per call, milliseconds: (REPETITIONS,)."""
    samples = []
    for _ in range(REPETITIONS):
        begun_ns = time.thread_time_ns()
        for _ in range(CALLS):
            call()
        samples.append((time.thread_time_ns() - begun_ns) / CALLS / 1e6)
    return tuple(samples)


def core_percent(cost_ms: tuple[float, ...], calls_per_second: float) -> tuple[float, ...]:
    """Share of a core in percent, of calls that take so many milliseconds of CPU time each."""
    return tuple(100 * cost * calls_per_second / 1000 for cost in cost_ms)
